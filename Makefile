# "make up" runs all of Weirkeeper on this machine, "make test" runs all tests.
# Both fetch what they need through the Go module proxy on first use.

GO     ?= go
PKG    ?= ./...
BIN    := bin
comma  := ,
# grpc's trace package uses html/template, for which the linker keeps all methods.
# The race detector makes the largest tests and the properties ten times as expensive: with
# it they try fewer cases. "go test" without it tries all, and so does FULL=1 with it.
export GOFLAGS += -tags=grpcnotrace$(if $(FULL),$(comma)full)
# Programs are static: they start faster, and run where no C library is. The race detector
# needs cgo.
export CGO_ENABLED = 0
TOOL    = $(GO) tool -modfile=go.tools.mod
BUF     = $(TOOL) buf generate proto --template proto/buf.gen.yaml

.PHONY: up build test test-root soak check lint generate bench clean help
.DEFAULT_GOAL := help

up: build ## run everything on this machine; Ctrl-C ends it
	@$(BIN)/weir up

build: ## build weir and weir-local, and the signals that it publishes when it starts
	@test -x $(BIN)/weir || echo "building for the first time: this takes a few minutes"
	@$(GO) build -o $(BIN)/ ./cmd/weir ./cmd/weir-local
	@$(GO) build -o $(BIN)/signals/ ./examples/signals/...

# Without GORACE each process that a test starts would sleep for 1 s at its end. RAPID_CHECKS
# is how many random cases each property tries. The standard library's compress/flate is not
# watched: it starts no goroutine, and packing releases took half of what "weir up" takes.
RACE    = CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(if $(FULL),,RAPID_CHECKS=$(CHECKS)) \
          $(GO) test -race -gcflags=compress/flate=-race=false -shuffle=on
CHECKS ?= 20

test: ## run every test (or a part, PKG=./autoscaler/...) with the race detector, in random order
	$(RACE) -timeout 40m $(PKG)

test-root: ## run the tests that need root: those of cgroups and limits, and of signals with users of their own
	$(RACE) -run 'Cgroup|Limit|Controller|Launcher|Leaves|Survives|TakesTheRest|User' ./bootstrap/supervise
	$(RACE) -run 'User' ./bootstrap ./sigproto ./internal/daemon/bootstrapd
	$(RACE) -run 'UpIsolates' ./cmd/weir

SOAK   ?= 100000

soak: ## run 100,000 random worlds of the harmonizer, and as many of node health, against their models
	$(GO) test -run '^$$' -fuzz '^FuzzWorlds$$' -fuzztime $(SOAK)x ./harmonizer/apps
	SOAK=$(SOAK) $(GO) test -run 'TestSoak$$' -v -timeout 0 ./nodehealth/judge

check: lint test ## lint and test

lint: ## gofmt, vet, go fix, staticcheck, buf; generated code is current
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...
	$(TOOL) buf lint proto
	@new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; $(BUF) -o "$$new" && \
	  for f in $$(cd "$$new" && find . -name '*.go'); do \
	    cmp "$$new/$$f" "proto/$$f" || { echo 'generated code is old: run "make generate"'; exit 1; }; done

generate: ## make the Go code of proto/ anew
	$(BUF) -o proto

bench: build ## print the figures (or a part, PKG=./sigproto), each beside its peer or limit
	$(GO) test -run '^$$' -bench . -benchtime 1s -timeout 30m $(PKG)

clean: ## remove what was built
	rm -rf $(BIN)

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
