# Everything that is checked, measured or soaked. CONTRIBUTING.md says when to run what.
#
#   make test          every test, with the race detector, against real servers
#   make lint          vet, golangci-lint, go fix
#   make fuzz          every fuzz target with FUZZTIME inputs each, or as long
#   make mutants       every planted fault must make its named test fail
#   make soak          the reliability runs at full size (CI runs a tenth), a package at a time, since they share one disk; the log is
#                      kept in testdata/soak.log
#   make bench-store   make bench-nats   make bench-kafka

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
GO         ?= go
TESTFLAGS  ?=
FUZZTIME   ?= 100000x
KAFKA_PORT ?= 0
TOOLS      := $(GO) tool -modfile=internal/tools/go.mod

.PHONY: test lint fuzz mutants soak bench-store bench-nats bench-kafka

test:
	@.ci/with-kafka $(KAFKA_PORT) $(GO) test -race -tags servers -timeout 20m $(TESTFLAGS) ./...

lint:
	$(GO) vet ./...
	$(GO) vet -tags servers ./...
	GOOS=windows $(GO) vet ./...
	$(GO) -C testdata/bench vet ./...
	$(GO) fix -diff ./...
	$(TOOLS) golangci-lint run --allow-parallel-runners

fuzz:
	@.ci/fuzz $(FUZZTIME)

mutants:
	@$(GO) run ./internal/mutants

soak:
	@ONCEWARD_SOAK=1 .ci/with-kafka $(KAFKA_PORT) $(GO) test -race -tags servers -count 1 -p 1 -timeout 6h -v -run Soak $(TESTFLAGS) ./... \
		| grep -v '^?' | tee testdata/soak.log

bench-store:
	@$(GO) -C testdata/bench run . store

bench-nats:
	@$(GO) -C testdata/bench run . nats

bench-kafka:
	@$(GO) -C testdata/bench run . kafka
