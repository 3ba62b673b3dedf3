"""The study of the defaults: methods on half of the datasets, in plain and in stressed forms.

Every method is fitted on random halves of every dataset and scored on the other halves: accuracy of
3-NN, area under the ROC curve of pairs (AUC), balanced accuracy of pairs at the learnt threshold
and at the best one in hindsight, what the learnt one lost, and processor seconds of a fit. Printed
per form: means over the datasets, then the differences from the first method, and with --against
those from an earlier run, each with its standard error over the datasets (their repeats are
averaged first), wins and losses.

    python benchmarks/study.py [--half choosing] [--forms plain,rotated,…] [--matrix] [--sets]
        [--methods TATML TATMLCV "TATML(prior='auto')" …] [--only wine,iris] [--repeats 3]
        [--jobs 2] [--json FILE] [--against FILE]
    python benchmarks/study.py --read FILE [--against FILE]

The confirming half is opened once per issue: `--half confirming` needs `--issue N`, and
`confirmations.csv` logs each run.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from common import describe_machine
from joblib import Parallel, delayed
from study_data import (
    SEVERAL_MODES,
    add_half_options,
    as_table,
    chosen_names,
    current_commit,
    load_some,
    open_half,
)
from study_forms import FORMS, TABLES_ONLY, Split, apply_form
from study_methods import make_method
from study_scores import SCORES, fit_and_score, halves


def score_set(name, form, method, repeats, matrix=False):
    """Return the record of a method on a dataset in a form: a list of scores per score."""
    X, y, groups = load_some(name)
    X = X if matrix else as_table(X)
    rows, error = [], None
    for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
        split = apply_form(form, Split(X[train], X[test], y[train], y[test]), seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(fit_and_score(make_method(method, seed), **vars(split), seed=seed))
        except Exception as failure:  # a method that fails on a dataset is a result
            error = repr(failure)[:200]
            rows.append(dict.fromkeys(SCORES, np.nan))
    scores = {score: [row[score] for row in rows] for score in SCORES}
    return {"set": name, "form": form, "method": method, "scores": scores, "error": error}


def run_study(names, forms, methods, repeats=3, matrix=False, jobs=1):
    """Return the records of all datasets, forms and methods."""
    keys = [(name, form, method) for name in names for form in forms for method in methods]
    calls = (delayed(score_set)(*key, repeats, matrix) for key in keys)
    return Parallel(n_jobs=jobs)(calls)


def save_study(path, records, **header):
    """Write the records and a header (half, matrix, repeats) with the commit as JSON."""
    text = json.dumps({"commit": current_commit(), **header, "records": records}, indent=1)
    Path(path).write_text(text, encoding="utf-8")


def mean_scores(records):
    """Return {(form, method): {set: {score: mean over the repeats}}}."""
    table = {}
    for record in records:
        means = {score: float(np.mean(values)) for score, values in record["scores"].items()}
        table.setdefault((record["form"], record["method"]), {})[record["set"]] = means
    return table


def paired(scores, base, score):
    """Return mean difference, its standard error, wins, losses and number of common datasets."""
    both = [name for name in scores if name in base]
    change = np.array([scores[name][score] - base[name][score] for name in both])
    change = change[np.isfinite(change)]
    if not len(change):
        return np.nan, np.nan, 0, 0, 0
    error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
    sign = -1 if score == "lost" else 1
    wins, losses = np.sum(sign * change > 1e-9), np.sum(sign * change < -1e-9)
    return change.mean(), error, int(wins), int(losses), len(change)


def seconds_ratio(scores, base):
    """Return the median over the datasets of the ratio of fit seconds."""
    both = [name for name in scores if name in base]
    return np.median([scores[name]["seconds"] / base[name]["seconds"] for name in both])


def print_means(label, scores):
    values = [np.array([row[score] for row in scores.values()]) for score in SCORES]
    failed = int(np.isnan(values[0]).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no threshold: all NaN
        means = [np.nanmean(v) for v in values[:-1]]
        seconds = np.nanmedian(values[-1])
    note = f"  failed on {failed}" if failed else ""
    print(f"{label[:40]:<40}" + "".join(f"{m:23.4f}" for m in means) + f"{seconds:10.3f}{note}")


def print_change(label, scores, base):
    cells = []
    for score in SCORES[:-1]:
        mean, error, wins, losses, _ = paired(scores, base, score)
        cells.append(f"{mean:+.4f} ±{error:.4f} {f'{wins}:{losses}':>5}")
    cells = "".join(f"{cell:>23}" for cell in cells)
    print(f"{label[:40]:<40}{cells}{seconds_ratio(scores, base):9.2f}×")


def print_form(form, table, before):
    """Print the means of a form, and the differences from the first method and from before."""
    rows = {method: scores for (kind, method), scores in table.items() if kind == form}
    first = next(iter(rows))
    print(f"\n{form} ({len(rows[first])} datasets)")
    print(f"{'':<40}" + "".join(f"{score:>23}" for score in SCORES[:-1]) + f"{'seconds':>10}")
    for method, scores in rows.items():
        print_means(method, scores)
    modes = {m: {n: v for n, v in s.items() if n in SEVERAL_MODES} for m, s in rows.items()}
    for method in list(rows)[1:]:
        print_change(f"  {method} − {first}", rows[method], rows[first])
        if modes[first]:
            print_change("    several modes only", modes[method], modes[first])
    for method, scores in rows.items():
        base = base_of(form, method, before)
        if base:
            print_change(f"  {method} − before", scores, base)


def base_of(form, method, before):
    """Return the earlier scores of the method, or of the only method that there was."""
    there = {name: scores for (kind, name), scores in before.items() if kind == form}
    return there.get(method, next(iter(there.values())) if len(there) == 1 else None)


def print_sets(records):
    for record in records:
        means = "".join(f"{np.mean(record['scores'][score]):8.3f}" for score in SCORES)
        note = f"  {record['error']}" if record["error"] else ""
        print(f"{record['set']:<23}{record['form']:<13}{record['method'][:40]:<40}{means}{note}")


def report(records, before=None, sets=False):
    """Print the means per form and the paired differences, first each dataset if wanted."""
    if sets:
        print(f"{'':<76}" + "".join(f"{score[:7]:>8}" for score in SCORES))
        print_sets(records)
    table = mean_scores(records)
    for form in dict.fromkeys(form for form, _ in table):
        print_form(form, table, mean_scores(before or []))
    for record in records:
        if record["error"]:
            where = f"{record['set']}, {record['form']}, {record['method']}"
            print(f"failed: {where}: {record['error']}", file=sys.stderr)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_half_options(parser)
    parser.add_argument("--forms", default="plain", help='comma-separated, or "all"')
    parser.add_argument("--methods", nargs="+", default=["TATML"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--matrix", action="store_true", help="datasets of matrices, as matrices")
    parser.add_argument("--sets", action="store_true", help="print every dataset too")
    parser.add_argument("--json", help="file to write the scores to")
    parser.add_argument("--against", help="file of an earlier run to compare with")
    parser.add_argument("--read", help="file of an earlier run to print instead of a new run")
    options = parser.parse_args()
    possible = [form for form in FORMS if not (options.matrix and form in TABLES_ONLY)]
    options.forms = possible if options.forms == "all" else options.forms.split(",")
    unknown = [form for form in options.forms if form not in possible]
    if unknown:
        parser.error(f"--forms: expected some of {possible}, got {unknown}")
    return options, parser


def main() -> None:
    options, parser = parse_options()
    before = json.loads(Path(options.against).read_text())["records"] if options.against else []
    if options.read:
        study = json.loads(Path(options.read).read_text())
        open_half(study["half"], options.issue, parser, [f"read {options.read}"])
        return report(study["records"], before, options.sets)
    for method in options.methods:
        make_method(method, 0)  # a misspelt method fails before the run
    print(describe_machine())
    names = chosen_names(options, parser, options.methods, options.matrix)
    records = run_study(
        names, options.forms, options.methods, options.repeats, options.matrix, options.jobs
    )
    if options.json:
        header = {"half": options.half, "matrix": options.matrix, "repeats": options.repeats}
        save_study(options.json, records, **header)
    report(records, before, options.sets)


if __name__ == "__main__":
    main()
