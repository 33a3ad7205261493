# Two commands do everything on a fresh Linux machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
# The CPU build of torch is looked for on your configured indexes first, on PyTorch's own index second.
TORCH := torch==2.13.0+cpu
TORCH_INDEX := https://download.pytorch.org/whl/cpu
FAILED = { printf '\nset-up stopped at: %s\n%s\n' "$(1)" "$(2)" >&2; rm -f $(READY); exit 1; }

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench lock clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1|/' | column -t -s '|'

setup: $(READY) ## make .venv with real vLLM on CPU (once, and again when the lock or pyproject changes)

$(READY): requirements/cpu.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || $(call FAILED,Python,datesweep needs Python 3.11 or newer: make PYTHON=python3.12 setup)
	@echo "setting up $(VENV): about 3 GB and a few minutes, once"
	@$(PYTHON) -m venv $(VENV) || $(call FAILED,the virtual environment,install your system's venv package (Debian: python3-venv) and try again)
	@echo "  [1/3] torch, CPU build"
	@$(PIP) --no-deps '$(TORCH)' 2>$(VENV)/torch.log || $(PIP) --no-deps '$(TORCH)' --extra-index-url $(TORCH_INDEX) \
		|| $(call FAILED,torch,no CPU build of $(TORCH) was found on your indexes nor on $(TORCH_INDEX); see also $(VENV)/torch.log)
	@echo "  [2/3] vLLM, Ray, Polars and the rest of requirements/cpu.lock"
	@$(PIP) --no-deps -r requirements/cpu.lock \
		|| $(call FAILED,the locked packages,check the network and the disk (4 GB) and run the same command again; what is installed is kept)
	@echo "  [3/3] datesweep itself"
	@$(PIP) --no-deps --no-build-isolation -e . || $(call FAILED,datesweep,the message above is pip's)
	@touch $(READY)

demo: $(READY) ## sweep a real small model over 12 dates and write a report (about 5 minutes on 2 cores)
	@$(BIN)/datesweep run configs/sweeps/demo.toml

test: $(READY) ## the tests, offline
	@$(BIN)/python -m pytest

check: $(READY) ## formatting, lint, types
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

bench: $(READY) ## throughput and overhead on this machine; the last line is JSON
	@$(BIN)/datesweep bench

lock: $(READY) ## resolve requirements/cpu.in anew into requirements/cpu.lock
	@$(BIN)/python requirements/lock.py

clean: ## remove .venv, runs and caches of tools
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
