# Every target sets up what it needs: `.venv` with the locked dependencies and the extension module in it.
# Needed beforehand: Python >= 3.11, a Rust toolchain, make. What is missing is named by scripts/check_prerequisites.

VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9

# Our environment first (pip looks for maturin on PATH), then rustup's folder, which may not be on the shell's PATH.
export PATH := $(CURDIR)/$(BIN):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
# Always use .venv, even if the caller's shell has activated another environment.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(VIRTUAL_ENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport CONDA_PREFIX
# Kernels and crates that tests build must not inherit our job server.
unexport MAKEFLAGS MFLAGS
unexport PYTHONHOME
unexport PYTHONPATH

# Cargo profile of the extension module in .venv: release, or local, which compiles in a fraction of the time.
PROFILE ?= release
# Locked here, not in pyproject.toml: a source distribution leaves crates out, and its lock names too many.
export MATURIN_PEP517_ARGS = --profile $(PROFILE) --locked

# The guests' program has the extension module's features and profile, so that shared crates are compiled once.
GUEST = cargo build --profile $(PROFILE) --locked --quiet --package tailback-py --package tailback-live --bin tailback-guest

# List folders too, so that make notices deleted files.
RUST := $(shell find crates/*/src crates/*/Cargo.toml) Cargo.toml Cargo.lock .cargo/config.toml
CARGO_FLAGS := --locked --workspace
SCRIPTS = $(shell grep -slE "^\#!.*python" scripts/*)

.DEFAULT_GOAL := help
.PHONY: help demo test outputs fuzz long suites audit coverage instructions bench bench-peers figures validate identify pages docs explorer record explorer-test lint fmt env fast wheel journey release-check lock version clean rust-tests check-rust check-python demo-takes test-takes

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: PROFILE := local
demo: demo-takes $(VENV)/.built ## Run the voip-latency study in full; prints the claims table and the report's path
	$(BIN)/tailback study voip-latency

test: PROFILE := local
test: test-takes lint rust-tests check-rust check-python ## Lint, then every test that is not marked long

# Printed first, so that the user knows the duration before the compiler starts.
demo-takes:
	@echo 'make demo: about 3 minutes on two cores, the first time some more to compile'

test-takes:
	@echo 'make test: 8 to 10 minutes on two cores, the first time some more to compile'

fuzz: $(VENV)/.built ## Try ten thousand random scenarios and damaged files, for a night; the smallest of each fault is left in fuzz/
	$(BIN)/python scripts/fuzz

bench: $(VENV)/.built ## Measure the engine
	@if ls crates/*/benches/*.rs >/dev/null 2>&1; then cargo bench $(CARGO_FLAGS) --bench '*'; \
	else echo 'no benchmarks in crates/*/benches'; fi
	$(if $(shell command -v valgrind),$(BIN)/python scripts/ack_costs,@echo 'valgrind is not installed: what an ACK costs was not counted')

# After the tests are compiled: the benchmarks are of the same build.
instructions: rust-tests ## Count the engine's instructions a packet; beyond 2 % of the kept counts is an error
	@$(BIN)/python scripts/instructions

coverage: $(VENV)/.built ## Which share of the lines the tests run, Rust and Python: two numbers, in half an hour
	@command -v cargo-llvm-cov >/dev/null || { printf 'missing: cargo-llvm-cov\n    cargo install --locked cargo-llvm-cov\n' >&2; exit 1; }
	@mkdir -p target/coverage
	cargo llvm-cov $(CARGO_FLAGS) --summary-only --quiet >target/coverage/rust.txt 2>&1 || { tail -n 40 target/coverage/rust.txt >&2; exit 1; }
	@grep -E '^(Filename|TOTAL)' target/coverage/rust.txt
	COVERAGE_FILE=target/coverage/python $(BIN)/pytest --quiet -n auto --cov=tailback --cov-report=term >target/coverage/python.txt 2>&1 || { tail -n 40 target/coverage/python.txt >&2; exit 1; }
	@grep -E '^(Name|TOTAL)' target/coverage/python.txt

audit: $(VENV)/.installed ## Licences, origins and advisories of every crate: cargo-deny, or offline what needs no network
	@if ! command -v cargo-deny >/dev/null; then scripts/check_licences; \
	    echo 'licences and origins are as deny.toml allows; advisories were not looked up: cargo install --locked cargo-deny'; \
	elif cargo deny fetch db >/dev/null 2>&1; then cargo deny --locked check; \
	else cargo deny --locked --offline check licenses bans sources; \
	    echo 'advisories were not looked up: their database cannot be reached'; fi

validate: $(VENV)/.built ## Compare with a real kernel and with ns-2; with tshark and tcptrace; rewrites their pages
	$(BIN)/tailback validate $(if $(shell command -v ns),--ns2)
	PYTHONPATH=validation $(BIN)/python -m tailback_validation.captures
	$(BIN)/python scripts/algorithms_page

identify: $(VENV)/.built ## Train what `tailback pcap identify` asks and judge it, in a quarter of an hour; writes docs/identify.md
	$(BIN)/python scripts/identify

figures: $(VENV)/.built ## Draw the figures of the gallery, docs/applications.md, queues.md, plots.md and links/ again
	$(BIN)/python scripts/application_figures
	$(BIN)/python scripts/queue_figures
	$(BIN)/python scripts/link_figures
	$(BIN)/python scripts/gallery
	$(BIN)/python scripts/plots_figures

outputs: $(VENV)/.built ## Run the commands that pages show and write what they print; the notebooks' pages; the front picture
	$(BIN)/python scripts/front_picture.py
	$(BIN)/python scripts/console_outputs.py
	$(BIN)/python scripts/notebooks.py

bench-peers: $(VENV)/.built ## Measure the engine beside ns-2, ns-3, tshark and tcptrace, in ten minutes; writes docs/performance.md
	$(BIN)/python bench/peers/compare.py --work $(VENV)/peers

pages: $(VENV)/.built ## Write the pages made from the sources: columns, the scenario's fields, cards, algorithms, the trust boundary
	$(BIN)/python scripts/columns_page
	$(BIN)/python scripts/metrics_page
	$(BIN)/python scripts/scenario_page
	$(BIN)/python scripts/cards_in_pages
	$(BIN)/python scripts/algorithms_page
	$(BIN)/python scripts/security_page
	$(BIN)/python scripts/instructions_page
	$(BIN)/python scripts/commands_page
	$(BIN)/python scripts/suites_page --list

docs: pages ## Build the documentation into site/; a dead link is an error
	@scripts/explorer || echo 'the documentation is built without the explorer in it'
	$(BIN)/mkdocs build --strict --quiet
	RUSTDOCFLAGS='-D warnings' cargo doc $(CARGO_FLAGS) --no-deps --quiet
	@echo 'site/index.html (guide), target/doc/tailback_core/index.html (Rust)'

record: $(VENV)/.built ## Write site/record.html, every verdict that is committed, and print its hash: always the same
	@$(BIN)/python scripts/record.py

explorer: ## Build the explorer, the simulator in a web page: needs npm and rustup; what is missing is named
	@scripts/explorer

explorer-test: explorer $(VENV)/.built ## Its tests, in Chromium too: the same bytes as outside, refusals, the page
	@cd explorer && npm run --silent test && PYTHON=../$(BIN)/python npm run --silent e2e

lint: $(VENV)/.built ## Formatting, clippy, ruff, mypy and spelling; a warning is an error
	cargo fmt --all --check
	@# By the extension module's profile: macros and build scripts are not compiled again.
	@# The determinism rules (crates/tailback-core/clippy.toml) bind the library; its tests may use a clock.
	cargo clippy --profile $(PROFILE) --locked --package tailback-core --quiet --lib -- -D warnings
	cargo clippy --profile $(PROFILE) $(CARGO_FLAGS) --quiet --all-targets -- -D warnings -A clippy::disallowed_methods -A clippy::disallowed_types
	@# Scripts have no ending by which ruff would find them.
	$(BIN)/ruff check --quiet . $(SCRIPTS)
	$(BIN)/ruff format --check --quiet . $(SCRIPTS)
	$(BIN)/mypy --no-error-summary
	$(BIN)/mypy --no-error-summary --scripts-are-modules $(sort $(SCRIPTS) $(wildcard scripts/*.py))
	@# Words that it must not change are listed in pyproject.toml with their reasons.
	@git ls-files --stage | awk '$$1 != "120000"' | cut -f 2 | xargs $(BIN)/codespell
	scripts/check_licences

# Uses the extension module's profile, so that its crates are not compiled again and the law tests run at full speed.
rust-tests: $(VENV)/.built
	cargo test --profile local $(CARGO_FLAGS) --quiet --no-run

# Even with --jobs these tests run after everything else, because kernels in them run in real time.
check-rust: rust-tests | $(if $(filter test,$(MAKECMDGOALS)),lint) $(filter explorer-test instructions journey suites,$(MAKECMDGOALS))
	cargo test --profile local $(CARGO_FLAGS)

check-python: $(VENV)/.built | $(if $(filter test,$(MAKECMDGOALS)),check-rust)
	$(BIN)/pytest -n auto

fmt: $(VENV)/.installed ## Format all sources and fix what the linters can
	cargo fmt --all
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format --quiet

env: $(VENV)/.built ## Only make the environment .venv, with tailback in it

wheel: explorer $(VENV)/.built ## A wheel for this kind of machine in dist/, with the explorer, compiled by its own profile as `make fast` does
	@scripts/optimise --wheel dist

long: $(VENV)/.built ## The tests that `make test` leaves out: whole searches, and variants of what a quicker test sees
	$(BIN)/pytest -n auto -m long

suites: $(VENV)/.built ## The suites that take up to a minute, two minutes in all: red if anything comes out other than declared
	@names=$$($(BIN)/python scripts/quick_suites) && $(BIN)/tailback test --as-declared $$names

release-check: explorer $(VENV)/.built ## Make all that a release consists of in dist/release and check it; publishes nothing
	@PROFILE=$(PROFILE) $(BIN)/python scripts/release_check

journey: $(VENV)/.built ## A stranger's first hour from an installed wheel: build, install, run, sweep, look
	$(BIN)/python tests/journey/journey.py --profile $(PROFILE)

fast: $(VENV)/.built ## The environment with an engine compiled by its own profile: a quarter faster, same results
	@scripts/optimise

lock: $(VENV)/.installed ## Resolve requirements.lock and Cargo.lock again
	$(BIN)/python -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet uv==$(UV_VERSION)
	$(VENV)/lock/bin/uv pip compile pyproject.toml --group dev --all-extras --universal --python-version 3.11 \
	    --generate-hashes --upgrade --no-emit-index-url --no-emit-find-links --quiet \
	    --custom-compile-command 'make lock' --output-file requirements.lock
	cargo update

version: ## Set the version everywhere: make version V=0.3.0
	@test '$(V)' || { echo 'Say which: make version V=0.3.0'; exit 2; }
	sed -i -e 's/^version = ".*"/version = "$(V)"/' -e 's/"tailback-lab\[analysis\]>=.*"\]/"tailback-lab[analysis]>=$(basename $(V))"]/' Cargo.toml papers/pyproject.toml
	sed -i -E 's|(path = "\.\./tailback[a-z-]*", version = )"[^"]*"|\1"$(V)"|' crates/*/Cargo.toml
	sed -i -E 's|^(tailback-bench = )"[^"]*"|\1"$(basename $(V))"|' crates/tailback-bench/README.md crates/tailback-bench/adapters/*/Cargo.toml
	cargo update --workspace --offline --quiet
	cargo update --manifest-path fuzz/Cargo.toml --workspace --quiet

clean: ## Remove everything the targets have built; results stay
	rm -rf $(VENV) target site dist explorer/node_modules explorer/src/engine/wasm python/tailback/explorer/site .mypy_cache .ruff_cache .pytest_cache .hypothesis python/tailback/_core*.so python/tailback/vm/tailback-guest
	find python papers validation tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: requirements.lock
	@scripts/check_prerequisites
	@# A half-made environment, or one whose interpreter is gone, is made again.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo 'making $(VENV)'; \
	    $$(scripts/check_prerequisites --python) -m venv --clear $(VENV); }
	@echo 'installing the locked dependencies'
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.installed pyproject.toml papers/pyproject.toml $(RUST)
	@echo 'compiling the extension module'
	@$(BIN)/python -m pip install --no-deps --no-build-isolation --no-index --verbose --editable .
	@$(BIN)/python -m pip install --no-deps --no-build-isolation --no-index --quiet --editable papers
	@# What runs in the guests of `--engine vm`, where there are any.
	@if [ "$$(uname -sm)" = 'Linux x86_64' ]; then \
	    $(GUEST) && install -s -m 755 target/$(PROFILE)/tailback-guest python/tailback/vm/; fi
	@rm -f $(VENV)/.fast
	@echo $(PROFILE) >$(VENV)/.profile
	@touch $@
