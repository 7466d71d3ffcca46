# "make up" runs all of Weirkeeper on this machine, "make test" runs all tests.
# Both download modules through the Go module proxy on first use.

GO     ?= go
PKG    ?= ./...
BIN    := bin
comma  := ,
# grpc's trace package uses html/template, for which the linker keeps all methods.
# The race detector makes the largest tests and the properties ten times as slow, so they
# try fewer cases with it. "go test" without it tries all cases, and so does FULL=1.
# With -trimpath the build cache does not depend on the folder of the checkout, and what tests
# build shares it. The client of EC2 is the largest package: compiling it takes 3.4 GB of memory,
# and 1.3 GB without inlining and with this limit of the compiler.
export GOFLAGS += -trimpath -tags=grpcnotrace$(if $(FULL),$(comma)full) -gcflags=github.com/aws/aws-sdk-go-v2/service/ec2=-l
COMPILE = GOMEMLIMIT=1300MiB $(GO) build
# Static programs start faster and run without a C library. The race detector needs cgo.
export CGO_ENABLED = 0
TOOL    = $(GO) tool -modfile=go.tools.mod
BUF     = $(TOOL) buf generate --template proto/buf.gen.yaml
PROTOS  = proto pools/grpc
TEMPL   = $(TOOL) templ generate -include-version=false -path

.PHONY: up build weir-kubernetes test test-kubernetes proof test-root soak check lint generate packages release-check bench record clean help
.DEFAULT_GOAL := help

up: build ## run everything on this machine; Ctrl-C ends it
	@$(BIN)/weir up

PROGRAMS = ./cmd/weir ./cmd/weir-local
SIGNALS  = ./examples/signals/...

build: ## build weir, weir-local, and the signals that weir up publishes
	@test -x $(BIN)/weir || echo "first build: on two processors it takes 3 minutes, 2 GB of memory and 3 GB of disk"
	@test -x $(BIN)/weir || ! test -t 1 || { \
	  echo "total $$($(GO) list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' $(PROGRAMS) | wc -l)"; \
	  $(COMPILE) -v -o $(BIN)/ $(PROGRAMS); echo "exit $$?"; } 2>&1 | ./first-build.sh
	@$(COMPILE) -o $(BIN)/ $(PROGRAMS)
	@$(COMPILE) -o $(BIN)/signals/ $(SIGNALS)

weir-kubernetes: ## build weir-kubernetes, the scheduler for pools under Kubernetes
	@mkdir -p $(BIN) && cd kubernetes && $(COMPILE) -ldflags='-s -w' -o $(CURDIR)/$(BIN)/ ./cmd/weir-kubernetes

# Without GORACE each process of a test would sleep for 1 s at its end. RAPID_CHECKS is the
# number of random cases of each property. The race detector skips compress/flate: it starts
# no goroutine, and compressing releases took half of the time of "weir up".
RACE    = CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(if $(FULL),,RAPID_CHECKS=$(CHECKS)) \
          $(GO) test -race -gcflags=compress/flate=-race=false -shuffle=on
CHECKS ?= 20

# testrun first builds all that the tests need, then runs them, and prints the ten slowest. The
# shell becomes testrun, which ends with make.
test: ## run every test (or a part, PKG=./autoscaler/... RUN=REGEXP) in random order, with the race detector except in pure packages and in large installations
	@$(COMPILE) -o $(BIN)/testrun ./internal/platform/testrun
	@$(if $(FULL),,RAPID_CHECKS=$(CHECKS)) exec $(BIN)/testrun $(if $(FULL),-full) $(if $(RUN),-run '$(RUN)') $(if $(filter ./...,$(PKG)),-also deploy/check$(comma)kubernetes) $(PKG)

# Scenarios mostly wait. PARALLEL is how many run at the same time, each with 1 GB of memory.
PARALLEL ?= 2

test-kubernetes: build weir-kubernetes ## run the scenarios of kubernetes/ on a real control plane (or a part, RUN=REGEXP), and record that all passed in kubernetes/proved.json
	@kubernetes/plane/build.sh $(CURDIR)/$(BIN)/plane
	@cd deploy/check && $(COMPILE) -o $(CURDIR)/$(BIN)/ ./render
	@cd kubernetes && $(COMPILE) -o $(CURDIR)/$(BIN)/prove ./prove
	@cd kubernetes && $(GO) vet -tags=grpcnotrace,plane ./e2e && $(GO) test -c -tags=grpcnotrace,plane -o $(CURDIR)/$(BIN)/e2e.test ./e2e
	@cd kubernetes $(if $(RUN),/e2e && exec $(CURDIR)/$(BIN)/e2e.test -test.run '$(RUN)',&& exec $(CURDIR)/$(BIN)/prove run $(CURDIR)/$(BIN)/e2e.test) -test.v -test.parallel $(PARALLEL) -test.timeout 1h

proof: ## check that the last run of make test-kubernetes had these sources
	@cd kubernetes && $(GO) run ./prove check

test-root: ## run the tests that need root: cgroups, limits, users of signals, and the units under systemd
	$(RACE) -run 'Cgroup|Limit|Controller|Launcher|Leaves|Survives|KillsItsGroup|User' ./bootstrap/supervise
	$(RACE) -run 'User' ./bootstrap ./sigproto ./internal/daemon/bootstrapd
	$(RACE) -run 'UpIsolates|UpAdmits' ./cmd/weir
	$(RACE) -tags=grpcnotrace,root -run 'UnitsRun' ./deploy/packages

