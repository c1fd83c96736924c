# The same verbs locally and in CI. `make demo` needs nothing but make and a Python of at least 3.11.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
GYM_VERSIONS := 0.4.0 0.5.1 0.6.0 0.7.0
FITS := import sys; sys.exit(sys.version_info < (3, 11))

.PHONY: setup demo demo-gym test screenshots bench chaos nightly audit lock dist lint format clean
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml
	@for python in python3 python3.13 python3.12 python3.11 python; do \
	  if $$python -c '$(FITS)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Rollcall needs Python 3.11 or later; none was found on PATH." >&2; exit 2; fi; \
	$(BIN)/python -c '$(FITS)' 2>/dev/null || $$found -m venv --clear $(VENV) || \
	  { echo "$$found cannot make a virtual environment: install its venv package (Debian: python3-venv)." >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The main job without Gym: a small evaluation with one fault of each kind, then its resume.
demo: setup
	$(BIN)/rollcall demo --output .demo

# The same with real NeMo Gym, installed into its own environment below .gym.
demo-gym: setup
	$(BIN)/python tests/gym/demo.py

# Each version of Gym gets an environment first; ROLLCALL_REQUIRE_GYM=1 makes one that cannot be had a failure and
# not a skip. The tests ask make themselves and must not be taken for a part of this one. nginx is a second opinion on
# what passes through the proxy (docs/conformance.md); without it that alone is skipped. The page for browsers is tested in
# a real Chromium; ROLLCALL_REQUIRE_BROWSER=1 makes it a failure that there is none.
# Containers are tried where ROLLCALL_COMPOSE names a command for them, such as 'docker compose'.
test: setup
	@$(BIN)/python -m bench.install nginx || true
	@$(BIN)/python -m bench.browser || [ "$$ROLLCALL_REQUIRE_BROWSER" != 1 ] || exit 1
	@for version in $(GYM_VERSIONS); do \
	  $(BIN)/python tests/gym/install.py $$version || [ "$$ROLLCALL_REQUIRE_GYM" != 1 ] || exit 1; \
	done
	MAKEFLAGS= MAKELEVEL= $(BIN)/python -m pytest -ra

# The pictures in docs/, from a real run of the demo.
screenshots: setup
	ROLLCALL_WRITE_SCREENSHOTS=1 ROLLCALL_REQUIRE_BROWSER=1 $(BIN)/python -m pytest tests/page/test_page_screenshots.py

# The data path beside other proxies: about a quarter of an hour, docs/performance.md. BENCH takes flags, such as --only latency.
bench: setup
	$(BIN)/python -m bench $(BENCH)

# Random kills and partitions of every part of a run: docs/chaos.md. CHAOS takes flags, such as '--seeds 1-20 --jobs 2'.
chaos: setup
	$(BIN)/python -m chaos $(CHAOS)

# The long forms of the tests, in hours: docs/nightly.md says what the last night found. NIGHTLY takes flags, such as
# '--only cases,bytes'.
nightly: setup
	$(BIN)/python -m nightly $(NIGHTLY)

# Known vulnerabilities of what is locked. Says so where the data cannot be had; ROLLCALL_REQUIRE_AUDIT=1 makes that a
# failure.
audit: setup
	$(BIN)/python -m nightly.audit

# What the image installs, with hashes: the newest that pyproject.toml allows, for every Python and system.
LOCKED := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
  --custom-compile-command 'make lock' --upgrade --quiet
lock: setup
	$(BIN)/uv pip compile pyproject.toml --extra postgresql $(LOCKED) --output-file requirements.lock
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
	  $(BIN)/uv pip compile - $(LOCKED) --output-file requirements-build.lock

# Wheel and sdist in dist/, built as anyone would build them, and held by the tests of what is published.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m pytest tests/packaging

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .demo .gym .bench .chaos .nightly dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
