# make demo         set up the environment and train the tiny model on this machine; a second run has nothing to do
# make test         set up the environment (with an OpenSSH server, if permitted) and run the tests
# make test-all     also run what tests/exhaustive.txt lists: a kill at every system call, every example and import order
# make test-image   build the image with a real Docker engine and use it over SSH
# make lint types docs bench soak mutation clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# worksteal: the slow tests lie together, and the worker that is done first takes them from the other.
PYTEST_FLAGS ?= -n 2 --dist worksteal

.PHONY: demo test test-all test-rest test-image lint types docs bench soak mutation clean setup

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "halfstep needs Python 3.11 or newer on this machine; found " + sys.version.split()[0] + " (set PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch is installed first, so that pip resolves all other packages against the build that the constraint selects.
$(VENV)/.train: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train]'
	@touch $@

$(VENV)/.test: $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,test]'
	@touch $@

# The parsers of the engines of `pipeline export`, whose requirements contradict ours.
$(VENV)/.engines: $(VENV)/.python
	$(PYTHON) -m venv $(VENV)/engines
	$(VENV)/engines/bin/python -m pip install --quiet --disable-pip-version-check 'skypilot==0.14.1' 'dstack==0.22.5'
	@touch $@

setup: $(VENV)/.test

demo: $(VENV)/.train
	@$(BIN)/pipeline run --host local --config tiny

test: $(VENV)/.test
	@tests/setup-system
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not exhaustive"

test-rest: $(VENV)/.test $(VENV)/.engines
	@tests/setup-system all
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m exhaustive

test-all: test test-rest

test-image: $(VENV)/.test
	@tests/setup-system docker
	tests/image/try-image

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.test
	$(BIN)/python -m pipeline.pages docs

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

soak: $(VENV)/.test
	$(BIN)/python -m tests.soak --kills 500
	HALFSTEP_EVERY_PAIR=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/proof/test_import_orders.py

mutation: $(VENV)/.test
	$(BIN)/python -m tests.mutation

clean:
	rm -rf $(VENV) build dist wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis
