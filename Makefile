# make demo         set up the environment and train the tiny model on this machine; a second run has nothing to do
# make test         set up the environment (with an OpenSSH server, if permitted) and run the tests
# make test-ci      also run what tests/sweeps.txt lists: more rows of the same tests
# make test-all     also run what tests/exhaustive.txt lists: a kill at every system call, every example and import order
# make test-image   build the image with a real Docker engine and use it over SSH
# make image-requirements   lock the packages of the image with their digests (needs uv)
# make docs         regenerate the generated pages of docs/, and build the site of the documentation in build/site
# make pictures     record the terminal session and the report of README from a real run; needs Chromium
# make rehearsal    take a Phi-4-multimodal of full size with random weights through a run on the CPU (16 GB of disk and memory)
# make gpu-day      on a machine with a CUDA card: run the tests that need one, and measure
# make lint types bench soak mutation clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Four workers on two cores: half of the time a test waits for an answer. worksteal: the slow tests lie together, and the
# worker that is done first takes them from the others.
PYTEST_FLAGS ?= -n 4 --dist worksteal

# The tests start thousands of processes; without byte code on disk, each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# More threads than cores wait for each other: each worker of the tests computes in one.
test test-ci test-rest: export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-ci test-all test-rest test-image image-requirements lint types docs pictures bench rehearsal gpu-day soak mutation clean setup

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

# The trackers of `train.report_to`, which need many packages, beside those of the tests.
$(VENV)/.trackers: $(VENV)/.test
	$(PYTHON) -m venv $(VENV)/trackers
	$(VENV)/trackers/bin/python -m pip install --quiet --disable-pip-version-check 'mlflow>=3,<4' 'wandb>=0.20,<1' 'trackio>=0.20,<1'
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(VENV)/trackers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"
	@touch $@

setup: $(VENV)/.test

demo: $(VENV)/.train
	@$(BIN)/pipeline run --host local --config tiny

test: $(VENV)/.test
	@tests/setup-system
	PYTEST_DEBUG_TEMPROOT=$${PYTEST_DEBUG_TEMPROOT:-$$(tests/temporary-root)} \
	  $(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not exhaustive and not sweep"

test-ci: $(VENV)/.test
	@tests/setup-system
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not exhaustive"

test-rest: $(VENV)/.test $(VENV)/.engines $(VENV)/.trackers
	@tests/setup-system all
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "exhaustive or sweep"

test-all: test test-rest

test-image: $(VENV)/.test
	@tests/setup-system docker
	tests/image/try-image

# hatchling builds halfstep inside the image, without an index.
image-requirements:
	echo hatchling | uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --extra train \
	  --constraint constraints.txt --no-annotate --custom-compile-command 'make image-requirements' \
	  --output-file image-requirements.txt pyproject.toml -

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.test
	$(BIN)/python -m pipeline.pages docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: $(VENV)/.test
	$(BIN)/python -m tests.docs.pictures

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

rehearsal: $(VENV)/.test
	$(BIN)/python -m benchmarks.rehearsal

gpu-day: $(VENV)/.test
	$(BIN)/python -m benchmarks.gpu_day

soak: $(VENV)/.test
	$(BIN)/python -m tests.soak --kills 500
	HALFSTEP_EVERY_PAIR=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/proof/test_import_orders.py

mutation: $(VENV)/.test
	$(BIN)/python -m tests.mutation

clean:
	rm -rf $(VENV) build dist wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis
