"""The sentences at the top of the page: cells won and lost, and what was not run."""

from __future__ import annotations

from ..cells import BASELINE, FIXED, method_title, printed_numbers
from ..format import format_number
from ..settings import COMPETITORS
from ..standings import Difference, Standing, compare, compare_with_method, compare_with_printed
from .results import Results
from .tables import count_runs

PAPER_CELLS = 9  # three data sets with three feature types each in the paper's Table 1


def summary_lines(results: Results) -> list[str]:
    """Return the main results and the missing runs, one sentence per line."""
    name = method_title(FIXED)
    lines = [f"{name}, the configuration that was fixed beforehand, against each other method:"]
    printed = compare_with_printed(results.scores)
    if printed:
        lines.append(tally(printed, "the best printed number of any method"))
    cells = results.printed_cells or [cell for cell in results.cells if not cell.by_object]
    for method in COMPETITORS:
        standings = compare_with_method(results.scores, method, cells)
        if standings:
            lines.append(tally(standings, f"our own run of {method_title(method)}"))
    lines += [describe_lead(standing) for standing in compare_by_object(results)]
    lines += [line for line in [describe_reached(results)] if line]
    papers_cells = {tuple(printed_numbers(standing.cell).values()) for standing in printed}
    return [*lines, describe_completeness(results, len(papers_cells))]


def tally(standings: list[Standing], rival: str) -> str:
    """Return how many cells were won, and which ones were level or lost."""
    won = sum(standing.difference.is_above for standing in standings)
    line = f"Against {rival}: won {won} of {len(standings)} cells"
    level = [standing for standing in standings if standing.difference.is_level]
    lost = [standing for standing in standings if standing.difference.is_below]
    for word, group in (("level in", level), ("lost", lost)):
        if group:
            named = (f"{s.cell.title} ({_both(s.difference)})" for s in group)
            line += f"; {word} {len(group)}: {', '.join(named)}"
    return line + "."


def _both(difference: Difference) -> str:
    shown = f"{format_number(difference.ours)} against {format_number(difference.theirs)}"
    return f"{shown} {difference.mark}".rstrip()


def compare_by_object(results: Results) -> list[Standing]:
    """Compare the fixed configuration with the plain distance on splits by object."""
    by_object = [cell for cell in results.cells if cell.by_object]
    return compare_with_method(results.scores, BASELINE, by_object)


def describe_lead(standing: Standing) -> str:
    """Return how far the fixed configuration is above another method in one cell."""
    difference = standing.difference
    rival = f"{method_title(standing.rival)} ({format_number(difference.theirs)})"
    ours = f"{standing.cell.title}: {format_number(difference.ours)}"
    return f"{ours}, {difference.text} points against {rival}."


def describe_reached(results: Results) -> str:
    """Return in how many cells our run of the paper's method reaches its printed number."""
    found = []
    for cell in results.printed_cells:
        difference = compare(results.scores[cell].get("tatml", {}), printed_numbers(cell)["tatml"])
        if difference is not None:
            found.append((cell, difference))
    if not found:
        return ""
    below = [
        f"{cell.title} ({_both(difference)})"
        for cell, difference in found
        if difference.is_below and difference.is_significant
    ]
    reached = sum(not difference.is_below for _, difference in found)
    line = f"TATML as in the paper reaches its printed number in {reached} of {len(found)} cells"
    return line + (f"; it is significantly below in {', '.join(below)}." if below else ".")


def describe_completeness(results: Results, n_printed: int) -> str:
    """Describe which runs were made and which are missing."""
    columns = results.scores.values()
    repeats = [len(scores) for column in columns for scores in column.values()] or [0]
    ends = sorted({min(repeats), max(repeats)})
    line = f"{len(results.records)} runs, {' to '.join(map(str, ends))} repeats per cell and method"
    if n_printed < PAPER_CELLS:
        line += f"; {n_printed} of the paper's nine cells were run"
    if results.failed:
        line += f"; {count_runs(results.failed)} failed (see All runs)"
    return line + "."
