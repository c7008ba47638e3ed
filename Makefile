# Every target makes its own set-up: a virtual environment in .venv with this checkout installed in it.
# `make demo` and `make test` are all a new machine needs; Python >= 3.11 as `python3`, or PYTHON=….

PYTHON ?= python3
BIN := .venv/bin
FAST := $(addprefix tests/,domain projections storage history house golden adapters/proxy test_api.py)
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)
export PYTHONUTF8 := 1

.PHONY: help demo test e2e quick lint format bench soak specs setup clean

help:
	@echo 'make demo    the main job on a bundled session: no key, no network'
	@echo 'make test    every test, with a real PostgreSQL'
	@echo 'make e2e     the real hosts, installed into .hosts, against a scripted provider; prints a table'
	@echo 'make quick   the quick tests of the engine, the store and the proxy (under a minute)'
	@echo 'make lint    ruff and mypy'
	@echo 'make format  let ruff put layout, imports and small things right'
	@echo 'make bench   the budgets, measured as ratios'
	@echo 'make soak    every test that draws examples, with new ones; then the state machine for FOLDLOG_SOAK_MINUTES (60)'
	@echo 'make specs   write the generated parts of specs/ again'

setup:
	@PYTHON='$(PYTHON)' bash scripts/setup

demo: setup
	@$(BIN)/foldlog demo

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

e2e: setup
	@bash scripts/hosts
	$(BIN)/python tests/e2e/run.py

quick: setup
	$(BIN)/python -m pytest -m 'not slow and not postgres and not e2e' -q -n $(WORKERS) --dist worksteal $(FAST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python tests/bench/run.py

soak: setup
	$(BIN)/python -m pytest -m 'hypothesis and not e2e' --hypothesis-profile fresh -q -n $(WORKERS)
	$(BIN)/python tests/support/machine_soak.py

specs: setup
	$(BIN)/python tests/support/catalogue.py --write

clean:
	rm -rf .venv .hosts .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist foldlog.egg-info
