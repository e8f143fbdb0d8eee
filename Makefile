# Every target runs on a machine with Go alone; what needs more says so.

GO        ?= go
RACE_PKGS ?= ./...
LINT_VERSION ?= v2.15.0
FIGURES   ?= $(CURDIR)/bin/figures
REPORT    ?= $(CURDIR)/bench
# REVISION is what a report says that it is of; a report that was written a moment ago is no change of it.
REVISION  ?= $(shell git describe --always --abbrev=12 2>/dev/null)$(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && { git diff --quiet HEAD -- . ':!bench/RESULTS.*' || echo -dirty; })

.DEFAULT_GOAL := help
.PHONY: help demo drill test race e2e verify-eos lint tidy-check cross build negative bench bench-go bench-compare bench-baseline bench-latency
.PHONY: bench-processors bench-restore bench-peers bench-sweep bench-state figures soak soak-state verify-copy verify-smoke verify-differential clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## payment events on the embedded broker, with kills; ends with a table
	$(GO) run ./cmd/onceward demo

drill: ## 100,000 captures through a fake gateway that loses replies, with kills and a replay; also on real Kafka where there are Java 17 and Maven
	ONCEWARD_DRILL=1 $(GO) test -count=1 -v -timeout 30m -run '^TestDrill$$' ./e2e/drill

test: ## every test; those on real Kafka need a JDK 17 and Maven (or ONCEWARD_KAFKA_BROKERS)
	$(GO) vet ./...
	$(GO) test -timeout 20m ./...
	$(GO) test -short -tags onceward_failpoints ./txn/internal/failpoint ./e2e/failpoints # whose release test has run without the tag
	CGO_ENABLED=0 $(GO) test -timeout 20m -run 'Memory|GCPercent' ./state/pebblestore # whose allocator is another one then
	@$(GO) test -v -run '^TestKafkaIsFound$$' ./e2e/cluster | { grep '^NOT RUN' || true; } # go test is silent about what passes

race: ## every test but the long scenarios, under the race detector, with invariants
	$(GO) test -race -tags invariants -short -timeout 30m $(RACE_PKGS)

e2e: ## the end-to-end scenarios on the embedded broker, and on real Kafka where there are Java 17 and Maven
	$(GO) test -count=1 -v -timeout 30m ./e2e/...

verify-eos: ## Kafka's own StreamsEosTest judges the runtime under many kills; needs Java 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 30m -run '^TestVerify$$' ./e2e/verifyeos -full

verify-smoke: ## Kafka's own StreamsSmokeTest judges windows, tables and joins while instances join, die and leave; needs a JDK 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 60m ./e2e/verifysmoke -full

verify-differential: ## every operator beside Kafka Streams on CASES (1000) random inputs each, and the named ones; needs a JDK 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 30m ./e2e/differential -cases $(or $(CASES),1000) $(if $(SEED),-seed $(SEED))

negative: ## with mechanisms broken on purpose, the demo and the soak have to find them; needs Java 17 and Maven
	./.ci/negative
	./.ci/negative-soak

soak: ## kills, freezes and bounces on real Kafka for MINUTES (60), judged at the end; SEED repeats the choice of faults; needs Java 17 and Maven
	$(GO) run ./e2e/soak/run -minutes $(or $(MINUTES),60) $(if $(SEED),-seed $(SEED))

soak-state: ## a database under a million writes with crashes, on a file system that loses what is not synced; SEED is where the seeds begin
	ONCEWARD_STATE_OPERATIONS=$(or $(OPERATIONS),1000000) ONCEWARD_STATE_SEED=$(or $(SEED),$(shell date +%s)) \
		$(GO) test -count=1 -v -timeout 60m -run '^TestCrashLeavesAPrefixOfWholeRounds$$' ./state/pebblestore

verify-copy: ## Kafka's own TransactionsTest on real Kafka: 100,000 records, 750 a transaction, client and broker bounced; needs Java 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_VERIFY_COPY=1 $(GO) test -count=1 -v -timeout 30m -run '^TestCopy$$' ./e2e/copytest

lint: ## static analysis with the import rules
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run

tidy-check: ## go.mod and formatting are clean
	$(GO) mod tidy -diff
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

cross: ## compile the command for Linux, macOS and Windows
	@for target in linux/amd64 darwin/arm64 windows/amd64; do \
		echo "  $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -trimpath -o /dev/null ./cmd/onceward || exit 1; \
	done

build: ## the command, in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/onceward ./cmd/onceward

bench: ## every workload on real Kafka, 8 million records each, outputs and state checked; results in FIGURES; needs Java 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestWorkloads$$' ./e2e/figures

bench-processors: ## a ledger with and without inbox and evidence, and keys beside one that is parked, in turns on real Kafka; results in FIGURES
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestEvidence$$' ./e2e/figures
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestG6FullSpeed$$' ./e2e/deadletters

bench-go: ## the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-compare: ## the Go benchmarks of the hot parts against bench/baseline.txt; fails if one is over 10 % slower or misses its target by far. BASELINE=file is another one
	mkdir -p bin
	./bench/hot > bin/bench.txt
	./bench/compare "$(or $(BASELINE),bench/baseline.txt)" bin/bench.txt

bench-baseline: ## make bench/baseline.txt anew, on a machine that does nothing else
	mkdir -p bin
	./bench/hot > bin/bench.txt
	mv bin/bench.txt bench/baseline.txt
	./bench/targets bench/baseline.txt

bench-latency: ## latency of dedupe and ledger at 10,000 events/s on the cluster BROKERS=host:port
	$(GO) run ./cmd/onceward bench latency --brokers "$(BROKERS)" --application "latency-$(shell date +%s)"

bench-restore: ## restore of 4 million records beside Kafka Streams, on a broker of its own or BROKERS; needs a JDK 17 and Maven; results in FIGURES
ifdef BROKERS
	$(GO) run ./bench/restore/run -brokers "$(BROKERS)" -out "$(FIGURES)"
else
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestRestore$$' ./e2e/figures
endif

bench-peers: ## Onceward beside Kafka Streams and a plain loop, on a broker of its own or BROKERS, about two hours; PARTS=ledger,latency measures these anew; needs a JDK 17 and Maven; results in REPORT (bench)
ifdef BROKERS
	$(GO) run ./bench/peers/run -brokers "$(BROKERS)" -flights e2e/flights/testdata/flights.csv.gz -parts "$(PARTS)" -revision "$(REVISION)" -out "$(REPORT)"
else
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(REPORT)) ONCEWARD_REVISION="$(REVISION)" $(GO) test -count=1 -v -timeout 8h -run '^TestPeers$$' ./e2e/figures -parts "$(PARTS)"
endif

bench-sweep: ## the fastest settings of Kafka Streams for bench-peers, about an hour; PARTS=pass,ledger finds those of these workloads anew; needs a JDK 17 and Maven; results in bench/peers/sweep.json
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(CURDIR)/bench/peers $(GO) test -count=1 -v -timeout 8h -run '^TestSweep$$' ./e2e/figures -parts "$(PARTS)"

bench-state: ## cost of state at 1, 10 and 50 million keys, and a reopen after kill -9; needs 15 GB of disk; results in FIGURES
	$(GO) run ./bench/state/run -out "$(FIGURES)"

figures: ## latency, restart, takeover and rolling restart on real Kafka, at length; results in FIGURES; needs Java 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestFigures$$' ./e2e/figures

clean: ## remove what make made
	rm -rf bin
