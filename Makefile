# Set-up, tests and tools. `make help` lists the targets; each does all the set-up it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# The build imports torch, which must not load the package that is about to be built.
BUILD_PYTHON = TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(BIN)/python
PIP = $(BUILD_PYTHON) -m pip --disable-pip-version-check
NATIVE_BUILD = $(BUILD_PYTHON) scripts/native_build.py
# Each worker begins with a contiguous part, so that fixtures of a file are made once.
PYTEST = $(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal

# Variables for the command line: make PYTHON=python3.12 test, make test PYTEST_ARGS="-k layout".
is_recent_python = $(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python3.12 python3.13 python3.14,\
	$(shell $(call is_recent_python,$(name)) && echo $(name))))
TEST_JOBS ?= 2
PYTEST_ARGS ?=

# Stamps: each says that the files it depends on have been installed into the environment.
REQUIREMENTS := $(VENV)/.requirements-installed
DOCS_REQUIREMENTS := $(VENV)/.docs-requirements-installed
PACKAGE := $(VENV)/.package-installed

CPP_FILES = $(shell find torch_spyre/csrc tests/cpp -name '*.h' -o -name '*.cpp' -o -name '*.inc')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@python='$(PYTHON)'; \
	if [ -z "$$python" ]; then \
	  echo "No Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! $(call is_recent_python,"$$python"); then \
	  echo "$$python is missing or older than Python 3.11, which torch-spyre needs." >&2; exit 1; \
	fi; \
	echo "creating $(VENV) with $$python"; \
	"$$python" -m venv $(VENV)

$(REQUIREMENTS): requirements/dev.txt requirements/constraints.txt \
  requirements/without-dependencies.txt | $(BIN)/python
	@echo "installing requirements/dev.txt (torch is large: the first time takes minutes)"
	@$(PIP) install -q -r requirements/dev.txt
	@$(PIP) install -q --no-deps -r requirements/without-dependencies.txt
	@touch $@

$(DOCS_REQUIREMENTS): requirements/docs.txt requirements/constraints.txt $(REQUIREMENTS)
	@$(PIP) install -q -r requirements/docs.txt
	@touch $@

# The extension is built first, with its progress shown; pip then finds every object up to date.
$(PACKAGE): pyproject.toml setup.py $(REQUIREMENTS)
	@command -v $${CXX:-g++} >/dev/null || \
	  { echo "No C++ compiler was found: install g++ 12 or newer, or set CXX." >&2; exit 1; }
	@headers=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))'); \
	[ -f "$$headers/Python.h" ] || \
	  { echo "Python.h was not found in $$headers: install Python's development headers." >&2; exit 1; }
	@$(NATIVE_BUILD) extension
	@$(PIP) install -q --no-build-isolation --no-deps -e .
	@touch $@

.PHONY: build
build: $(PACKAGE) ## set up .venv and build the package in place
	@$(NATIVE_BUILD) extension

.PHONY: demo
demo: build ## run the first example on the emulated card
	@$(BIN)/python examples/first_steps.py

.PHONY: core-tests
core-tests: $(REQUIREMENTS)
	$(NATIVE_BUILD) core-tests

.PHONY: test
test: build core-tests ## run the C++ and Python tests, without the heavy ones
	$(PYTEST) -m "not heavy" $(PYTEST_ARGS)

.PHONY: test-asan
test-asan: $(REQUIREMENTS) ## run the C++ tests under AddressSanitizer and UBSan
	$(NATIVE_BUILD) core-tests-asan

.PHONY: test-full
test-full: build core-tests test-asan ## run every test, heavy ones, sanitizers, PyTorch's ops: hours
	$(PYTEST) $(PYTEST_ARGS)
	$(BIN)/spyre opinfo --jobs $(TEST_JOBS) --json build/opinfo.json --html build/opinfo.html

FUZZ_MINUTES ?= 10
FUZZ_ARGS ?=

.PHONY: fuzz
fuzz: build ## run random inputs for FUZZ_MINUTES, and save what fails as test cases
	$(BIN)/python -m fuzz --minutes $(FUZZ_MINUTES) --jobs $(TEST_JOBS) $(FUZZ_ARGS)

.PHONY: bench
bench: build ## run every benchmark
	@for program in benchmarks/*.py; do echo "== $$program"; $(BIN)/python "$$program"; done

.PHONY: lint
lint: $(REQUIREMENTS) ## check style and types of Python and C++
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@echo "clang-format --dry-run on torch_spyre/csrc and tests/cpp"
	@$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

.PHONY: format
format: $(REQUIREMENTS) ## rewrite Python and C++ files in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	@$(BIN)/clang-format -i $(CPP_FILES)

.PHONY: generate
generate: build ## write the files that derive from tables, the timing model and examples
	$(BIN)/python scripts/generate_instruction_set.py
	$(BIN)/python scripts/generate_timing_tables.py
	$(BIN)/python scripts/generate_pictures.py

.PHONY: docs
docs: $(DOCS_REQUIREMENTS) ## build the documentation into docs/_build
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build
	@echo "open docs/_build/index.html"

TRY_WHEEL := import torch; x = torch.ones(3, device="spyre"); \
	assert x.cpu().tolist() == [1.0, 1.0, 1.0]; print("the wheel works:", x)

.PHONY: wheel
wheel: $(REQUIREMENTS) ## build a wheel into dist/ and try it in an empty environment
	@rm -rf dist build/lib* build/bdist* build/wheel-try
	$(PIP) wheel -q --no-build-isolation --no-deps -w dist .
	@$(BIN)/python -m venv build/wheel-try
	build/wheel-try/bin/python -m pip --disable-pip-version-check install -q \
	  -c requirements/constraints.txt dist/torch_spyre-*.whl
	@cd build/wheel-try && bin/python -I -c '$(TRY_WHEEL)'

.PHONY: clean
clean: ## remove everything that was built, except .venv
	rm -rf build dist docs/_build *.egg-info torch_spyre/_C*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find torch_spyre tests scripts examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