ARCHES  ?= amd64 arm64
VERSION ?= 0.0.0-dev

SOAK   ?= 100000
FAULTS ?= 1h
HOSTS  ?= 20m
RELEASES ?= 20m
RECORD ?= 1h

soak: ## run 100,000 random worlds of the harmonizer, of node health, of a pool, of two autoscalers, of places and of simulations; then the numbers of a guide, an hour that is replayed, bad releases, and faults of one and of three hosts
	$(GO) test -run '^$$' -fuzz '^FuzzWorlds$$' -fuzztime $(SOAK)x ./harmonizer/apps
	SOAK=$(SOAK) $(GO) test -run 'TestSoak$$' -v -timeout 0 ./nodehealth/judge
	$(GO) test -run '^(TestDay|TestLongDay)$$' -v -timeout 0 ./autoscaler -rapid.checks=$(SOAK)
	SOAK=$(SOAK) $(GO) test -run '^TestParseTimeFindsTheLastMoment$$' -v -timeout 0 ./internal/cli/command
	SOAK=$(SOAK) $(GO) test -run '^TestLevelsFollowTheClock$$' -v -timeout 0 ./signals/calendar
	SOAK=$(SOAK) $(GO) test -run '^TestTwoAutoscalers$$' -v -timeout 0 ./internal/state
	CALLS=all $(GO) test -run '^TestEachCallFails$$' -timeout 0 ./pools/aws
	SOAK=$(SOAK) $(GO) test -run '^TestAutoscaledWorlds$$' -v -timeout 0 ./placer
	SOAK=$(SOAK) $(GO) test -run '^(TestTable|TestNoiseHasNoSeason)$$' -v -timeout 0 ./signals/forecast
	RELEASES=$(RELEASES) $(GO) test -run '^(TestBadReleases|TestDamagedRows)$$' -v -timeout 0 ./cmd/weir
	SOAK=$(SOAK) $(GO) test -run '^(TestConservation|TestSameSeedSameBytes|TestForecastInClosedLoop)$$' -v -timeout 0 ./simulate
	SOAK=$(SOAK) $(GO) test -run '^TestNumbersOfTheGuide$$' -v -timeout 0 ./internal/cli/simulation
	RECORD=$(RECORD) $(GO) test -run '^TestRecordedHour$$' -v -timeout 0 ./cmd/weir
	RECORD=24h $(GO) test -run '^TestRecordedDayOnAWS$$' -v -timeout 0 ./simulate
	FAULTS=$(FAULTS) $(GO) test -run 'TestFaults$$' -v -timeout 0 ./cmd/weir
	HOSTS=$(HOSTS) $(GO) test -run 'TestThreeHosts$$' -v -timeout 0 ./cmd/weir

check: lint test proof ## run lint and test, and check that the last proof of kubernetes/ has these sources

lint: ## run gofmt, vet, go fix, staticcheck, buf; check subjects of commits, and that generated code is current
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags=grpcnotrace,root ./deploy/packages
	$(GO) vet -tags=grpcnotrace,man ./internal/cli/manpages
	cd deploy/check && $(GO) vet ./... && $(GO) vet -tags=grpcnotrace,release .
	cd kubernetes && $(GO) vet -tags=grpcnotrace,plane ./e2e && $(GO) vet ./... && $(GO) fix -diff ./... && $(GO) tool -modfile=$(CURDIR)/go.tools.mod staticcheck ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...
	$(GO) test -count=1 -run '^TestCommitSubjects$$' ./internal/arch
	$(TOOL) buf lint proto
	@new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; for tree in $(PROTOS); do $(BUF) $$tree -o "$$new/$$tree" && \
	  for f in $$(cd "$$new/$$tree" && find . -name '*.go'); do \
	    cmp "$$new/$$tree/$$f" "$$tree/$$f" || { echo 'generated code is outdated: run "make generate"'; exit 1; }; done || exit 1; done
	@new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; cp internal/ui/web/*.templ "$$new" && $(TEMPL) "$$new" >/dev/null 2>&1 && \
	  for f in internal/ui/web/*_templ.go; do \
	    cmp "$$new/$${f##*/}" "$$f" || { echo 'generated code is outdated: run "make generate"'; exit 1; }; done

packages: build ## build the deb and rpm packages into dist (VERSION=1.2.3 ARCHES="amd64 arm64")
	@for arch in $(ARCHES); do VERSION=$(VERSION) GO="$(GO)" deploy/packages/build.sh $$arch || exit; done

release-check: ## run goreleaser in snapshot mode, and check its archives and checksums; then build and start the images where a container runtime is
	@deploy/container/check.sh
	cd deploy/check && $(GO) test -tags=grpcnotrace,release -run '^TestSnapshot$$' -count=1 -timeout 1h -v .

generate: ## generate the Go code of proto/ and of the pages
	for tree in $(PROTOS); do $(BUF) $$tree -o $$tree || exit; done
	$(TEMPL) internal/ui/web

bench: build ## print the benchmarks (or a part, PKG=./sigproto), each beside a reference value or limit
	$(if $(filter ./kubernetes/%,$(PKG)),,$(GO) test -run '^$$' -bench . -benchtime 1s -timeout 30m $(PKG))
	$(if $(filter ./... ./kubernetes/%,$(PKG)),cd kubernetes && $(GO) test -run '^$$' -bench . -benchtime 1s -timeout 30m ./...)

record: build ## record a run of weir up as docs/terminal.svg
	$(GO) run ./docs/record

clean: ## remove build results
	rm -rf $(BIN) dist

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
