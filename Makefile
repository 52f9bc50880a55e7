# `make help` lists what there is. `make test` is everything CI runs; it needs Go, a C
# compiler, make, Python with venv, and npm, and fetches the rest by itself, pinned.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Arguments for `make demo`, `make bench` and `make mutants`.
ARGS ?=
# How long each fuzz target runs in fuzz-smoke.
FUZZTIME ?= 3s
# Packages tested or built at a time. Each may start a Postgres of five majors.
JOBS ?= 2

# Groups of rows for `make windows`, and one row instead.
GROUP ?= U S L B W P N
ROW ?=

# Moves every window of `make windows` on by so many Postgres majors; five turns are all.
TURN ?= 0

# Random schedules of `make sim`.
SEEDS ?= 50

export ARGS FUZZTIME

BIN := bin/replicant-sidecar
VENV := examples/python-sink/.venv/bin
STATICCHECK := go tool -modfile=tools/lint/go.mod staticcheck

##@ Try it

.PHONY: demo
demo: build python ## Postgres, the sidecar and the Python sink in one terminal; ARGS="--for 15s -o json"
	@PATH="$(CURDIR)/$(VENV):$$PATH" $(BIN) demo $(ARGS)

.PHONY: bench
bench: build python postgres ## measure against pg_recvlogical and a native subscription; ARGS passes on
	@PATH="$(CURDIR)/$(VENV):$$PATH" go run ./bench $(ARGS)

.PHONY: kills
kills: build python postgres ## 200 seeded kill -9 of sidecar, sinks and Postgres, judged after each; KILLS=200 SEED=n
	REPLICANT_KILLS=$(or $(KILLS),200) REPLICANT_SEED=$(SEED) go test -count=1 -v -timeout 60m -run TestKills ./cmd/replicant-sidecar/internal/demo

.PHONY: chaos
chaos: build python ## the demo with --chaos for 30 s, ten times in a row; each must end exact with five kills of both
	@PATH="$(CURDIR)/$(VENV):$$PATH" scripts/chaos.sh $(BIN) $(or $(RUNS),10)

.PHONY: build
build: ## build bin/replicant-sidecar
	@go build -o $(BIN) ./cmd/replicant-sidecar

##@ Check it

.PHONY: test
test: setup lint verify proto test-race test-model test-python test-typescript test-conformance fuzz-smoke readme ## everything CI runs

.PHONY: ci
ci: ## what .ci/run calls: `make test`, as the README says it, to its end, with the time it took
	@MAKEFLAGS=k scripts/ci.sh make test

.PHONY: quick
quick: postgres ## the Go tests against one Postgres major, without the race detector
	REPLICANT_PG_MAJORS=$${REPLICANT_PG_MAJORS:-17} go test -p $(JOBS) $$(scripts/packages.sh)

.PHONY: test-race
test-race: postgres python ## all Go tests but the models, under the race detector, on Postgres 14 to 18
	@scripts/step.sh "go test -race"
	go test -race -p $(JOBS) -timeout 20m $$(scripts/packages.sh)

.PHONY: test-model
test-model: ## the exhaustive models of the protocols, sets that take about a minute
	@scripts/step.sh "models"
	go test -p 1 -timeout 15m ./internal/model/...

.PHONY: model-long
model-long: ## the models' large sets too: two timeouts, three incarnations (4 GB, many minutes)
	REPLICANT_MODEL=long go test -p 1 -v -timeout 3h ./internal/model/...

.PHONY: fidelity
fidelity: postgres ## every type on every path, byte by byte, on Postgres 14 to 18 under a hostile role; zero differences
	@go test -count=1 -v -timeout 20m ./internal/fidelity -args -all | grep -v '^=== '

.PHONY: mutants
mutants: postgres python ## break the program on purpose, a patch at a time; ARGS="-only 003,010"
	@go run ./internal/mutants $(ARGS)

.PHONY: windows
windows: postgres ## every row of the fault matrix against real processes; GROUP="U S L B W P N" or ROW=U7
	@go test -c -o build/windows.test ./internal/windows
	@cd internal/windows && CI=1 REPLICANT_WINDOWS="$(or $(ROW),$(GROUP))" REPLICANT_WINDOWS_TURN=$(TURN) ../../build/windows.test -test.run TestWindows -test.parallel 2 -test.timeout 40m

.PHONY: storm
storm: postgres python ## an incremental snapshot under 500 transactions/s, sidecar and sink killed 20 times, two sinks (minutes)
	REPLICANT_PG_MAJORS=$${REPLICANT_PG_MAJORS:-17} REPLICANT_STORM="go python" go test -v -count 1 -timeout 30m -run TestStormBeside ./internal/windows

