# make run: a virtual environment, everything installed, gputop started with the demos ready.
# make test: the same environment, and the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Most tests wait for processes rather than compute: run three per core, up to eight; with eight cores or more, one per core.
JOBS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); \
	if [ $$cores -ge 8 ]; then echo $$cores; elif [ $$cores -ge 3 ]; then echo 8; else echo $$((3 * cores)); fi)

.PHONY: run install test test-pythons conformance fuzz second-nvml soak check format docs bench picture clean

run: $(INSTALLED)
	@$(BIN)/gputop $(ARGS)

install: $(INSTALLED)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing gputop and, for the demos, torch into $(VENV): takes a few minutes, only the first time."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demos]'
	@touch $@

# What the tests and checks need is installed separately, so that "make run" stays small.
$(VENV)/.developed: $(INSTALLED)
	@echo "Installing what the tests and checks need."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demos,export,frameworks,dev]'
	@touch $@

# In tests, waiting OpenMP threads sleep: spinning would take the cores from other tests.
test test-pythons: export OMP_WAIT_POLICY = PASSIVE
# Where bytecode is not written, each of the hundreds of processes that tests start compiles gputop again, and so does each
# test process the tests.
test test-pythons: export PYTHONDONTWRITEBYTECODE =

# A test that fails next to others is run again on its own, and only a second failure counts: other work on the machine may have
# starved the first. Both results are printed. The snapshots of other tests are not unused then.
AGAIN := --last-failed --last-failed-no-failures none --maxfail 10 --snapshot-warn-unused

# In a new checkout, each test process would compile gputop and all tests by itself: two do it before, half each. What they
# cannot collect, the tests report.
HALF := tests/doctor tests/tui
COLLECT := $(BIN)/python -m pytest --collect-only --quiet

test: $(VENV)/.developed
	@[ -d tests/__pycache__ ] || { \
		$(COLLECT) $(HALF) >/dev/null 2>&1 & $(COLLECT) $(HALF:%=--ignore %) >/dev/null 2>&1; wait; true; \
	}
	@status=0; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not alone" || status=$$?; \
	if [ $$status = 1 ]; then \
		echo "== the failed tests again, on their own"; \
		status=0; $(BIN)/python -m pytest $(AGAIN) -m "not alone" || status=$$?; \
	fi; \
	$(BIN)/python -m pytest -m alone $$(grep -rl --include='test_*.py' 'pytest\.mark\.alone' tests) || status=$$?; \
	exit $$status

# The tests that depend on the interpreter, on the oldest and the newest Python installed here.
test-pythons:
	@JOBS=$(JOBS) .ci/test-pythons

# Runs scripts as people write them, with and without tracking, and checks the numbers. Takes some minutes.
conformance: $(VENV)/.developed
	$(BIN)/python -m tests.tracking.conformance.bench > docs/tracking.md.new
	mv docs/tracking.md.new docs/tracking.md

# The property tests of parsers and formats, with TIMES times as many examples as in the suite.
TIMES ?= 20
fuzz: $(VENV)/.developed
	FUZZ=$(TIMES) $(BIN)/python -m pytest -n $(JOBS) -m "hypothesis and not alone" --timeout 0 --ignore tests/tui

# The NVML source against a simulation by others. Needs git, a C compiler and a network; the first time takes some minutes.
second-nvml: $(VENV)/.developed
	tests/nvml_sim/build-second .mocknvml
	$(BIN)/python -m pytest tests/sources/nvml/test_second_simulation.py

# Checks that memory, descriptors, threads and CPU stay flat under load.
HOURS ?= 1
soak: $(VENV)/.developed
	$(BIN)/python benchmarks/_soak.py --hours $(HOURS)

check: $(VENV)/.developed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pages that are generated from the code: tests fail if they are not current.
docs: $(VENV)/.developed
	$(BIN)/python -m gputop.doctor.rulebook > docs/rules.md
	$(BIN)/python -m gputop.facts.page > docs/facts.md
	$(BIN)/python -m gputop.cli.settings_page > docs/settings.md
	$(BIN)/python -m tests.house.walls

# The peers of the benchmarks. gputop itself needs none of them.
$(VENV)/.measured: $(VENV)/.developed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demos,export,frameworks,dev,peers]'
	@touch $@

bench: $(VENV)/.measured
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

picture: $(VENV)/.developed
	$(BIN)/python -m tests.tui.picture docs/dashboard.svg
	$(BIN)/python benchmarks/_pictures.py

clean:
	rm -rf $(VENV) build dist tests/nvml_sim/build
