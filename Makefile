# Three commands matter: `make demo`, `make quick` and `make test`. Each sets up its own .venv and works alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP    := $(BIN)/python $(INSTALL) -c constraints.txt
LOWEST := .venv-lowest
# Small networks gain nothing from a second thread; two single-threaded test workers do.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help setup demo studio quick test check unit studio-test hooks docs test-lowest wheel-check extras-check validity bench clean

help:
	@echo "make demo          install what is needed and run the main job, with a picture"
	@echo "make studio        install what is needed and open the page in the browser"
	@echo "make quick         the daily check: tests of the core and of what changed, without slow ones (a minute)"
	@echo "make test          install what is needed and pass every check: ruff, types, tests"
	@echo "make studio-test   drive the page in a real Chromium (needs chromium and chromedriver; minutes)"
	@echo "make hooks         let git run ruff and mypy before each commit"
	@echo "make docs          install what is needed and build the documentation: docs/_build/html"
	@echo "make test-lowest   pass the tests with the lowest supported versions of everything (minutes)"
	@echo "make wheel-check   build the wheel, install it into an empty environment, use it there (minutes)"
	@echo "make extras-check  the same with each extra, one by one (many minutes)"
	@echo "make validity      kill a search, a prediction and a bank thirty times, read fifty thousand hostile files (an hour)"
	@echo "make bench         measure speed ratios (minutes)"
	@echo "make clean         remove the environment and everything made"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/.runtime $(VENV)/.studio

$(VENV)/.studio: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e ".[studio]"
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e ".[docs]"
	@touch $@ $(VENV)/.runtime

setup: $(VENV)/.dev

demo: $(VENV)/.runtime
	$(BIN)/chop demo

studio: $(VENV)/.studio
	$(BIN)/chop studio

quick: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python .ci/quick.py

test: check unit

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

studio-test: $(VENV)/.dev
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { echo "make studio-test drives a real browser: install Debian's chromium and chromium-driver"; exit 1; }
	CHOP_BROWSER=1 $(ONE_THREAD) $(BIN)/python -m pytest tests/browser

hooks: $(VENV)/.dev
	$(BIN)/pre-commit install

# The reference is made from the code first; any warning is an error.
docs: $(VENV)/.docs
	cd docs && $(ONE_THREAD) ../$(BIN)/python -m generator reference --pictures
	cd docs && ../$(BIN)/python -m generator.house figures/architecture.svg
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(LOWEST)/.dev: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) -c constraints-lowest.txt -e ".[dev]"
	@touch $@

# Compiled kernels of one numba version are not for another.
test-lowest: $(LOWEST)/.dev
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/numba $(ONE_THREAD) $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal

wheel-check: $(BIN)/python
	$(BIN)/python .ci/install_check.py

extras-check: $(BIN)/python
	$(BIN)/python .ci/install_check.py all

validity: $(VENV)/.dev
	CHOP_KILLS=30 $(ONE_THREAD) $(BIN)/python -m pytest tests/evolution/test_run.py tests/files/test_resume.py tests/bank/test_killed.py -k killed
	CHOP_COVERAGE=5000 $(ONE_THREAD) $(BIN)/python -m pytest tests/core/test_bands.py -k coverage
	CHOP_HOSTILE=10000 $(ONE_THREAD) $(BIN)/python -m pytest -rP tests/storage/test_hostile_files.py

bench: $(VENV)/.dev
	for script in benchmarks/*.py; do $(ONE_THREAD) $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) $(LOWEST) build dist docs/_build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis chop-demo chop-studio
