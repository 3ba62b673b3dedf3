"""`make demo` tells what was learnt, compares it with the Euclidean distance and draws it."""

from sklearn.datasets import load_wine

from tatml._cli import demo


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
    pictures = [tmp_path / f"{name}.png" for name in ("distances", "metric", "convergence")]
    for path in pictures:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert printed.splitlines()[-1] == "Pictures: " + " ".join(map(str, pictures))


def test_the_halves_share_no_wine():
    data = demo.split_wine()
    assert len(data.train) == len(data.test) == 89
    rows = {tuple(row) for row in [*data.train, *data.test]}
    assert rows == {tuple(row) for row in load_wine().data}
    same = data.y_test[data.pairs[:, 0]] == data.y_test[data.pairs[:, 1]]
    assert (same == (data.labels == 1)).all()
