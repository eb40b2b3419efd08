# Four commands: `make demo` runs the main job, `make test` checks everything, `make quick` checks most of it in less
# than two minutes; `make site` builds the documentation. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AUDIT := $(VENV)/audit
STAMP := $(VENV)/.ready
DOCS := $(VENV)/.docs

.PHONY: demo test quick lint types imports unit browser docs site tutorials lock audit-deps clean
.DEFAULT_GOAL := demo

PIP := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-deps

# Only files whose sha256 is locked are installed. torch comes as its build for CPUs where pip is set up with a place
# that has it, and else as registries have it, with CUDA.
$(STAMP): requirements.lock requirements-torch.lock requirements-torch-cpu.lock pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(None if sys.version_info >= (3, 11) else 'fairweight needs Python 3.11 or newer: run make PYTHON=python3.11')"
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --require-hashes -r requirements-torch-cpu.lock 2>/dev/null || $(PIP) --require-hashes -r requirements-torch.lock
	$(PIP) --no-build-isolation -e .
	touch $(STAMP)

# What builds the site: the extra `docs`, where the lock did not bring it.
$(DOCS): $(STAMP)
	$(BIN)/python -c "import material, mkdocstrings" 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-build-isolation -e '.[docs]'
	touch $(DOCS)

demo: $(STAMP)
	$(BIN)/fairweight demo

test: lint types imports unit

quick: lint types imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# The audit page is tested in a real browser; where none can be installed those tests are skipped with a reason.
browser:
	bash tests/browser/install.sh

unit: $(STAMP) $(DOCS) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

# The site lies in build/site and opens from there, without a server or a network.
site: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Run every command and all code of the executed pages again, and write what they print; Adult needs FAIRWEIGHT_DATA.
tutorials: $(STAMP)
	$(BIN)/python docs/generate/executed.py

docs: $(STAMP)
	$(BIN)/python docs/generate/record_pages.py
	$(BIN)/python benchmarks/choices.py
	$(BIN)/python benchmarks/tabular.py --page
	$(BIN)/python benchmarks/performance.py
	$(BIN)/python benchmarks/suspects.py --page docs/audit.md
	$(BIN)/python benchmarks/condense.py --page docs/audit.md
	$(BIN)/python benchmarks/arena_page.py --page docs/audit.md

# Lock what pyproject.toml asks for, with hashes; RAISE="numpy pandas" lifts those two to the newest that fit.
lock:
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(BIN)/python .ci/lock.py $(RAISE)

# Known weaknesses of what is locked, in an environment of its own; says so where no database can be reached.
audit-deps:
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && \
	  $(AUDIT)/bin/python -m pip install --quiet --no-input --disable-pip-version-check pip-audit; } || \
	  { echo "pip-audit cannot be installed from here: nothing was audited."; exit 0; }; \
	  $(PYTHON) .ci/audit_deps.py $(AUDIT)/bin/pip-audit

clean:
	rm -rf $(VENV) dist build runs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
