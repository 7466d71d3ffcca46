# "make up" runs all of Weirkeeper on this machine, "make test" runs all tests.
# Both fetch what they need through the Go module proxy on first use.

GO     ?= go
BIN    := bin
TOOL    = $(GO) tool -modfile=go.tools.mod

.PHONY: up build test check lint bench clean help
.DEFAULT_GOAL := help

up: build ## run everything on this machine; Ctrl-C ends it
	@$(BIN)/weir up

build: ## build weir, and the signals that it publishes when it starts
	@test -x $(BIN)/weir || echo "building for the first time: this takes a few minutes"
	@$(GO) build -o $(BIN)/weir ./cmd/weir
	@$(GO) build -o $(BIN)/signals/ ./examples/signals/...

test: ## run every test, with the race detector, in random order
	$(GO) test -race -shuffle=on -timeout 20m ./...

check: lint test ## lint and test

lint: ## gofmt, vet, go fix, staticcheck
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...

bench: build ## print the figures, each beside its peer or limit
	$(GO) test -run '^$$' -bench . -benchtime 1s -timeout 30m ./...

clean: ## remove what was built
	rm -rf $(BIN)

help: ## print this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
