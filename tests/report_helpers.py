"""Records that look like those of a run, for tests of the report."""

import json

from tatml_paper.settings import PRINTED, SCALES

ATTACK = "<script>alert(1)</script>"
ATTRIBUTE_ATTACK = '"><img src=x onerror=alert(2)>'


def make_record(method="euc", repeat=0, accuracy=90.0, **changes):
    record = {
        "experiment": "table1",
        "dataset": "virus",
        "split": "halves",
        "features": "M=1;(1)",
        "method": method,
        "setting": {},
        "repeat": repeat,
        "accuracy": accuracy,
        "params": {"C": 10.0},
        "b0": 0.5,
        "threshold": 0.707,
        "gap": 1e-9,
        "converged": True,
        "seconds": 2.0,
        "auc": 0.9,
        "eer": 15.0,
        "balanced_learnt": None if method == "euc" else 84.0,
        "balanced_calibrated": 85.0,
        "n_train": 750,
        "n_test": 750,
        "n_pairs": 150,
        "seed": 7 + repeat,
        "versions": {"tatml": "0.1.0", "commit": "abc123"},
        "date": "2025-01-01T00:00:00+00:00",
        "data_digest": "d",
        "digest": "m",
        **changes,
    }
    named = ("experiment", "dataset", "split", "features", "method", "setting", "repeat")
    return {**record, "key": json.dumps([record[name] for name in named])}


def table_records(star=None):
    """All nine cells, each of the paper's methods at its printed number, TATML* as `star` says."""
    records = []
    for dataset, rows in ((name, PRINTED[name]) for name in ("eth80", "brodatz", "virus")):
        for place, (features, _) in enumerate(SCALES):
            where = {"dataset": dataset, "features": features}
            means = {method: values[place] for method, values in rows.items()}
            means["tatml_star"] = max(means.values()) + (star or {}).get((dataset, features), 1.0)
            for method, mean in means.items():
                for repeat, shift in enumerate((-0.5, 0.0, 0.5)):
                    records.append(make_record(method, repeat, mean + shift, **where))
    return records


def object_records():
    where = {"dataset": "eth80", "split": "objects", "features": "M=2;(1,.5)"}
    scores = {"euc": 71.0, "tatml_star": 81.0}
    return [make_record(name, accuracy=value, **where) for name, value in scores.items()]


def sensitivity_records(first_repeat=0):
    where = {"experiment": "sensitivity", "dataset": "eth80", "features": "M=2;(1,.5)"}
    settings = [{"study": "grid", "c0": c0, "mu0": 1.0} for c0 in (0.5, 1.0)]
    settings += [{"study": "decades", "moves": "c0", "c0": 10.0**power} for power in range(-2, 3)]
    return [
        make_record("tatml", repeat, 95.0 + repeat, setting=setting, **where)
        for setting in settings
        for repeat in range(first_repeat, first_repeat + 2)
    ]


def hostile_records():
    """Names and values that would run, if they were not escaped."""
    words = {"params": {ATTACK: ATTRIBUTE_ATTACK}, "versions": {ATTACK: ATTRIBUTE_ATTACK}}
    return [
        make_record(ATTACK, accuracy=50.0, dataset=ATTRIBUTE_ATTACK, features="$x_1$", **words),
        make_record("euc", accuracy=None, error=f"ValueError: {ATTACK}", repeat=9),
    ]


def all_records():
    return table_records() + object_records() + sensitivity_records() + hostile_records()


def write_records(folder, records):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "results.jsonl").write_text(lines, encoding="utf-8")
    return folder
