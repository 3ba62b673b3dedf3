"""The code of the README runs and prints what the README says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CLAIM = re.compile(r"print\(cross_val_score\(.*#\s*(0\.\d+)")


def test_the_code_runs_and_prints_the_scores_it_claims(capsys):
    assert len(BLOCKS) >= 4
    exec("\n".join(BLOCKS), {})
    printed = capsys.readouterr().out.splitlines()
    claims = [float(claim) for claim in CLAIM.findall(README)]
    assert len(claims) == 3
    assert [float(line) for line in printed[:3]] == pytest.approx(claims, abs=0.015)
    assert set(printed[4].strip("[]").split()) <= {"1", "-1"}
