"""Record linkage on DBLP-ACM, Abt-Buy and Amazon-Google: classifiers, a metric, and precision.

The folder holds one folder per dataset with `tableA.csv`, `tableB.csv`, `train.csv`, `valid.csv`
and `test.csv`, as the authors of DeepMatcher distribute them ("structured" and "textual" data,
https://github.com/anhaidgroup/deepmatcher/blob/master/Datasets.md). Each pair of records becomes a
comparison vector: per text column Jaro-Winkler, q-gram and cosine similarity of recordlinkage and
the cosine of scikit-learn's TF-IDF of words; the cosines of all texts of a record, by words, by
words with digits (such as model numbers) and by characters; for prices and years the relative
similarity. Missing values compare as 0.

Classifiers learn from the train pairs. The threshold with the best F1 is set on the valid pairs.
For a forest and a logistic regression, a second one promises a precision, for candidates as these
are drawn, with the records as groups; a third one has the precision on the valid pairs. Printed:
F1, precision and recall on the test pairs. Metrics on comparison vectors are the wrong tool, and
measured as such: `TATMLPairs` learns the distance of a comparison vector from that of two equal
records, `TATML` a metric in which neighbours vote.

It needs recordlinkage: pip install recordlinkage

    python benchmarks/linkage.py FOLDER [--only dblp_acm] [--min-rate 0.95 0.8]
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import recordlinkage
from common import describe_machine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_fscore_support
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tatml import TATML, PairThreshold, TATMLPairs

DATASETS = ("dblp_acm", "abt_buy", "amazon_google")
PARTS = ("train", "valid", "test")
METHODS = ("jarowinkler", "qgram", "cosine")
NUMBERS = ("price", "year")
N_NEIGHBORS = 10


# Comparison vectors


def read(folder):
    """Return both tables, and the pairs of each part."""
    tables = [
        pd.read_csv(folder / f"table{letter}.csv", index_col="id", keep_default_na=True)
        for letter in "AB"
    ]
    return tables, {part: pd.read_csv(folder / f"{part}.csv") for part in PARTS}


def compare(tables, pairs):
    """Return the comparison vectors of pairs, shape (n_pairs, n_comparisons)."""
    links = pd.MultiIndex.from_frame(pairs[["ltable_id", "rtable_id"]])
    comparison = recordlinkage.Compare()
    texts = [name for name in tables[0].columns if name not in NUMBERS]
    for name in texts:
        for method in METHODS:
            comparison.string(name, name, method=method)
    columns = [comparison.compute(links, *tables).to_numpy()]
    all_words = {"token_pattern": r"\S+"}
    columns += [compare_words(tables, pairs, [name], **all_words)[:, None] for name in texts]
    with_digits = {"token_pattern": r"\S*\d\S*"}
    for words in (all_words, with_digits, {"analyzer": "char_wb", "ngram_range": (3, 4)}):
        columns.append(compare_words(tables, pairs, texts, **words)[:, None])
    for name in set(NUMBERS) & set(tables[0].columns):
        columns.append(compare_numbers(tables, pairs, name))
    return np.nan_to_num(np.hstack(columns).astype(float))


def compare_words(tables, pairs, names, **options):
    """Return the cosines of the TF-IDF of the words of some columns together."""
    texts = [table[names].fillna("").astype(str).agg(" ".join, axis=1) for table in tables]
    words = TfidfVectorizer(sublinear_tf=True, **options).fit(pd.concat(texts))
    sides = [
        words.transform(text.loc[pairs[column]])
        for text, column in zip(texts, ("ltable_id", "rtable_id"), strict=True)
    ]
    return np.asarray(sides[0].multiply(sides[1]).sum(axis=1)).ravel()


def compare_numbers(tables, pairs, name):
    """Return the relative similarity of two numbers, and whether one is missing."""
    first, second = (
        pd.to_numeric(table[name], errors="coerce").loc[pairs[column]].to_numpy(dtype=float)
        for table, column in zip(tables, ("ltable_id", "rtable_id"), strict=True)
    )
    larger = np.maximum(np.abs(first), np.abs(second))
    near = 1 - np.abs(first - second) / np.where(larger > 0, larger, 1.0)
    return np.stack([near, np.isnan(near)], axis=1)


# Scores of pairs: higher is more alike


def score_by(model, vectors, y):
    """Return the scores of the valid and of the test pairs by a classifier of vectors."""
    model.fit(vectors["train"], y["train"])
    return [model.predict_proba(vectors[part])[:, 1] for part in ("valid", "test")]


def score_by_distance(vectors, y):
    """Return minus the learnt distances of comparison vectors from that of two equal records."""
    pairs = {part: np.stack([1 - x, np.zeros_like(x)], axis=1) for part, x in vectors.items()}
    metric = TATMLPairs(random_state=0).fit(pairs["train"], np.where(y["train"], 1, -1))
    return [metric.pair_score(pairs[part]) for part in PARTS[1:]]


def score_by_neighbors(vectors, y):
    """Return votes of the neighbours in a metric on comparison vectors."""
    scaler = StandardScaler().fit(vectors["train"])
    metric = TATML(random_state=0).fit(scaler.transform(vectors["train"]), y["train"])
    seen = {part: metric.transform(scaler.transform(x)) for part, x in vectors.items()}
    return score_by(KNeighborsClassifier(N_NEIGHBORS, weights="distance"), seen, y)


def score_by_package(name, vectors, y):
    """Return the decisions of a classifier of recordlinkage; it has no threshold."""
    model = getattr(recordlinkage, name)(**({"binarize": 0.7} if name == "ECMClassifier" else {}))
    frames = {part: as_frame(x) for part, x in vectors.items()}
    if name == "ECMClassifier":
        model.fit(frames["train"])
    else:
        model.fit(frames["train"], frames["train"].index[y["train"] == 1])
    return [
        frames[part].index.isin(model.predict(frames[part])).astype(float) for part in PARTS[1:]
    ]


def as_frame(vectors):
    index = pd.MultiIndex.from_arrays([np.arange(len(vectors))] * 2, names=("left", "right"))
    return pd.DataFrame(np.clip(vectors, 0, 1), index=index)


def list_scores(vectors, y):
    """Yield the name and the scores of each method."""
    forest = RandomForestClassifier(500, min_samples_leaf=2, random_state=0, n_jobs=1)
    yield "random forest", score_by(forest, vectors, y)
    yield "gradient boosting", score_by(HistGradientBoostingClassifier(random_state=0), vectors, y)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    yield "logistic regression", score_by(logistic, vectors, y)
    machine = make_pipeline(StandardScaler(), SVC(probability=True, random_state=0))
    yield "support vector machine", score_by(machine, vectors, y)
    yield "naive Bayes, Gaussian", score_by(GaussianNB(), vectors, y)
    yield "TATMLPairs, distance", score_by_distance(vectors, y)
    yield "TATML, 10 neighbours", score_by_neighbors(vectors, y)
    for name in ("LogisticRegressionClassifier", "SVMClassifier", "ECMClassifier"):
        yield f"recordlinkage's {name}", score_by_package(name, vectors, y)


# Thresholds


def find_by_f1(scores, y):
    """Return the judge whose threshold has the best F1 on the valid pairs."""
    judge = PairThreshold("precomputed", greater_is_same=True).fit(scores, np.where(y, 1, -1))
    return judge.calibrate_threshold(scores, np.where(y, 1, -1), strategy="f_beta", beta=1.0)


def find_by_precision(scores, y, pairs, min_rate, confidence):
    """Return the judge whose threshold promises a precision, or why there is none."""
    judge = find_by_f1(scores, y)
    # The records of both tables are the groups.
    groups = np.stack([pairs["ltable_id"], -1 - pairs["rtable_id"]], axis=1)
    labels = np.where(y, 1, -1)
    options = {"strategy": "precision", "min_rate": min_rate, "confidence": confidence}
    try:
        return judge.calibrate_threshold(scores, labels, **options, groups=groups)
    except ValueError as error:
        return str(error)


def print_row(dataset, method, threshold, judge, scores, y):
    if isinstance(judge, str):
        times = judge.partition(", about ")[2].partition(" times")[0]
        print(f"| {dataset} | {method} | {threshold} | refused: {times} times the pairs | | |")
        return
    found = judge.predict_pairs(scores) > 0
    precision, recall, f1, _ = precision_recall_fscore_support(
        y, found, average="binary", zero_division=0
    )
    print(f"| {dataset} | {method} | {threshold} | {f1:.3f} | {precision:.3f} | {recall:.3f} |")


def run(dataset, folder, min_rates):
    tables, pairs = read(folder / dataset)
    vectors = {part: compare(tables, pairs[part]) for part in PARTS}
    y = {part: pairs[part]["label"].to_numpy() for part in PARTS}
    n_pairs = ", ".join(
        f"{part} {len(x)} pairs, {y[part].sum()} same" for part, x in vectors.items()
    )
    print(f"\n{dataset}: {vectors['train'].shape[1]} comparisons; {n_pairs}\n")
    print("| dataset | method | threshold | F1 | precision | recall |")
    print("|" + "---|" * 6)
    for method, (valid, test) in list_scores(vectors, y):
        print_row(dataset, method, "F1", find_by_f1(valid, y["valid"]), test, y["test"])
        if method in ("random forest", "logistic regression"):
            both = (0.95, "promised"), (None, "on the valid pairs")
            for min_rate, (confidence, word) in product(min_rates, both):
                judge = find_by_precision(valid, y["valid"], pairs["valid"], min_rate, confidence)
                name = f"precision {min_rate:g} {word}"
                print_row(dataset, method, name, judge, test, y["test"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with one folder per dataset")
    parser.add_argument("--only", choices=DATASETS, action="append")
    parser.add_argument(
        "--min-rate", type=float, nargs="+", default=(0.95, 0.8), help="the precisions to promise"
    )
    options = parser.parse_args()
    print(describe_machine(), f"recordlinkage {recordlinkage.__version__}", sep=", ")
    start = perf_counter()
    for dataset in options.only or DATASETS:
        run(dataset, options.folder, options.min_rate)
    print(f"{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
