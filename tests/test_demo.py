"""`make demo` tells what was learnt, compares it with the Euclidean distance and draws it."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Euclidean
from tatml._cli import demo

Image = pytest.importorskip("PIL.Image")


def test_the_demonstration_prints_scores_and_draws_pictures(tmp_path, capsys):
    metric = demo.main(str(tmp_path))
    printed = capsys.readouterr().out
    rows = {line[:20].strip(): line[20:].split() for line in printed.splitlines()}
    euclidean, learnt = rows["Euclidean distance"], rows["TATML"]
    assert len(euclidean) == len(learnt) == 4
    for name, worse, better in zip(["kNN", "AUC", "balanced"], euclidean, learnt, strict=False):
        assert float(worse) < float(better) <= 1, name
    assert learnt[-1] == f"{metric.threshold_:.3g}"
    assert f"Learnt threshold: {metric.threshold_:.4f}." in printed
    data = demo.split_wine()
    for name, row in (("TATML", learnt), ("Euclidean", euclidean)):
        other = (
            metric if name == "TATML" else Euclidean(random_state=0).fit(data.train, data.y_train)
        )
        knn = KNeighborsClassifier(3).fit(other.transform(data.train), data.y_train)
        assert row[0] == f"{knn.score(other.transform(data.test), data.y_test):.3f}"
        assert row[3] == f"{other.threshold_:.3g}"
    again = TATML(random_state=0).fit(data.train, data.y_train)
    assert again.threshold_ == metric.threshold_
    assert "iteration" in printed or "primal" in printed  # the lines of verbose=True
    pictures = [tmp_path / f"{name}.png" for name in ("distances", "metric", "convergence")]
    for path in pictures:
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert image.info["dpi"] == pytest.approx((110, 110), abs=0.1)
    assert printed.splitlines()[-1] == "Pictures: " + " ".join(map(str, pictures))


def test_the_halves_share_no_wine():
    data = demo.split_wine()
    assert len(data.train) == len(data.test) == 89
    rows = {tuple(row) for row in [*data.train, *data.test]}
    assert rows == {tuple(row) for row in load_wine().data}
    same = data.y_test[data.pairs[:, 0]] == data.y_test[data.pairs[:, 1]]
    assert (same == (data.labels == 1)).all()
    assert np.bincount(data.y_train).tolist() == [29, 36, 24]  # of 59, 71 and 48
    assert set(data.labels.tolist()) == {-1, 1}
    # 500 similar pairs per class, or all that 30 and 24 wines have
    assert (data.labels == 1).sum() == 30 * 29 / 2 + 500 + 24 * 23 / 2
    pairs, labels = demo.draw_held_out_pairs(data.y_test, seed=1)
    assert (pairs == data.pairs).all()
    assert (labels == data.labels).all()
