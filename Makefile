# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Targets that start many processes keep compiled modules, whatever the environment says: each process would compile everything again.
.PHONY: demo test verify lint types layers docs licences audit perf record clean

demo: export PYTHONDONTWRITEBYTECODE =
demo: $(VENV)/.installed
	$(BIN)/tiltmeter demo

test: export PYTHONDONTWRITEBYTECODE =
# The test processes together use all cores, so each has one thread of Polars. `make verify` keeps the threads, on which the order of rows
# might depend; tests/runs/test_threads.py compares the findings of one thread and of four.
test: export POLARS_MAX_THREADS = 1
test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not verify" --session-timeout=1800 --dist loadgroup -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)') # one more: some tests mostly wait

# Long studies: planted truth at length, faults of databases, servers and workers, growth with length, every command of the documentation.
# `make verify SHARE=1/3` runs a third of them.
verify: export PYTHONDONTWRITEBYTECODE =
verify: $(VENV)/.dev
	$(BIN)/python -m pytest -m verify $(if $(SHARE),--share $(SHARE)) --session-timeout=6000 --dist loadgroup -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)')

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/stability.py --check
	$(BIN)/python scripts/tiers.py --check
	$(BIN)/python scripts/glossary.py --check
	$(BIN)/python scripts/claims.py --check
	$(BIN)/codespell
	$(BIN)/python scripts/prose.py
	$(BIN)/python scripts/readable.py
	$(BIN)/python -m perf.studies --stale # a warning: they take minutes and are carried out by hand; .ci/run repeats it at the end

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/python scripts/completeness.py

layers: $(VENV)/.dev
	$(BIN)/lint-imports
	$(BIN)/python scripts/circles.py

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

licences: $(VENV)/.dev
	$(BIN)/python .ci/licences.py docs/licences.md

audit: $(VENV)/.dev
	$(BIN)/python .ci/audit.py

# What tests compare with: printed texts, and the responses and findings of simulated models. Review the differences before they are committed.
record: $(VENV)/.dev
	$(BIN)/python -m pytest -m wording --record -q
	PYTHONPATH=tests $(BIN)/python tests/recorded/record.py

perf: $(VENV)/.dev
	$(BIN)/python -m perf --page docs/performance.md

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Tiltmeter needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[benchmarks,local]"
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[app,benchmarks,excel,inspect,languages,local,postgres,ray,storage]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
