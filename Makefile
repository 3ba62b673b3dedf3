# All a fresh machine needs is make and Python 3.11 or newer; the rest goes into $(VENV).

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
# Python compiles what it imports; compiling all packages here takes half of the time of an install.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable
DEMO := build/demo
CODE := $(wildcard src tests benchmarks examples docs)
# The benchmarks of one machine; those of GPUs, metric-learn and clusters are run by hand.
BENCHMARKS := $(filter-out benchmarks/gpu.py benchmarks/against_metric_learn.py,$(wildcard benchmarks/*.py))

# What `make test-wheel` runs, and where it installs the wheel.
TESTS ?= tests
WHEEL_VENV ?= .venv-wheel

# MNE, in the extra eeg, is newer than the oldest versions that we allow.
TEST_EXTRAS := test,eeg

# How much `make fuzz` does: fuzzed calls, problems for the oracle of 60 digits.
CASES ?= 20000
SEEDS ?= 2000
# How many processes `make fuzz` and `make mutants` use.
JOBS ?= 2
# How many random changes `make mutants` tries, and which.
COUNT ?= 150
SEED ?= 0

.PHONY: help demo test coverage mutants fuzz test-metric-learn test-torch test-oldest test-browser test-newcomers test-wheel test-wheel-oldest docs release lint types format bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo     learn a metric and a threshold, run the paper's experiments in small, write a page with pictures"
	@echo "make test     run the tests"
	@echo "make coverage run the tests and show how much of the library they run"
	@echo "make mutants  break the library in COUNT=150 random places and see whether a test fails (JOBS=2)"
	@echo "make fuzz     attack the library: CASES=20000 calls, SEEDS=2000 problems solved with 60 digits (JOBS=2)"
	@echo "make test-metric-learn  run metric-learn's own tests on our estimators"
	@echo "make test-torch         run the tests of PyTorch tensors, on the CPU, and on a GPU if there is one"
	@echo "make test-oldest        run the tests with the oldest versions that we allow"
	@echo "make test-newcomers     follow the three tutorials in clean environments, with what the pages say"
	@echo "make test-browser       look at the site and the report in Chromium, at desktop and phone size"
	@echo "make docs     build the site into build/docs"
	@echo "make test-wheel         run the tests on the built wheel, from outside the source tree (TESTS=tests)"
	@echo "make test-wheel-oldest  the same with the oldest versions that we allow"
	@echo "make release  build wheel and source distribution into dist, and check them"
	@echo "make lint     check style and formatting"
	@echo "make types    check the type annotations"
	@echo "make format   repair style and formatting"
	@echo "make bench    run the benchmarks"
	@echo "make clean    remove all that make has made"

demo: $(VENV)/.with-report
	$(BIN)/python -m tatml_paper.demo $(DEMO)
	$(BIN)/tatml reproduce all --quick --jobs 2 --out $(DEMO)
	$(BIN)/python -m tatml_paper.demo $(DEMO) --end

test: $(VENV)/.with-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses=auto

coverage: $(VENV)/.with-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses=auto --cov=src --cov-branch --cov-report=term:skip-covered

mutants: $(VENV)/.with-test
	$(BIN)/python tests/mutants.py --record --processes $(JOBS)
	$(BIN)/python tests/mutants.py --count $(COUNT) --seed $(SEED) --processes $(JOBS)

fuzz: $(VENV)/.with-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzzing.py --cases $(CASES) --processes $(JOBS)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/oracle.py --seeds 0:$(SEEDS) --processes $(JOBS)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/oracle.py --midpoint --seeds 0:$$(($(SEEDS) / 4)) --processes $(JOBS)

test-metric-learn: .venv-metric-learn/.with-metric-learn
	.venv-metric-learn/bin/python tests/external/run_metric_learn.py build/metric-learn

test-torch: .venv-torch/.with-torch
	@echo 'Tests of GPUs are skipped where PyTorch sees none.'
	OPENBLAS_NUM_THREADS=1 .venv-torch/bin/python -m pytest -q tests/test_torch.py tests/test_strict.py tests/test_nt_scaling.py

test-oldest: build/oldest.txt
	PIP_CONSTRAINT=$(CURDIR)/$< $(MAKE) test VENV=.venv-oldest TEST_EXTRAS=test

docs: .venv-docs/.with-docs
	OPENBLAS_NUM_THREADS=1 .venv-docs/bin/python -m sphinx -b html -W --keep-going -n -q -d build/docs-cache docs build/docs
	@echo 'The site: build/docs/index.html'

# Debian's packages chromium and chromium-driver; without them these tests fail here, and are skipped by make test.
test-browser: $(VENV)/.with-test docs
	TATML_BROWSER=required $(BIN)/python -m pytest -q tests/test_docs_site.py tests/test_docs_browser.py tests/test_report_browser.py

test-newcomers:
	$(PYTHON) tests/external/newcomers.py build/newcomers

# The wheel is installed and tested outside the source tree, so that nothing but the wheel can be imported.
test-wheel: release
	$(PYTHON) -m venv --clear $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	@mkdir -p build/outside
	cd build/outside && OPENBLAS_NUM_THREADS=1 $(abspath $(WHEEL_VENV))/bin/python $(CURDIR)/tests/external/on_wheel.py \
	    $(addprefix $(CURDIR)/,$(TESTS))

test-wheel-oldest: build/oldest.txt
	PIP_CONSTRAINT=$(CURDIR)/$< $(MAKE) test-wheel WHEEL_VENV=.venv-wheel-oldest

# PIP_CONSTRAINT is of the tests: the tools that build need no old versions.
release: .venv-release/.with-release
	rm -rf dist
	PIP_CONSTRAINT= .venv-release/bin/python -m build --outdir dist .
	.venv-release/bin/python -m twine check --strict dist/*
	.venv-release/bin/cffconvert --validate
	.venv-release/bin/python tests/external/check_release.py dist

lint: $(VENV)/.with-test
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.with-test
	$(BIN)/mypy

format: $(VENV)/.with-test
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(VENV)/.with-test
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) .venv-metric-learn .venv-torch .venv-oldest .venv-docs .venv-wheel .venv-wheel-oldest .venv-release docs/api docs/gallery docs/_generated build dist src/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamps: each says that what it names is installed for this pyproject.toml.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tatml needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name a newer one, for example make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.with-report: $(VENV)/.created pyproject.toml
	$(PIP_INSTALL) '.[report]'
	@touch $@

# The test extra holds the report extra, so both are then in place.
$(VENV)/.with-test: $(VENV)/.created pyproject.toml
	$(PIP_INSTALL) '.[$(TEST_EXTRAS)]'
	@touch $(VENV)/.with-report $@

build/oldest.txt: pyproject.toml tests/external/oldest_versions.py
	@mkdir -p $(@D)
	$(PYTHON) tests/external/oldest_versions.py > $@

.venv-release/.with-release: pyproject.toml
	$(PYTHON) -m venv --clear .venv-release
	PIP_CONSTRAINT= .venv-release/bin/python -m pip install --quiet --disable-pip-version-check build twine cffconvert
	@touch $@

.venv-torch/.with-torch: pyproject.toml
	@echo 'Installing PyTorch with all that it brings, into .venv-torch: about 6 GB of disk, some minutes.'
	$(PYTHON) -m venv --clear .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[torch]' \
	    pytest hypothesis array-api-strict
	@touch $@

.venv-docs/.with-docs: pyproject.toml
	@echo 'Installing Sphinx and what the examples use, into .venv-docs: about 1 GB of disk, some minutes.'
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

.venv-metric-learn/.with-metric-learn: pyproject.toml tests/external/metric-learn-environment.txt
	$(PYTHON) -m venv --clear .venv-metric-learn
	.venv-metric-learn/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
	    --requirement tests/external/metric-learn-environment.txt
	@touch $@
