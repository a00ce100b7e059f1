# `make` alone lists the targets. Set-up needs git, make, python3-venv and Python 3.11 or later, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
# `make test TESTS=tests/unit` or `make proof ONLY="-k reboot"` runs a part.
TESTS ?= tests
ONLY ?=
# Where Python may not write beside the sources, each start would read them anew.
COMPILED := $(BIN)/python -m compileall -q service lab migrations
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down dev check check-static test proof bench lock sbom structure wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the lock (hashes checked) and put unstick into it

$(READY): requirements-dev.lock pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "unstick needs Python 3.11 or later; try: make setup PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python cannot make a venv; try: apt-get install python3-venv" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(COMPILED)
	@touch $@

demo: setup ## watch the service cure a really stuck FUSE mount (YES=1 asks nothing, KEEP=1 leaves it up, TIER=2 needs no node, EXECUTOR=ssm no SSH)
	@$(BIN)/unstick demo

demo-down: setup ## end what KEEP=1 has left
	@$(BIN)/python -m lab.demo down

dev: setup ## serve on loopback with a one-time token
	$(BIN)/unstick serve --dev

check: setup ## what must be green before each commit, in under a minute
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-form check-types check-runbooks check-tests

check-static: setup ## the same without its tests, for whoever runs all of them afterwards
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-form check-types check-runbooks

.PHONY: check-form check-types check-runbooks check-tests
check-form:
	$(BIN)/ruff format --quiet --check .
	$(BIN)/ruff check --quiet .
	$(BIN)/python tools/sizes.py
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/structure.py --check
check-types:
	$(BIN)/mypy
check-runbooks:
	$(BIN)/unstick lint --no-shell runbooks/*.yaml
check-tests:
	$(PYTEST) $(wildcard tests/unit tests/runbooks tests/triggers) --ignore tests/runbooks/test_cases.py --ignore tests/runbooks/test_cases_undone.py

test: setup ## every behaviour at the smallest count that can fail (as root, installs the Debian packages it needs)
	.ci/apt
	@$(COMPILED)
	@# The first node waits for its file system, which takes a minute: it is begun while the tests are collected.
	@$(if $(filter tests,$(TESTS)),test "$$(id -u)" != 0 || $(BIN)/python -m lab.rootfs >/dev/null 2>&1 &)
	@# What one process has compiled, the others need not.
	env -u PYTHONDONTWRITEBYTECODE $(PYTEST) --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "not proof and not aws" $(TESTS)

proof: setup ## the large counts, and docs/proof.md (hours; ONLY="-k name" runs some)
	.ci/apt .ci/apt-proof.txt
	$(BIN)/python tools/proof.py $(ONLY)

bench: setup ## speed, as ratios against raw paramiko and Ansible
	.ci/apt
	$(BIN)/python -m bench

lock: setup ## write the lock files anew from pyproject.toml (UPGRADE=1 takes newer versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra oidc --extra postgres --output-file requirements.lock pyproject.toml
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra oidc --extra postgres --extra dev --all-build-deps -c requirements.lock \
		--output-file requirements-dev.lock pyproject.toml
	$(COMPILE) --only-build-deps --all-build-deps -c requirements-dev.lock \
		--output-file requirements-build.lock pyproject.toml

sbom: setup ## write dist/unstick.cdx.json: every package that is installed, with its hashes (CycloneDX)
	$(BIN)/python tools/sbom.py dist/unstick.cdx.json

structure: setup ## draw the imports into docs/structure.md
	$(BIN)/python tools/structure.py

wheel: setup ## build dist/unstick-*.whl
	rm -rf build
	PYTHONWARNINGS=ignore $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove what was built, the lab's leftovers included
	-test ! -x $(BIN)/python || $(BIN)/python -m lab.nodes down
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
