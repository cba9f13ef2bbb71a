# Everything runs in .venv (benchmarks: .venv-bench; lowest versions: .venv-lowest), which is made on first use and
# brought up to date whenever the pinned requirements or the package's metadata change.

PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin
PIP_INSTALL := bin/python -m pip install --disable-pip-version-check
COMPILE = .venv-lock/bin/uv pip compile pyproject.toml --python-version 3.11 \
  --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet

# Tests share the cores: a worker on each (WORKERS=0: none beside the main process), one thread of linear algebra;
# a file stays on one worker, so that its costly fixtures are made once.
WORKERS ?= auto
WORKER_OPTIONS = --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKER_OPTIONS)

export MPLBACKEND = Agg

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv test lint types unit test-slow test-portable coverage test-lowest test-arrays test-browser reproduce docs dist bench format hooks lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/package.stamp  ## create or update .venv

.venv/requirements.stamp: requirements/test.txt
.venv-bench/requirements.stamp: requirements/bench.txt
.venv-lowest/requirements.stamp: requirements/lowest.txt
.venv/requirements.stamp .venv-bench/requirements.stamp .venv-lowest/requirements.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "lbnn needs Python 3.11 or newer, but '$(PYTHON)' is missing or older;" \
	       "try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' has no venv module (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "== set-up: pinned requirements into $(@D) (about a minute)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@# --no-deps: the file lists every package; older pips resolve extras (coverage[toml]) beyond the pinned version.
	@$(@D)/$(PIP_INSTALL) --require-hashes --no-deps --only-binary :all: -r $<
	@touch $@

.venv/package.stamp .venv-bench/package.stamp .venv-lowest/package.stamp: %/package.stamp: %/requirements.stamp pyproject.toml
	@echo "== set-up: lbnn itself, editable, into $(@D)"
	@$(@D)/$(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

test: lint types unit  ## lint, type-check, and run all but the slow tests

lint: venv
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .

types: venv
	@echo "== mypy"
	@$(BIN)/mypy

unit: venv
	@echo "== pytest"
	@$(PYTEST)

test-slow: venv  ## run all tests, the slow ones too
	@echo "== pytest, slow tests too"
	@$(PYTEST) -m "slow or not slow"

test-portable: venv  ## run the tests with OpenBLAS' kernels for four processors (KERNELS=Prescott: with these)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.portable $(KERNELS) $(WORKER_OPTIONS)

coverage: venv  ## run all but the slow tests and print the lines that they do not reach
	@echo "== pytest with coverage"
	@$(PYTEST) --cov --cov-report=term:skip-covered

# Libraries newer than the lowest ones warn them of what they use; those warnings are not the project's.
test-lowest: BIN := .venv-lowest/bin
test-lowest: .venv-lowest/package.stamp  ## run the tests with the lowest versions allowed (Python 3.11 or 3.12)
	@echo "== pytest, lowest versions"
	@$(PYTEST) -W ignore::DeprecationWarning -W ignore::FutureWarning

# The libraries are those of the dependency group `arrays`; none of them is needed elsewhere.
ARRAYS_PYTHON ?= .venv-arrays/bin/python
test-arrays:  ## run the tests of arrays with PyTorch and JAX (five minutes, nearly all of them JAX's compiler)
	@$(ARRAYS_PYTHON) -c 'import jax, torch' 2>/dev/null || { \
	  echo "make test-arrays needs the packages of the dependency group 'arrays' in .venv-arrays:" \
	       "python3 -m venv .venv-arrays && .venv-arrays/bin/pip install --group arrays --editable ." >&2; exit 1; }
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(ARRAYS_PYTHON) -m pytest -m "slow or not slow" --numprocesses $(WORKERS) --dist load tests/arrays

test-browser: venv  ## look at the report, the site and lbnn explore in Chromium, which is installed where that is possible
	@{ command -v chromium || command -v chromium-browser; } >/dev/null && command -v chromedriver >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "the browser tests need Chromium and its driver (on Debian, as root: apt install chromium chromium-driver)" >&2; exit 1; }; \
	  echo "== apt-get install chromium chromium-driver"; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium chromium-driver; }
	@echo "== pytest tests/test_browser.py tests/explore/test_browser.py"
	@LBNN_BROWSER=1 $(BIN)/python -m pytest -m "slow or not slow" tests/test_browser.py tests/explore/test_browser.py

reproduce: venv  ## recompute every number and figure into report/
	@echo "== reproduce: writing report/"
	@$(BIN)/python -m lbnn.paper --out report

docs: venv  ## build the documentation site into build/site, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel is installed into an environment of its own and tried there, away from the source.
dist:  ## build the source archive and the wheel into dist/, and check them
	@rm -rf dist .venv-dist
	@$(PYTHON) -m venv .venv-dist
	@.venv-dist/$(PIP_INSTALL) --quiet build twine
	@.venv-dist/bin/python -m build --outdir dist .
	@.venv-dist/bin/python -m twine check --strict dist/*
	@$(PYTHON) -m venv --clear .venv-dist
	@.venv-dist/$(PIP_INSTALL) --quiet "$$(ls dist/*.whl)[cli]"
	@cd dist && OPENBLAS_NUM_THREADS=1 ../.venv-dist/bin/python -I ../tests/check_wheel.py

bench: .venv-bench/package.stamp  ## run the benchmarks, in .venv-bench with the peers
	@echo "== benchmarks"
	@.venv-bench/bin/python -m benchmarks

format: venv  ## format the code and apply the safe lint fixes
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

hooks: venv  ## run ruff and mypy before every commit (pre-commit)
	@$(BIN)/pre-commit install

lock:  ## re-pin requirements/*.txt (UPGRADE=--upgrade moves to the newest versions)
	@test -x .venv-lock/bin/uv || $(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --disable-pip-version-check --quiet uv==$(UV_VERSION)
	@$(COMPILE) --universal $(UPGRADE) --group test --output-file requirements/test.txt
	@$(COMPILE) --universal $(UPGRADE) --group bench --constraint requirements/test.txt \
	  --output-file requirements/bench.txt
	@$(COMPILE) --resolution lowest-direct --only-binary :all: --group unit --output-file requirements/lowest.txt
	@! grep -n '://' requirements/*.txt || { echo "a lock names a host" >&2; exit 1; }

clean:  ## remove the environments, caches and generated files
	rm -rf .venv .venv-arrays .venv-bench .venv-dist .venv-lowest .venv-lock report dist build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
