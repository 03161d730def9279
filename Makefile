# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types layers docs perf clean

demo: $(VENV)/.installed
	$(BIN)/tiltmeter demo
	$(BIN)/tiltmeter run associations/gender --model hf/tests/fixtures/storyteller --judge sim/fair --limit 40 -P encoder=none

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

perf: $(VENV)/.dev
	$(BIN)/python perf/engine.py
	$(BIN)/python perf/analysis.py
	$(BIN)/python perf/startup.py
	$(BIN)/python perf/associations.py
	$(BIN)/python perf/benchmarks.py
	$(BIN)/python perf/features.py
	$(BIN)/python perf/counterfactual.py
	$(BIN)/python perf/truth.py --judge sim/fair

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Tiltmeter needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[benchmarks,local]"
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[app,benchmarks,inspect,local]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
