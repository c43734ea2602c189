SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# As pyproject.toml says, with the reason.
SUPPORTED := 3.11 3.12 3.13
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# uv takes three fifths of pip's time, but does not read pip's settings. Where they name an index, where uv is not to be
# had, or where it fails, pip installs. PySpark is published as sources: its wheel is built here, of jars that are
# compressed already, and to compress them again took half of the build. EXTRAS are those of pyproject.toml, BESIDE
# packages by their names.
UV := $(shell command -v uv || echo .venv/bin/uv)
INSTALL = { [[ "$$($(BIN)/python -m pip config list)" != *index-url* && -x $(UV) ]] \
  && $(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(EXTRAS)]' $(BESIDE) \
    --config-settings-package pyspark:--build-option=--compression=stored 2>/dev/null \
  || $(PIP) -e '.[$(EXTRAS)]' $(BESIDE); }
# On all cores, which pip does not. Modules that are compiled on import are compiled again by each process where
# PYTHONDONTWRITEBYTECODE is set, as it is in many images: half of what Dagster takes around a step. A file that does
# not compile is a template, and nobody's module. Tests of libraries, a fifth of all lines, are imported by nobody.
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '/(tests?|pip|setuptools|pkg_resources)/' .venv/lib || true
INSTALLED := .venv/.installed
DEVELOPED := .venv/.developed
DOCUMENTED := .venv/.documented
STORED := .venv/.stored
CHECKED := .venv/.java-checked
TRIED := $(VENV)/.tried
JARS := .jars/.fetched
# A test keeps about one core busy. Both processes share an engine, and files stay whole: their tests share tables.
# In their order: by itself xdist takes files of one long test last, and then one process waits for the other.
AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder
# Each has an engine of its own: one that dies takes along no more than its part, and what failed can be run alone.
PARTS ?= $(patsubst %/,%,$(filter-out %/__pycache__/,$(wildcard tests/*/))) $(wildcard tests/test_*.py)

.PHONY: help demo demo-kafka demo-cdc ui test prove versions tests-without-engine lint manifests types docs docs-serve bench cluster cluster-stop kafka clean

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(JARS) $(if $(findstring ://,$(RIVERMEET_TABLES)),$(STORED))  ## Join, audit and print the flights of New York 2013
	@$(BIN)/rivermeet demo flights

demo-kafka: PIPELINE ?= flights
demo-kafka: $(DEVELOPED) $(JARS)  ## The same over topics of a broker that runs meanwhile, and the rows of both compared
	@$(BIN)/python -m tests.demos.kafka $(PIPELINE)

demo-cdc: $(DEVELOPED) $(JARS)  ## Join two tables of a database under random transactions, and compare with its own join
	@$(BIN)/python -m tests.demos.cdc

ui: $(JARS)  ## Open Dagster with this project; history is kept in .rivermeet
	@$(BIN)/rivermeet feed flights
	@$(BIN)/rivermeet feed invoice
	@$(BIN)/rivermeet ui

test: $(DEVELOPED) $(JARS)  ## Run the tests that every change has to pass, in two processes on one warm engine
	@$(BIN)/pytest -q $(AT_ONCE)

prove: $(DEVELOPED) $(JARS)  ## Run what takes too long for each change, then what must hold on both engines
	@failed=0; \
	for part in $(PARTS); do \
	  echo "rivermeet: proving $$part" >&2; \
	  $(BIN)/pytest -q $(AT_ONCE) -m prove $$part || [ $$? = 5 ] || failed=1; \
	done; \
	RIVERMEET_ENGINE='local[2]' $(BIN)/pytest -q $(AT_ONCE) -m both_engines || failed=1; \
	exit $$failed

# Those of pyenv first: its shims on the path do not say what is behind them. A process each, at once.
versions: $(INSTALLED)  ## Run the tests that need no engine on each other supported Python that is here
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(SUPPORTED); do \
	  [ $$version != $$own ] || continue; \
	  for python in ~/.pyenv/versions/$$version.*/bin/python python$$version; do \
	    $$python -c '' 2>/dev/null || continue; \
	    $(MAKE) --no-print-directory VENV=$(VENV)/$$version PYTHON=$$python tests-without-engine & \
	    started="$${started:-} $$!"; \
	    break; \
	  done; \
	done; \
	for each in $${started:-}; do wait $$each; done

tests-without-engine: $(TRIED)
	@echo "rivermeet: tests without an engine on $$($(BIN)/python --version)" >&2
	@$(BIN)/pytest -q -p no:cacheprovider -m 'not slow and not engine' tests/golden tests/pipelines tests/reference tests/testing

lint: $(DEVELOPED) manifests  ## Check style, formatting and the manifests for Kubernetes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

manifests: $(DEVELOPED)  ## Render infra/deploy and check it against the schemas of Kubernetes; no cluster is asked
	@$(BIN)/kubectl kustomize infra/deploy | $(BIN)/kubernetes-validate --strict --quiet /dev/stdin infra/deploy/engine/executor.yaml

types: $(DEVELOPED)  ## Check types
	@$(BIN)/pyright

docs: $(DOCUMENTED)  ## Build the site of the pages in .site; it loads nothing from the network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site: .site/index.html"

docs-serve: $(DOCUMENTED)  ## Show the site on http://127.0.0.1:8000
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(DEVELOPED) $(JARS)  ## Measure epochs of 10,000 changes on a million rows, ten small nodes, topics and a database
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.chain $(if $(BEFORE),--before $(BEFORE))
	@$(BIN)/python -m benchmarks.topics
	@$(BIN)/python -m benchmarks.database

cluster: $(JARS)  ## Start a Spark cluster on this machine, and print the variables that choose it
	@$(BIN)/python -m tests.servers.cluster start

cluster-stop: $(INSTALLED)  ## Stop that cluster
	@$(BIN)/python -m tests.servers.cluster stop

kafka: $(DEVELOPED) $(CHECKED)  ## Run a Kafka broker and a schema registry here until Ctrl-C (PORT, REGISTRY_PORT: 9092, 8081)
	@$(BIN)/python -m tests.servers.local

clean:  ## Stop engine and cluster; remove the environment, caches and all that runs wrote here (.rivermeet)
	@if [ -x $(BIN)/rivermeet ]; then $(BIN)/rivermeet engine stop || true; $(BIN)/python -m tests.servers.cluster stop || true; fi
	@rm -rf .venv .rivermeet .cluster .site .pytest_cache .ruff_cache .hypothesis *.egg-info spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Fetched jars stay in .jars: like pip's cache they are the same for every version of the code.
$(JARS): $(CHECKED) infra/engine/jars.py
	@$(BIN)/python -m rivermeet.infra.engine.jars
	@mkdir -p $(@D) && touch $@

$(CHECKED): EXTRAS := demo,java
$(CHECKED): $(INSTALLED)
	@$(BIN)/python -m rivermeet.infra.engine.java 2>/dev/null || test -n "$${JAVA_HOME:-}" || { \
	  echo "rivermeet: no Java that Spark runs on is here, installing one into .venv (once)" >&2; \
	  $(INSTALL); }
	@$(BIN)/python -m rivermeet.infra.engine.java
	@touch $@

# Shows that the process in the background goes on, and ends as it does.
define SHOW
{ for ((s = 1; ; s++)); do kill -0 $$! 2>/dev/null || break; sleep 1; \
  ((s % 10)) || echo "rivermeet: $(1), $$s s" >&2; done; wait $$!; }
endef

$(INSTALLED): EXTRAS := demo
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(SUPPORTED)".split())' 2>/dev/null || { \
	  echo "rivermeet: needs Python 3.11, 3.12 or 3.13, '$(PYTHON)' is not: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@echo "rivermeet: installing into .venv (once)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(UV) || $(PIP) uv 2>/dev/null || true
	@$(INSTALL) & $(call SHOW,installing)
	@$(COMPILE)
	@touch $@

$(TRIED): BESIDE := hypothesis pytest-timeout
$(TRIED): pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) & $(call SHOW,installing for $(PYTHON))
	@touch $@

$(DEVELOPED): EXTRAS := demo,dev,kafka,kubernetes,postgres,s3
$(DEVELOPED): $(INSTALLED)
	@$(INSTALL) & $(call SHOW,installing what tests need)
	@$(COMPILE)
	@touch $@

$(STORED): EXTRAS := demo,s3
$(STORED): $(INSTALLED)
	@$(INSTALL) & $(call SHOW,installing what tables at a URL need)
	@touch $@

$(DOCUMENTED): EXTRAS := demo,docs
$(DOCUMENTED): $(INSTALLED)
	@$(INSTALL) & $(call SHOW,installing what the site needs)
	@touch $@
