"""A killed fit goes on where it was, and finds the same."""

import subprocess
import sys
import textwrap
import threading
import zipfile
from math import nan

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from tatml import Blocks, learn_metric
from tatml._optim.checkpoint import Checkpoint
from tatml.solvers import Iterate

TIGHT = {"tol": 1e-13, "C": 0.5}


def problem():
    """Digits as two blocks, in their own units: about a dozen Newton steps."""
    X, y = load_digits(return_X_y=True)
    pairs = np.random.default_rng(0).integers(len(X), size=(800, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    kept = [np.flatnonzero((y[pairs[:, 0]] == y[pairs[:, 1]]) == same)[:60] for same in (1, 0)]
    pairs = pairs[np.concatenate(kept)]
    images = X.reshape(-1, 8, 8)
    return Blocks(images[:, :, :4], X[:, 20:30]), pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def point(gap, n_iter=0):
    W = [np.eye(2) * (n_iter + 1), np.diag([1.0, 0.1, 3.0]) / 7]
    return Iterate(n_iter, W, b0=1 / 3, primal=2.0, gap=gap, n_active=5, seconds=0.25)


def assert_same_point(one, other):
    assert len(one.W) == len(other.W)
    for first, second in zip(one.W, other.W, strict=True):
        assert_array_equal(first, second)
    for name in ("n_iter", "b0", "primal", "gap", "dual", "n_active", "seconds"):
        assert getattr(one, name) == getattr(other, name)


# The fit

KILLED = """
    import sys, time
    sys.path[:0] = sys.argv[2:]
    from test_checkpoint import TIGHT, Checkpoint, learn_metric, problem
    checkpoint = Checkpoint(sys.argv[1], every=0)
    def callback(iterate):
        checkpoint(iterate)
        if iterate.n_iter == 8:
            print("at step 8", flush=True)
            time.sleep(600)
    learn_metric(*problem(), **TIGHT, callback=callback)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The file that a process has left which was killed after the 8th step."""
    path = tmp_path_factory.mktemp("killed") / "fit.npz"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path), *filter(None, sys.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(60, process.kill)  # in case it never says a word
        timer.start()
        assert process.stdout.readline() == "at step 8\n"
        process.kill()  # SIGKILL: nothing can be tidied up
        timer.cancel()
    assert process.returncode != 0
    return path


@pytest.fixture(scope="module")
def undisturbed():
    return learn_metric(*problem(), **TIGHT)


def test_a_killed_fit_goes_on_and_finds_the_same(killed, undisturbed):
    start = Checkpoint.load(killed)
    assert start.n_iter == 8
    resumed = learn_metric(*problem(), **TIGHT, init=start)
    assert undisturbed.converged
    assert resumed.converged
    for W, expected in zip(resumed.W, undisturbed.W, strict=True):
        assert_allclose(W, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert_allclose(resumed.b0, undisturbed.b0, rtol=1e-8)
    assert resumed.n_iter < undisturbed.n_iter - 4
    assert resumed.history["primal"][0] == pytest.approx(start.primal, rel=1e-9)
    assert resumed.history["primal"][0] < 0.1 * undisturbed.history["primal"][0]


def test_a_checkpoint_starts_the_other_solver_too(killed, undisturbed):
    start = Checkpoint.load(killed)
    result = learn_metric(*problem(), C=TIGHT["C"], tol=1e-2, init=start, solver="dykstra")
    assert result.converged
    assert result.primal == pytest.approx(undisturbed.primal, rel=1e-2)


def test_of_other_samples_it_is_refused(killed):
    X, pairs, similar = problem()
    with pytest.raises(ValueError, match="init: expected matrices of shapes"):
        learn_metric(X.arrays[0], pairs, similar, init=Checkpoint.load(killed))


# The file


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "fit.npz"
    Checkpoint(path).save(point(0.1, n_iter=3))
    assert_same_point(Checkpoint.load(path), point(0.1, n_iter=3))
    assert_same_point(Checkpoint.load(str(path)), point(0.1, n_iter=3))
    assert list(tmp_path.iterdir()) == [path]


def test_the_best_point_is_kept(tmp_path):
    path = tmp_path / "fit.npz"
    checkpoint = Checkpoint(path, every=0)
    kept = []
    for n_iter, gap in enumerate([nan, 4.0, 2.0, 3.0, 1.0]):
        checkpoint(point(gap, n_iter))
        kept.append(Checkpoint.load(path).n_iter)
    assert kept == [0, 1, 2, 2, 4]


def test_it_is_written_at_once_and_then_after_some_time(tmp_path):
    path = tmp_path / "fit.npz"
    checkpoint = Checkpoint(path)
    written = []
    for n_iter, seconds in enumerate([0, 50, 10, 50, 11]):
        checkpoint._time -= seconds  # the last write was longer ago
        checkpoint(point(10.0 - n_iter, n_iter))
        written.append(Checkpoint.load(path).n_iter)
    assert written == [0, 0, 2, 2, 4]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    Checkpoint(path).save(point(0.2, n_iter=1))

    def break_off(file, **arrays):
        file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("tatml._optim.checkpoint.np.savez", break_off)
    with pytest.raises(KeyboardInterrupt):
        Checkpoint(path).save(point(0.1, n_iter=2))
    assert_same_point(Checkpoint.load(path), point(0.2, n_iter=1))
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_found_at_the_first_step(tmp_path):
    X, pairs, similar = problem()
    with pytest.raises(FileNotFoundError):
        learn_metric(X, pairs, similar, callback=Checkpoint(tmp_path / "nowhere" / "fit.npz"))


def test_without_a_file_the_start_is_the_usual_one(tmp_path):
    assert Checkpoint.load(tmp_path / "fit.npz") is None


@pytest.mark.parametrize("kind", ["text", "empty", "array", "other archive", "too large", "half"])
def test_other_files_are_refused(tmp_path, kind):
    path = tmp_path / f"{kind}.npz"
    if kind == "array":
        with path.open("wb") as file:
            np.save(file, np.eye(2))
    elif kind == "other archive":
        np.savez(path, W0=np.eye(2), b0=1.0)
    elif kind == "too large":  # more rows than an integer of C can count
        with zipfile.ZipFile(path, "w") as archive, archive.open("L0.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (2**70, 2)}
            np.lib.format.write_array_header_1_0(file, header)
    elif kind == "half":
        np.savez(path, W0=np.eye(2))
        path.write_bytes(path.read_bytes()[:-30])
    else:
        path.write_text("W" if kind == "text" else "")
    message = rf"path: expected a file that Checkpoint .*{kind}\.npz"
    with pytest.raises(ValueError, match=message):
        Checkpoint.load(path)


@pytest.mark.parametrize("every", [-1, nan, "1"])
def test_a_wrong_interval_is_named(every):
    with pytest.raises((TypeError, ValueError), match="every: expected"):
        Checkpoint("fit.npz", every=every)
