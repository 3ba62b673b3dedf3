"""The code of the README runs and prints what the README says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PRINTS = [line for line in "\n".join(BLOCKS).splitlines() if line.startswith("print(")]
CLAIM = re.compile(r"#\s*(0\.\d+)")


def test_the_code_runs_and_prints_the_scores_it_claims(capsys):
    assert len(BLOCKS) >= 4
    exec("\n".join(BLOCKS), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(PRINTS)  # one line each
    claims = {place: CLAIM.search(line) for place, line in enumerate(PRINTS)}
    claimed = {place: float(found[1]) for place, found in claims.items() if found}
    assert len(claimed) == 8
    shown = {place: float(printed[place]) for place in claimed}
    assert shown == pytest.approx(claimed, abs=0.011)
    decisions = printed[8].partition("[")[2].strip("]").split()
    assert len(decisions) == 5
    assert set(decisions) <= {"1", "-1"}


def test_each_use_has_a_baseline_that_is_scaled_or_learns():
    """A plain distance on unscaled columns would flatter the learnt one."""
    for block in BLOCKS[:2]:
        assert "StandardScaler(), knn" in block
        assert "LogisticRegression" in block
    assert "plain distance" in BLOCKS[2]
