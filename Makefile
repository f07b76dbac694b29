# Needs python3 (3.11 to 3.13) and make. Everything else is installed into the checkout.

PYTHON ?= python3
RUN := .venv/bin/python
PICTURES ?= .cache/pictures
CODE := $(wildcard src tests tools bench examples)

# Six workers for two cores: tests also wait for processes, deadlines and disks. Each worker imports all tests.
WORKERS := -n 6 --dist worksteal

# Every test worker, and every program that a test starts, would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help test check soak static fast-tests test-backends test-pythons bench bench-recall bench-chats bench-growth bench-soak bench-model eval openai-clients peers surfaces record demo page-pictures guarantees report-cards release try-wheel docs lock format sync clean chat web

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

test: static ## All checks and all tests but the long runs and those on memory servers
	$(RUN) -m pytest -m "not backends and not soak" $(WORKERS) $(PYTEST_ARGS)

test-backends: sync ## The contract suite of all memory providers, and real memory servers (installs 2 GB)
	$(RUN) -m tools.backends
	$(RUN) -m pytest -m backends $(PYTEST_ARGS)

test-pythons: sync ## All tests but those on real memory servers, on each supported Python that is installed
	$(RUN) -m tools.pythons $(PYTEST_ARGS)

check: static fast-tests ## All checks and the fast tests, in under two minutes

static: sync ## Lint, format, types, import order, file sizes
	$(RUN) -m ruff check $(CODE)
	$(RUN) -m ruff format --check $(CODE)
	$(RUN) -m mypy $(CODE)
	.venv/bin/lint-imports --no-logo --cache-dir .cache/import-linter
	$(RUN) -m tools.file_sizes $(CODE)

# Three workers for two cores: these tests wait as long as they compute.
fast-tests: sync
	$(RUN) -m pytest -m "not slow and not backends" --fast -n 3 $(PYTEST_ARGS)

soak: sync ## The long runs: random tests, 20,000 chats, a large store moved, servers, nodes and gateways killed
	$(RUN) -m pytest -m soak -n 2 $(PYTEST_ARGS)
	$(RUN) -m bench.growth 20000
	$(RUN) -m bench.soak --kills 200 --pauses 50
	$(RUN) -m bench.rolling_restart --rounds 20
	$(RUN) -m bench.node_torture --faults 500
	$(RUN) -m bench.store_move
	$(RUN) -m bench.gateway_soak --kills 200
	$(RUN) -m bench.gateway_soak --kills 40 --store postgres

bench: sync ## Measure the store beside a bare sqlite3 control
	$(RUN) -m bench --write docs/benchmarks.md

bench-recall: sync ## Measure what memory finds on annotated conversations, and how fast at 100,000 turns
	$(RUN) -m bench.recall --write docs/recall.md

bench-chats: sync ## Measure 200 chats at once on each chat platform
	$(RUN) -m bench.gateway --write docs/chat-benchmarks.md

bench-growth: sync ## Measure memory from 1,000 to 1,000,000 passages and draw docs/memory-growth.md
	$(RUN) -m bench.memory_growth --write docs

bench-soak: sync ## Lead a server through 10,000 turns, with memory and without, and draw docs/soak.md
	$(RUN) -m bench.growth 10000 --write docs

peers: sync ## Try MCP servers, the MCP inspector and an ACP client of others (installs 450 MB)
	$(RUN) -m tools.mcp_peers --write
	$(RUN) -m tools.acpx_session --write

surfaces: sync ## Hold one conversation in an editor, a terminal and a browser, and write it down
	$(RUN) -m tools.three_surfaces --write

record: sync ## Play a long conversation over real HTTP and write down what happened
	$(RUN) -m tools.recorded_run > docs/end-to-end.md

demo: sync ## Play a chat on a terminal and draw what a person sees, for the README
	$(RUN) -m tools.demo

page-pictures: sync ## Work through 15 turns on the page and take the pictures of docs/web-page.md (the others into PICTURES)
	mkdir -p $(PICTURES)
	SHOTS=$(abspath $(PICTURES)) $(RUN) -m pytest tests/web/page/test_working_session.py
	for each in light-wide-edit dark-wide-view-changes light-phone-code dark-phone-edit; do cp $(PICTURES)/$$each.png docs/page-$$each.png; done

bench-model: sync ## Measure the embedded model: loading, the first token, tokens a second
	$(RUN) -m bench.embedded

eval: sync ## Try 20 small tool tasks with a model, tool profile small against all: make eval MODEL=ollama:qwen3
	$(RUN) -m bench.evaluate --model "$(MODEL)" $(EVAL_ARGS)

guarantees: sync ## List the clauses of docs/guarantees.md and the tests that prove each
	@$(RUN) -m tools.guarantees

openai-clients: sync ## Try nine clients of OpenAI's protocol with their own tools (installs 1.5 GB into .cache)
	$(RUN) -m tools.openai_clients --write

report-cards: sync ## Run the contract suite over every memory provider and write docs/report-cards.md
	$(RUN) -m tools.report_cards > .cache/report-cards.md && mv .cache/report-cards.md docs/report-cards.md

format: sync ## Format the code and apply the safe fixes
	$(RUN) -m ruff check --fix $(CODE)
	$(RUN) -m ruff format $(CODE)

lock: ## Resolve the dependencies anew into uv.lock and package-lock.json, e.g. UV_ARGS="--upgrade"
	$(PYTHON) tools/bootstrap.py lock $(UV_ARGS)
	$(RUN) -m tools.page_libraries lock

chat: sync ## Talk with the agent
	.venv/bin/holdfast chat

web: sync ## Serve the page and the HTTP API on this machine
	.venv/bin/holdfast web

release: sync ## Build wheel, source archive, SBOM and checksums into dist/, twice and compared
	$(RUN) -m tools.release

try-wheel: sync ## Install the built wheel on each Python, with pip, pipx and uv, and use it
	$(RUN) -m tools.try_wheel $(TRY_ARGS)

docs: sync ## Build the site from docs/ into site/
	$(RUN) -m tools.docs_site

sync: ## Install uv, the locked dependencies and the page's libraries into the checkout
	@$(PYTHON) tools/bootstrap.py

clean: ## Remove everything that make has put into the checkout
	rm -rf site .venv .tools .cache .hypothesis .import_linter_cache dist node_modules src/holdfast/web/page/lib
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
