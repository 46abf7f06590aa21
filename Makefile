PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-long lint docs bench clean

demo: $(VENV)/.base  ## the main job, on the CPU, with a picture and a page at the end
	$(BIN)/emcts demo --out demo

test: $(VENV)/.test  ## everything CI runs
	$(BIN)/python -m pytest

test-long: $(VENV)/.test  ## what takes minutes: whole trainings, kills, large sizes
	$(BIN)/python -m pytest -m "long and not gpu"

lint: $(VENV)/.test  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the site, in build/docs; notebooks are executed, and a warning is an error
	$(BIN)/python -m sphinx -W --keep-going --quiet docs build/docs

bench: $(VENV)/.test  ## against mctx, in one run
	$(BIN)/emcts bench search

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable ".[test]"
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable ".[docs]"
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) demo build
