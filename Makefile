# Everything runs in .venv (benchmarks: .venv-bench), which is made on first use and brought up to date
# whenever the pinned requirements or the package's metadata change.

PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin
PIP_INSTALL := bin/python -m pip install --disable-pip-version-check
COMPILE = .venv-lock/bin/uv pip compile pyproject.toml --universal --python-version 3.11 \
  --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet $(UPGRADE)

export MPLBACKEND = Agg

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv test lint types unit test-slow reproduce docs bench format lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/package.stamp  ## create or update .venv

.venv/requirements.stamp: requirements/test.txt
.venv-bench/requirements.stamp: requirements/bench.txt
.venv/requirements.stamp .venv-bench/requirements.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "lbnn needs Python 3.11 or newer, but '$(PYTHON)' is missing or older;" \
	       "try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' has no venv module (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "== set-up: pinned requirements into $(@D) (about a minute)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/$(PIP_INSTALL) --require-hashes --only-binary :all: -r $<
	@touch $@

.venv/package.stamp .venv-bench/package.stamp: %/package.stamp: %/requirements.stamp pyproject.toml
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
	@$(BIN)/python -m pytest

test-slow: venv  ## run the slow tests
	@echo "== pytest -m slow"
	@$(BIN)/python -m pytest -m slow

reproduce: venv  ## recompute every number and figure into report/
	@echo "== reproduce: writing report/"
	@$(BIN)/python -m lbnn.paper --out report

docs: venv  ## build the documentation site into build/site, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv-bench/package.stamp  ## run the benchmarks, in .venv-bench with the peers
	@echo "== benchmarks"
	@.venv-bench/bin/python -m benchmarks

format: venv  ## format the code and apply the safe lint fixes
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

lock:  ## re-pin requirements/*.txt (UPGRADE=--upgrade moves to the newest versions)
	@test -x .venv-lock/bin/uv || $(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --disable-pip-version-check --quiet uv==$(UV_VERSION)
	@$(COMPILE) --group test --output-file requirements/test.txt
	@$(COMPILE) --group bench --constraint requirements/test.txt --output-file requirements/bench.txt
	@! grep -n '://' requirements/*.txt || { echo "a lock names a host" >&2; exit 1; }

clean:  ## remove the environments, caches and generated files
	rm -rf .venv .venv-bench .venv-lock report dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
