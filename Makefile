# All a fresh machine needs is make and Python 3.11 or newer; the rest goes into $(VENV).

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
CODE := $(wildcard src tests benchmarks examples)
BENCHMARKS := $(wildcard benchmarks/*.py)

.PHONY: help demo test lint format bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo     learn a metric and show it"
	@echo "make test     run the tests"
	@echo "make lint     check style and formatting"
	@echo "make format   repair style and formatting"
	@echo "make bench    run the benchmarks"
	@echo "make clean    remove all that make has made"

demo: $(VENV)/.with-plot
	$(BIN)/python -m tatml.demo

test: $(VENV)/.with-test
	$(BIN)/python -m pytest -q

lint: $(VENV)/.with-test
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

format: $(VENV)/.with-test
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(VENV)/.with-test
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamps: each says that what it names is installed for this pyproject.toml.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tatml needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name a newer one, for example make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.with-plot: $(VENV)/.created pyproject.toml
	$(PIP_INSTALL) '.[plot]'
	@touch $@

# The test extra holds the plot extra, so both are then in place.
$(VENV)/.with-test: $(VENV)/.created pyproject.toml
	$(PIP_INSTALL) '.[plot,test]'
	@touch $(VENV)/.with-plot $@
