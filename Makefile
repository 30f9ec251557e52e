# Everything a checkout needs: Python 3.11 or newer, make, and a package index.
PYTHON ?= python3
BIN := .venv/bin
SERVING := .venv/.serving
READY := .venv/.ready
NODE := .venv/.node
GENERATORS := .venv/.generators
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes
LOCK := .venv-fresh/bin/pip-compile --quiet --generate-hashes --strip-extras --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links --unsafe-package invoice-liquidity-sandbox -c constraints.txt
EXAMPLES ?= 30
COUNT ?= 20
SEEDS ?= $(shell od -An -v -tu4 -N$$((4 * $(COUNT))) /dev/urandom)
SECONDS ?= 5
SHARE ?= 1
RUNS ?= 10
WALKS ?= 500
FIRST ?= 0
WORKERS ?= auto
STORE ?= memory

.PHONY: gate help install run test test-fast test-stores check format walks fuzz fuzz-seeds acceptance acceptance-power bench attack browser docs keywords foreign console-check console-shots chaos interop image build constraints clean

unexport PYTHONDONTWRITEBYTECODE  # without caches every process of the tests compiles everything

gate: check test  ## lint, types, import layers and all tests

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

install: $(READY)  ## make .venv with exactly the files whose hashes are in requirements/

$(SERVING): pyproject.toml requirements.txt requirements/editable.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing 97 MB into .venv, which takes up to a minute"
	$(PYTHON) -m venv .venv
	$(INSTALL) -r requirements.txt -r requirements/editable.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q invoice_sandbox handlers domain
	@touch $@

$(READY): $(SERVING) requirements/dev.txt
	@echo "Installing 562 MB more for tests, lint, types and docs: playwright 165, zensical 90, PostgreSQL 73, mypy 56"
	$(INSTALL) -r requirements/dev.txt
	@touch $@

run: $(SERVING)  ## serve on http://127.0.0.1:8080
	$(BIN)/invoice-sandbox serve

test: export INVOICE_SANDBOX_TEST_STORE = $(STORE)
test: $(READY)  ## the whole test suite; STORE=sqlite or postgresql: servers keep their state there
	@echo "The whole suite takes three to five minutes of CPU time, and about five minutes on 2 cores."
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 4 \
		--dist loadfile --no-loadscope-reorder

STORED := agenda event_log capacity idempotency inbox journal ledger_http retention tenant_isolation \
	transitions webhook_lanes webhook_retries workspaces

test-stores: $(READY)  ## the tests of what a store keeps, on SQLite and on PostgreSQL
	@for store in sqlite postgresql; do \
		INVOICE_SANDBOX_TEST_STORE=$$store $(BIN)/python -m pytest --quiet --numprocesses 2 \
			--dist loadfile -m "not process and not slow" $(STORED:%=tests/test_%.py) || exit 1; \
	done

test-fast: $(READY)  ## the inner loop: no processes, nothing slow
	@echo "The fast tests take about 40 seconds of CPU time."
	@$(BIN)/python -m pytest --quiet --numprocesses 3 --dist loadfile \
		-m "not process and not postgresql and not slow"

check: $(READY)  ## lint, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## let the formatter and the lint fixes write
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

walks: $(READY)  ## 500 random walks over HTTP: money is kept, each move has one event; WALKS=1 FIRST=7 repeats seed 7
	$(BIN)/python -m tests.walks $(WALKS) --first $(FIRST)

fuzz: $(READY)  ## schemathesis on both contracts, all phases and checks, EXAMPLES an operation
	$(BIN)/invoice-sandbox fuzz --max-examples $(EXAMPLES)
	$(BIN)/invoice-sandbox fuzz --control-api --max-examples $(EXAMPLES)

fuzz-seeds: $(READY)  ## the same with COUNT new seeds, or with SEEDS, to its end even if one fails
	@failed=; for seed in $(SEEDS); do \
		for contract in "" --control-api; do \
			$(BIN)/invoice-sandbox fuzz $$contract --max-examples $(EXAMPLES) --seed $$seed \
				|| failed="$$failed $$seed"; \
		done; \
	done; test -z "$$failed" || { echo "something was found with seeds:$$failed"; exit 1; }

acceptance: $(NODE)  ## all clients through the partner plan, with their tables in docs/; or those of CLIENTS
	$(BIN)/python -m tests.acceptance $(CLIENTS)

acceptance-power: $(READY)  ## mutants of the reference clients, faults of a proxy, and a search; BOUNDED=yes: one and two, no search
	$(BIN)/python -m tests.acceptance.power $(if $(BOUNDED),--bounded)
	$(if $(BOUNDED),,$(BIN)/python -m tests.acceptance.search)

bench: $(NODE)  ## CPU and start beside a bare ASGI server and Prism, and the stores, for docs/internals/performance.md
	$(BIN)/python -m tests.bench --seconds $(SECONDS)

