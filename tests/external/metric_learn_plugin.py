"""A pytest plugin: metric-learn's tests, pointed at tatml's learners instead of its own.

metric-learn's test modules take the learners they test from lists in `test.test_utils`. The lists
are changed in place, before any other module imports them. What is then left are tests with a
parameter `estimator` that is one of ours; all others are deselected.

The outcomes go to the file that the environment variable METRIC_LEARN_OUTCOMES names, as JSON:
``{"name of the test": {"learner": …, "outcome": …, "message": …}}``.
"""

import json
import os
from pathlib import Path

from test import test_utils  # metric-learn's own: it runs in the folder of its source

from tatml import GMML, TATML, Maz, TATMLPairs, TATMLQuadruplets, TATMLTriplets

FROM_PAIRS = [(TATMLPairs(), test_utils.build_pairs)]
FROM_TRIPLETS = [(TATMLTriplets(), test_utils.build_triplets)]
FROM_QUADRUPLETS = [(TATMLQuadruplets(), test_utils.build_quadruplets)]
FROM_TUPLES = FROM_PAIRS + FROM_TRIPLETS + FROM_QUADRUPLETS
FROM_LABELS = [(learner, test_utils.build_classification) for learner in (TATML(), Maz(), GMML())]
LEARNERS = {
    "pairs_learners": FROM_PAIRS,
    "triplets_learners": FROM_TRIPLETS,
    "quadruplets_learners": FROM_QUADRUPLETS,
    "tuples_learners": FROM_TUPLES,
    "classifiers": FROM_LABELS,
    "regressors": [],
    "supervised_learners": FROM_LABELS,
    "metric_learners": FROM_TUPLES + FROM_LABELS,
    "metric_learners_pipeline": FROM_PAIRS + FROM_LABELS,
}

for list_name, learners in LEARNERS.items():
    getattr(test_utils, list_name)[:] = learners
    getattr(test_utils, f"ids_{list_name}")[:] = [type(learner).__name__ for learner, _ in learners]

outcomes = {}


def learner_of(item):
    """The name of our learner that a test is about, or None."""
    estimator = item.callspec.params.get("estimator") if hasattr(item, "callspec") else None
    ours = type(estimator).__module__.startswith("tatml.")
    return type(estimator).__name__ if ours else None


def pytest_collection_modifyitems(config, items):
    ours = [item for item in items if learner_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if not learner_of(item)])
    items[:] = ours
    for item in ours:
        outcomes[item.nodeid] = {"learner": learner_of(item), "outcome": "not run", "message": ""}


def pytest_runtest_logreport(report):
    found = outcomes[report.nodeid]
    if report.when == "call" or report.outcome != "passed":
        found["outcome"] = report.outcome
        found["message"] = report.longreprtext


def pytest_sessionfinish():
    Path(os.environ["METRIC_LEARN_OUTCOMES"]).write_text(json.dumps(outcomes), encoding="utf-8")
