# Each target installs what it needs; a machine needs Python 3.11 or newer, git and make.
.DEFAULT_GOAL := help
.PHONY: help up test test-fast check bench fuzz simulate docs screenshots sbom lock clean
MAKEFLAGS += --no-print-directory
# Without byte code, every process that a test starts would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

SEEDS ?= 20000
SECONDS ?= 300
# Tests of real processes wait half of their time: two workers keep one core busy.
WORKERS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
LOCK_FLAGS ?=

BIN := .venv/bin
# The stamps contain a hash of the path: a copied checkout installs again.
PLACE := $(shell pwd -P | cksum | cut -d ' ' -f 1)
RUN := .venv/.installed-run-$(PLACE)
DEV := .venv/.installed-dev-$(PLACE)
BENCH := .venv-bench/.installed-$(PLACE)
INSTALL := requirements/install
INSTALLED_BY := $(INSTALL) requirements/installer.lock pyproject.toml
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--system-certs --no-emit-index-url --custom-compile-command 'make lock' $(LOCK_FLAGS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

up: $(RUN) ## run the coordinator, its web pages and one local factory (AQ_… settings apply)
	@$(BIN)/aq up

test: $(DEV) ## run every test; the domain must be covered by its unit tests, branch by branch
	$(BIN)/pytest -n auto --dist worksteal tests/unit/domain \
		--cov=gigafactory.domain --cov-branch --cov-fail-under=100
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore=tests/unit/domain

test-fast: $(DEV) ## run the tests of the inner loop, in less than 90 s: units and one store contract
	$(BIN)/pytest -n auto -m "not slow and not service" tests/unit tests/contract/test_store.py

check: $(DEV) ## check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src tests tools
	$(BIN)/lint-imports --no-logo

bench: $(BENCH) ## measure beside the peers (BENCH_FLAGS=…)
	PATH="$(CURDIR)/.venv-bench/bin:$$PATH" bench/run $(BENCH_FLAGS)

simulate: $(DEV) ## play SEEDS=20000 simulated histories of crashes and races
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

fuzz: $(DEV) ## fuzz every parser and the API for SECONDS=300
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

docs: $(DEV) ## regenerate docs/reference and docs/lifecycle.md from the code
	$(BIN)/python -m tools.reference

screenshots: $(DEV) ## retake docs/screenshots from the demo
	$(BIN)/python -m tools.screenshots

sbom: $(DEV) ## list the dependencies as a CycloneDX document in dist/sbom.cdx.json
	$(BIN)/python -m tools.dependencies dist/sbom.cdx.json

lock: ## lock the dependencies (LOCK_FLAGS=--upgrade takes the newest)
	@$(INSTALL) .venv
	$(COMPILE) --group installer --output-file requirements/installer.lock
	$(COMPILE) pyproject.toml --all-extras --group build --output-file requirements/run.lock
	$(COMPILE) pyproject.toml --all-extras --group build --group dev \
		--constraints requirements/run.lock --output-file requirements/dev.lock
	$(COMPILE) pyproject.toml --all-extras --group build --group bench \
		--constraints requirements/run.lock --output-file requirements/bench.lock

clean: ## remove everything that these targets created
	rm -rf .venv .venv-bench .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache .schemathesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(RUN): requirements/run.lock $(INSTALLED_BY)
	@$(INSTALL) .venv $<
	@touch $@

$(DEV): requirements/dev.lock $(INSTALLED_BY)
	@$(INSTALL) .venv $< sync
	@touch $@

$(BENCH): requirements/bench.lock $(INSTALLED_BY)
	@$(INSTALL) .venv-bench $< sync
	@touch $@
