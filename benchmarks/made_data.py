"""How hard the made datasets are: 3 nearest neighbours, plain and after LDA (docs/datasets.md).

python benchmarks/made_data.py
"""

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml.datasets import make_filter_bank, make_spd_classes, make_textures
from tatml.features import CovarianceDescriptor, FilterBankCovariance, LogEuclidean, Vectorize

SEEDS = (0, 1, 2)


def descriptors():
    """Yield a name, the maker, the name of its samples and the features of them."""
    grey = CovarianceDescriptor(scales=(1.0,))
    yield (
        "textures: log of the 5×5 covariance of grey values and derivatives",
        make_textures,
        "images",
        [grey],
    )
    yield "SPD matrices: log", make_spd_classes, "matrices", []
    for name, bands in (("in each band", ((8, 13), (18, 26))), ("over 1 to 63 Hz", ((1, 63),))):
        bank = FilterBankCovariance(bands, sfreq=128)
        yield f"signals: log of the covariance {name}", make_filter_bank, "signals", [bank]


def main():
    halves = StratifiedShuffleSplit(5, test_size=0.5, random_state=0)
    knn = KNeighborsClassifier(3)
    print("| descriptor | Euclidean distance | after `LinearDiscriminantAnalysis` |")
    print("|---|---|---|")
    for name, make, samples, first in descriptors():
        plain, learnt = [], []
        for seed in SEEDS:
            data = make(random_state=seed)
            features = make_pipeline(*first, LogEuclidean(), Vectorize(join=True))
            X = features.fit_transform(data[samples])
            lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.01)
            for scores, model in ((plain, knn), (learnt, make_pipeline(lda, knn))):
                scores.append(cross_val_score(model, X, data.target, cv=halves).mean())
        print(f"| {name} |", " / ".join(f"{score:.2f}"[1:] for score in plain), end=" | ")
        print(" / ".join(f"{score:.2f}"[1:] for score in learnt), "|")


if __name__ == "__main__":
    main()
