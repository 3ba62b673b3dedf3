"""The paths of newcomers: the code of a tutorial, and nothing else, gives a result and a picture.

tests/external/newcomers.py does the same in new environments, with the commands of the pages.
Here the pages run in the process of the tests, which has imported the libraries already.
"""

import ast
import importlib.util
import re
import sys
import warnings

import pytest
import sklearn
from docs_helpers import DOCS, ROOT, code_of, read

from tatml import TATML

# What the library itself needs, and the standard library.
ALWAYS = {"numpy", "scipy", "sklearn", "tatml", *sys.stdlib_module_names}


@pytest.fixture
def run_page(tmp_path, monkeypatch, capfd):
    """A function that runs the blocks of a tutorial in an empty folder, and returns the output."""
    pytest.importorskip("matplotlib").use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("HOME", str(tmp_path))  # MNE writes its settings there
    monkeypatch.chdir(tmp_path)

    def run(name):
        page = DOCS / "tutorials" / f"{name}.md"
        capfd.readouterr()
        with plt.rc_context(), sklearn.config_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning, FutureWarning):
                warnings.simplefilter("error", category)
            exec(compile(code_of(page), page.name, "exec"), {"__name__": "__main__"})
        for number in plt.get_fignums():
            plt.figure(number).savefig(f"picture_{number}.png")
        return capfd.readouterr().out

    plt.close("all")
    yield run
    plt.close("all")


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def number_after(words, printed):
    found = re.search(re.escape(words) + r"\s+(?:\w+ )*?(\d+\.\d+)", printed)
    assert found, f"{words} is not in:\n{printed}"
    return float(found[1])


def pictures_in(folder):
    """Return the number of pictures, each of which shows something."""
    from matplotlib.image import imread

    pictures = [imread(path) for path in folder.glob("picture_*.png")]
    assert all(picture[..., :3].std() > 0.05 for picture in pictures)
    return len(pictures)


def test_with_a_table(run_page, tmp_path):
    printed = run_page("tables")
    names = ("scaled, 15 neighbours", "boosted trees", "make_table_pipeline")
    scaled, trees, ours = (number_after(f"{name:21} accuracy", printed) for name in names)
    assert scaled + 0.05 < min(trees, ours)
    losses = [float(found) for found in re.findall(r"log loss (\d\.\d+)", printed)]
    assert losses[2] < losses[0]
    assert "9 columns have become" in printed
    assert "'customer': 'no value occurs twice'" in printed
    assert re.search(r"^joined: tells little", printed, re.M)
    assert "CONVERGED" in printed
    assert pictures_in(tmp_path) == 3


def test_tables_of_words_dates_and_missing_values_are_refused_as_the_tutorial_says():
    pd = pytest.importorskip("pandas")
    assert "strings, dates and NaN are refused by `TATML`" in read(DOCS / "tutorials" / "tables.md")
    numbers = pd.DataFrame({"a": [0.0, 1.0, 0.1, 1.1], "b": [True, False, True, False]})
    labels = [0, 1, 0, 1]
    assert TATML().fit(numbers, labels).n_features_in_ == 2
    for wrong in (["x", "y", "x", "y"], pd.Timestamp("2026-01-01"), [1.0, None, 2.0, 3.0]):
        with pytest.raises((TypeError, ValueError), match=r"X: expected (a table of finite )?real"):
            TATML().fit(numbers.assign(b=wrong), labels)


def test_with_covariance_matrices(run_page, tmp_path):
    pytest.importorskip("mne")
    pytest.importorskip("pyriemann")
    printed = run_page("covariances")
    names = ("plain distance", "metric of the rows", "learnt distance")
    plain, rows, learnt = (number_after(f"one band, {name}", printed) for name in names)
    assert plain + 0.1 < rows < learnt
    assert number_after("pyRiemann: one band, MDM", printed) < learnt
    assert printed.count(f"accuracy {learnt:.3f}") == 2  # the same from MNE's Epochs
    several = number_after("three bands, learnt distance", printed)
    assert several > learnt + 0.03  # as the page says of these signals
    assert pictures_in(tmp_path) == 2