.PHONY: big
big: postgres ## one transaction of 1 GB through the program, streaming off and on (minutes, 10 GB of disk)
	REPLICANT_BIG=1 REPLICANT_PG_MAJORS=$${REPLICANT_PG_MAJORS:-17} go test -v -count 1 -timeout 2h \
		-run TestX08OneHugeTransaction ./cmd/replicant-sidecar/internal/programtest

.PHONY: sim
sim: ## the whole sidecar in simulated time under SEEDS random schedules
	go test -timeout 60m ./internal/sim -seeds $(SEEDS) -long

.PHONY: test-python
test-python: python ## the tests of the Python sink
	@scripts/step.sh "pytest"
	$(VENV)/python -m pytest -q -p no:cacheprovider examples/python-sink

.PHONY: test-typescript
test-typescript: typescript ## the tests of the TypeScript sink
	@scripts/step.sh "node --test"
	cd examples/typescript-sink && node_modules/.bin/prettier --check --log-level=warn . && node --test dist/tests/

.PHONY: test-conformance
test-conformance: build python typescript ## the conformance suite: its test of itself, then on the Python and the TypeScript sink
	@scripts/step.sh "conformance selftest"
	$(BIN) conformance selftest --seed 1
	@scripts/step.sh "conformance of the Python sink"
	$(BIN) conformance --effort quick --crash-points 5 --seed 1 -- $(VENV)/python examples/python-sink/sink.py
	@scripts/step.sh "conformance of the TypeScript sink"
	$(BIN) conformance --effort quick --crash-points 5 --seed 1 -- node examples/typescript-sink/dist/sink.js

.PHONY: test-rust
test-rust: build ## the Rust sink: fmt, clippy, tests, the suite; needs cargo, so `make test` leaves it out
	@scripts/step.sh "cargo fmt, clippy, test"
	cd examples/rust-sink && cargo fmt --check
	cd examples/rust-sink && cargo clippy --locked --release --all-targets -- -D warnings
	cd examples/rust-sink && cargo test --locked --release --quiet
	cd examples/rust-sink && cargo build --locked --release
	@scripts/step.sh "conformance of the Rust sink"
	cd examples/rust-sink && ../../$(BIN) conformance --crash-points all --seed 1 -- target/release/rust-sink

.PHONY: fuzz-smoke
fuzz-smoke: ## every fuzz target for FUZZTIME each
	@scripts/step.sh "fuzz targets, $(FUZZTIME) each"
	@scripts/fuzz-smoke.sh

.PHONY: lint
lint: python ## gofmt, go vet, staticcheck, ruff
	@scripts/step.sh "lint"
	@scripts/gofmt-check.sh
	go vet ./...
	$(STATICCHECK) ./...
	$(VENV)/ruff check --no-cache .
	$(VENV)/ruff format --no-cache --check .

.PHONY: proto
proto: tools ## the contract: buf lint, buf breaking, and both the oldest and the newest protoc
	@scripts/step.sh "contract"
	tools/node_modules/.bin/buf lint
	tools/breaking.sh
	tools/compile-protos.sh

.PHONY: verify
verify: tools ## generated code is what its sources give, and every mutant's patch applies
	@scripts/step.sh "generated files"
	tools/verify-generated.sh
	@scripts/step.sh "mutants apply"
	go run ./internal/mutants -check

.PHONY: readme
readme: build python ## the README's commands run as written
	@scripts/step.sh "README commands"
	@$(VENV)/python scripts/check_readme.py README.md

##@ Prepare

.PHONY: setup
setup: tools postgres python typescript ## fetch the pinned tools, Postgres 14 to 18, the Python and the TypeScript sink

.PHONY: tools
tools: # buf, from tools/package-lock.json
	@tools/install.sh

.PHONY: postgres
postgres: # Postgres 14 to 18 for tests, from test/pg/package-lock.json
	@scripts/npm-tree.sh test/pg

.PHONY: python
python: # the Python sink's environment, with what the Python checks need
	@scripts/python-env.sh

.PHONY: typescript
typescript: # the TypeScript sink, compiled
	@scripts/typescript-env.sh

.PHONY: generate
generate: tools ## regenerate what is generated
	tools/generate.sh

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin dist examples/python-sink/.venv examples/python-sink/gen tools/.venv
	rm -rf tools/node_modules test/pg/node_modules
	rm -rf examples/typescript-sink/node_modules examples/typescript-sink/gen examples/typescript-sink/dist
	rm -rf examples/rust-sink/target
	go clean -testcache

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
