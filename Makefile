# Targets for people and for CI. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# Time for each fuzz target.
FUZZTIME ?= 10m
# Packages to test.
PKG ?= ./...
# A seed to tell the story of, e.g. make simulate SEED=7; without one, all of them.
SEED ?=
# Arguments for run and demo, e.g. make demo ARGS="--until sold-out".
ARGS ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Serve on http://127.0.0.1:8080 with nothing configured
	$(GO) run ./cmd/seatflow serve $(ARGS)

.PHONY: demo
demo: ## Serve a house that is alive: three shows and a crowd of simulated buyers
	$(GO) run ./cmd/seatflow demo $(ARGS)

.PHONY: build
build: ## Build bin/seatflow, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/seatflow ./cmd/seatflow

.PHONY: setup
setup: ## Install what the tests need besides Go (Debian packages, npm modules)
	@scripts/setup.sh

.PHONY: test
test: setup ## Run every test under the race detector; nothing is skipped
	SEATFLOW_REQUIRE_BACKENDS=1 $(GO) test -race -timeout 30m $(PKG)
ifeq ($(PKG),./...)
	$(GO) test ./internal/simulate # more worlds than the race detector has time for
endif

.PHONY: test-page
test-page: setup ## Run the tests of the page only: its modules in Node, the page in a browser
	SEATFLOW_REQUIRE_BACKENDS=1 $(GO) test -count 1 ./internal/web/... ./test/...

.PHONY: race
race: ## Run the Go tests under the race detector, skipping what is not installed
	$(GO) test -race -timeout 30m $(PKG)

.PHONY: quick
quick: ## Run the Go tests without the race detector, for the time between two edits
	$(GO) test $(PKG)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10m)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: explore
explore: setup ## Run the random tests for long: 100,000 operations against two stores, 500 corrupted houses, 10 histories of 20,000 calls on each store, every sabotage from seed 1
	SEATFLOW_REQUIRE_BACKENDS=1 $(GO) test -count 1 -timeout 60m ./internal/redisseats -run Differential -differential 100000 -v
	SEATFLOW_REQUIRE_BACKENDS=1 $(GO) test -count 1 -timeout 60m ./internal/reconcile -run TestAnyCorruptionIsRepaired -corruptions 500 -v
	$(GO) test -count 1 -timeout 60m ./internal/memseats -run TestLinearizable -histories 10 -v
	SEATFLOW_REQUIRE_BACKENDS=1 $(GO) test -count 1 -timeout 60m ./internal/redisseats -run TestLinearizable -histories 10 -calls 20000 -v
	$(GO) test -count 1 -timeout 60m ./internal/simulate -run TestSabotage -v -args -full

.PHONY: simulate
simulate: ## Run simulated worlds until Ctrl-C, from seed FROM (1) for FOR (no end); with SEED=7 tell of one
	@GO="$(GO)" scripts/simulate.sh $(SEED)

.PHONY: bench
bench: setup ## Measure everything and rewrite docs/benchmarks.md
	@scripts/bench.sh full

.PHONY: bench-smoke
bench-smoke: setup ## Run the benchmarks for a moment, to see that they still work
	@scripts/bench.sh smoke

.PHONY: strategies
strategies: setup ## Measure the ways to guard a seat and rewrite docs/strategies.md
	$(GO) run ./bench/strategies --report docs/strategies.md

.PHONY: strategies-smoke
strategies-smoke: setup ## Run every way to guard a seat for a moment, to see that they still work
	$(GO) run ./bench/strategies --smoke >/dev/null

.PHONY: lint
lint: ## Check formatting, vet and staticcheck
	@bad="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$bad" ]; then echo "not gofmted:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: generate
generate: ## Rewrite what is derived from code: the table in docs/configuration.md
	$(GO) test ./internal/config -run TestReferenceIsCurrent -count 1 -update

.PHONY: verify-generated
verify-generated: generate ## Fail when a derived file is out of date
	@git diff --exit-code -- docs/configuration.md

.PHONY: clean
clean: ## Remove what was built; data folders stay
	rm -rf bin test/browser/failures