attack: $(READY)  ## a corpus of attacks on a running server, each RUNS times, and a table; BOUNDED=yes: RUNS if it breaks
	$(BIN)/python -m tests.attack --runs $(RUNS) $(if $(BOUNDED),--bounded)

console-check: $(READY)  ## axe on every view and state of the console, at three widths, light and dark
	$(BIN)/python -m tests.console.check

console-shots: $(READY)  ## pictures and a recording of the console for the docs
	$(BIN)/python -m tests.console

chaos: $(READY)  ## end servers and databases while clients write; SHARE=0.01 does each once
	$(BIN)/python -m tests.chaos --share $(SHARE)

keywords: $(READY)  ## the official JSON Schema suite in both directions, and docs/internals/keywords.md
	$(BIN)/python -m tests.keywords

foreign: $(NODE)  ## OpenAPI documents of many makers, served as they are, and docs/internals/third-party-documents.md
	$(BIN)/python -m tests.foreign $(DOCUMENTS)

interop: $(NODE) $(if $(BOUNDED),,$(GENERATORS))  ## receivers, clients, proxies and code generators; the files of deployments; BOUNDED=yes: one generator
	$(BIN)/python -m tests.interop
	$(BIN)/python -m tests.generators $(if $(BOUNDED),--bounded)
	$(BIN)/python -m tests.foreign --bounded

$(NODE): $(READY) requirements/interop.txt tests/interop/package-lock.json
	@echo "Installing 640 MB more for Node.js and what it runs, into .venv and tests/interop/node_modules"
	$(INSTALL) -r requirements/interop.txt
	$(BIN)/python -m tests.interop.node
	@touch $@

browser: $(READY)  ## Chrome or Chromium for the tests of the pages: an installed one, else Playwright's
	@$(BIN)/python -m tests.browser || $(BIN)/playwright install chromium

$(GENERATORS): $(NODE) requirements/generators.txt tests/generators/package-lock.json
	@echo "Installing 430 MB of code generators, which takes up to two minutes"
	$(INSTALL) -r requirements/generators.txt
	$(BIN)/python -m tests.interop.node tests/generators
	@touch $@

docs: $(READY)  ## the documentation as a site in build/help, strict about links, which the sandbox serves at /help
	$(BIN)/python hatch_build.py build/help

image:  ## the image of the Dockerfile, if a Docker daemon runs
	@if docker info > /dev/null 2>&1; then \
		docker build --tag invoice-sandbox . && docker run --rm --read-only invoice-sandbox --version; \
	else echo "no image: no Docker daemon runs here"; fi

build: $(READY)  ## wheel and sdist in dist/, the wheel of the client, and the software bill of materials
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --wheel --outdir dist clients/python
	$(PYTHON) -m venv .venv-bill  # its libraries would change what the tests compare formats with
	.venv-bill/bin/pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/bill.txt
	.venv-bill/bin/python -W ignore::UserWarning -m cyclonedx_py requirements requirements.txt \
		--pyproject pyproject.toml --output-reproducible --of JSON --output-file dist/sbom.cdx.json
	rm -rf .venv-bill  # the warning: requirements.txt does not say which library needs which
	@echo "Built, in dist/:" && ls dist

constraints: $(READY)  ## pin what a fresh resolution of pyproject.toml gives, with the hashes of all files
	rm -rf .venv-fresh && $(PYTHON) -m venv .venv-fresh
	.venv-fresh/bin/pip install --quiet --disable-pip-version-check -e '.[dev,interop,generators]'
	.venv-fresh/bin/pip freeze --exclude-editable --disable-pip-version-check > constraints.txt
	.venv-fresh/bin/pip install --quiet --disable-pip-version-check pip-tools
	$(LOCK) -o requirements.txt pyproject.toml
	$(LOCK) --only-build-deps --build-deps-for wheel --build-deps-for editable \
		-o requirements/build.txt pyproject.toml
	$(LOCK) --extra dev -o requirements/dev.txt pyproject.toml
	$(LOCK) --extra interop -o requirements/interop.txt pyproject.toml
	$(LOCK) --extra generators -o requirements/generators.txt pyproject.toml
	$(LOCK) --extra postgresql -o requirements/postgresql.txt pyproject.toml
	echo "editables hatchling>=1.27,<2" | tr ' ' '\n' | $(LOCK) -o requirements/editable.txt -
	echo cyclonedx-bom | $(LOCK) -o requirements/bill.txt -
	sed -i '/^#/d' requirements/dev.txt requirements/postgresql.txt  # the sandbox itself is no file with a hash
	rm -rf .venv-fresh

clean:
	rm -rf .venv .venv-fresh .venv-bill dist build *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		tests/interop/node_modules tests/foreign/node_modules tests/generators/node_modules