def test_the_recommended_form_for_recordings_is_the_better_one():
    """One band in the tangent space, as vectors: .889 on ten recordings, against .818."""
    page = read(DOCS / "tutorials" / "covariances.md")
    first = re.search(r"```python\n(from sklearn\.model_selection.*?)```", page, re.DOTALL)[1]
    assert "bands=[(8, 30)]" in first
    assert "one_band, TangentSpace(), Vectorize(), TATML(random_state=0), knn" in first
    for text in (page, read(DOCS / "features_spd.md")):
        text = " ".join(text.split())
        assert re.search(r"ten motor-imagery recordings.*?\.889.*?\.818", text)
    for recommends in (page, read(DOCS / "features_spd.md"), read(ROOT / "README.md")):
        assert "bands=[(8, 30)]" in recommends
        assert "bank, LogEuclidean" not in recommends


def test_with_embeddings(run_page, tmp_path):
    printed = run_page("embeddings")
    cosine, learnt, midpoint = map(float, re.findall(r"AUC (0\.\d+|1\.0+)", printed))
    assert cosine + 0.05 < learnt < midpoint
    matched = [float(rate) for rate in re.findall(r"false match +([\d.]+)%", printed)]
    missed = [float(rate) for rate in re.findall(r"missed +([\d.]+)%", printed)]
    assert max(matched) < 1.2
    assert missed[2] < missed[1] / 2 < missed[0] / 4
    assert "as by the estimator" in printed
    assert pictures_in(tmp_path) == 2


def test_with_two_lists_of_records(run_page, tmp_path):
    printed = run_page("linkage")
    metric, forest = map(float, re.findall(r"F1 (0\.\d+)", printed))
    assert metric < forest
    found = re.findall(r"precision (\d\.\d+), recall (\d\.\d+)", printed)
    (best, recall), (drawn, more), (rare, fewer) = (map(float, pair) for pair in found)
    assert 0.95 < drawn < best < rare  # fewer true pairs: a stricter threshold
    assert fewer < recall < more
    assert "strategy='precision', method='approximate'" in printed
    assert re.search(r"min_rate: expected at least \d+ independent dissimilar pairs", printed)
    assert pictures_in(tmp_path) == 1


def test_with_the_paper(run_page, tmp_path):
    printed = run_page("paper")
    thresholds = [float(number) for number in re.findall(r"threshold (\d\.\d+)", printed)]
    assert thresholds[0] == pytest.approx(thresholds[1], rel=1e-3)
    assert pictures_in(tmp_path) == 2


def test_the_start_page_tells_what_its_script_finds():
    plt = pytest.importorskip("matplotlib.pyplot")
    text = read(DOCS / "index.md")
    names = {}
    exec(code_of(DOCS / "index.md"), names)
    assert names["metric"].result_.gap >= 0
    with plt.rc_context({"backend": "agg"}):
        figure, found = load("start_picture", DOCS / "start_picture.py").draw()
        plt.close(figure)
    (plain, plain_right), (learnt, learnt_right) = found
    assert f"from {plain:.3f} to {learnt:.3f}" in text
    assert f"{100 * plain_right:.0f} % to {100 * learnt_right:.0f} %" in text


@pytest.mark.parametrize("name", ["tables", "covariances", "embeddings", "linkage", "paper"])
def test_a_tutorial_names_what_it_needs(name):
    page = read(DOCS / "tutorials" / f"{name}.md")
    command = re.search(r"`pip install (\"\.\[[\w,]+\]\"[^`]*)`", page)
    assert command, "the page has to say what to install"
    named = set(re.findall(r"[\w-]+", command[1])) | ALWAYS
    if "eeg" in named:
        named |= {"mne", "pyriemann"}
    if "plot" in named:
        named.add("matplotlib")
    imported = set()
    for node in ast.walk(ast.parse(code_of(DOCS / "tutorials" / f"{name}.md"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert imported - named == set()
    assert named & {"plot", "matplotlib"}, "the page ends with a picture"


def test_the_site_runs_the_same_blocks():
    run_pages = load("run_pages", DOCS / "_ext" / "run_pages.py")
    page = DOCS / "tutorials" / "tables.md"
    assert "\n".join(run_pages.blocks_of(read(page))) == code_of(page)
    assert len(run_pages.blocks_of(read(page))) > 4


def test_the_clean_environments_follow_the_same_pages():
    source = read(ROOT / "tests" / "external" / "newcomers.py")
    assert 'PAGES = ("tables", "covariances", "embeddings")' in source
