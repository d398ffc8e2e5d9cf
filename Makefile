# Two commands matter: `make demo` and `make test`. Each sets up its own .venv and works alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Small networks gain nothing from a second thread; two single-threaded test workers do.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help setup demo test check unit validity bench clean

help:
	@echo "make demo      install what is needed and run the main job, with a picture"
	@echo "make test      install what is needed and pass every check: ruff, types, tests"
	@echo "make validity  kill a search thirty times and compare where it ends (minutes)"
	@echo "make bench     measure speed ratios (minutes)"
	@echo "make clean     remove the environment and everything made"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/.runtime

setup: $(VENV)/.dev

demo: $(VENV)/.runtime
	$(BIN)/chop demo

test: check unit

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

validity: $(VENV)/.dev
	CHOP_KILLS=30 $(ONE_THREAD) $(BIN)/python -m pytest tests/test_evolution_run.py -k killed

bench: $(VENV)/.dev
	for script in benchmarks/*.py; do $(ONE_THREAD) $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis chop-demo
