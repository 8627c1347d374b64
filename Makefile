# Everything a developer types. Needs Python 3.11+, git and make; the rest goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RUNS ?= runs

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rounding test-browser test-processes test-dask test-ray test-spark test-faults test-mutants lint audit \
  bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(INSTALLED) ## make the virtual environment and install the package into it

$(INSTALLED): pyproject.toml
	@echo "installing into $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --editable '.[dev]'
	@touch $@

demo: $(INSTALLED) ## train MAN on real text with one domain unlabelled, and show the accuracy per domain
	@if $(BIN)/multidomain fetch vader; then data='vader --method man-nll --unlabelled nyt --batch-size 32 --max-epochs 8 --patience 2'; \
	else echo "The corpus 'vader' cannot be had here: training on the built-in corpus 'demo' instead."; \
	  data='demo --method man-nll --unlabelled shoes --set lr=0.001 --patience 10'; fi; \
	echo "multidomain train $$data -o $(RUNS)/demo --overwrite"; \
	$(BIN)/multidomain train $$data -o $(RUNS)/demo --overwrite

# Files start in their order and not those with most tests first: the longest are tests/contract and tests/docs.
test: $(INSTALLED) ## run all tests but those in a browser, on clusters, and of killed processes
	$(BIN)/python -m pytest -m 'not browser and not dask and not ray and not spark and not processes' -n 2 --dist loadfile \
	  --no-loadscope-reorder

# Processors add up in different orders. These settings let this one round as others do; what rests on luck shows.
NUMERIC := tests/contract tests/golden tests/properties tests/serve/test_predict.py \
	$(addprefix tests/unit/,evaluation explain methods model nn objectives runs/test_predictions.py test_estimator.py test_words.py)

test-rounding: $(INSTALLED) ## run the tests of numbers again, rounded as two other processors would
	MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default \
	  $(BIN)/python -m pytest $(NUMERIC) -n 2 --dist loadfile --no-loadscope-reorder
	OPENBLAS_CORETYPE=Nehalem NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(abspath $(VENV))/numba-generic \
	  $(BIN)/python -m pytest $(NUMERIC) -n 2 --dist loadfile --no-loadscope-reorder

test-browser: $(INSTALLED) ## try the service's page in a real, headless Chromium
	$(BIN)/python -m pytest -m browser tests/browser

test-processes: $(INSTALLED) ## stop and kill processes that train together, and resume; a minute or two
	$(BIN)/python -m pytest -m processes tests/processes

test-dask: $(INSTALLED) ## run the tests of engines on real clusters of Dask; a minute
	$(BIN)/python -m pytest -m dask tests/engines

test-ray: $(INSTALLED) ## install Ray, and run the tests of its engine on real clusters of processes
	$(BIN)/python -m pip install -qq --editable '.[ray]' 'pandas<3'
	$(BIN)/python -m pytest -m ray tests/engines

test-spark: $(INSTALLED) ## install Spark (450 MB; needs Java 17), and run its tests on real clusters of processes
	$(BIN)/python -m pip install -qq --editable '.[spark]' 'pandas<3'
	$(BIN)/python -m pytest -m spark tests/engines

test-faults: $(INSTALLED) ## kill runs, break inputs and attack the service at length; records go to results/reliability.jsonl
	$(BIN)/python benchmarks/kill_faults.py
	$(BIN)/python benchmarks/input_faults.py
	$(BIN)/python benchmarks/service_faults.py

test-mutants: $(INSTALLED) ## put faults into critical code, one by one, and see whether tests notice; about an hour
	$(BIN)/python benchmarks/mutants.py
	$(BIN)/python benchmarks/mutants.py --page

lint: $(INSTALLED) ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# pip-audit lives in an environment of its own, and every package must be found: an unreachable database is no pass.
audit: $(INSTALLED) ## look up known vulnerabilities of all installed packages; needs the network
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install -qq pip-audit
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/audit/installed.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audit/installed.txt

bench: $(INSTALLED) ## measure training and prediction on this machine; records go to results/bench.jsonl
	$(BIN)/multidomain bench train
	$(BIN)/multidomain bench predict

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
