# Every target runs on a machine with Go alone; what needs more says so.

GO        ?= go
LINT_VERSION ?= v2.15.0
VULNCHECK_VERSION ?= v1.9.0
FIGURES   ?= $(CURDIR)/bin/figures
REPORT    ?= $(CURDIR)/bench
# REVISION is the revision that a report names. A report that was just written does not make it dirty.
REVISION  ?= $(shell git describe --always --abbrev=12 2>/dev/null)$(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && { git diff --quiet HEAD -- . ':!bench/RESULTS.*' || echo -dirty; })

# Builds do not hold the path of the checkout: checkouts at different paths share the build cache.
# The output of cgo is shared too, with the paths of the checkout that ran cgo. The pass cgocall opens these paths, and fails when that checkout
# is gone. So vet leaves cgocall to lint, and lint builds without -trimpath.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)

# TEST_TAGS are the build tags of every test, separated by commas. With synctests the Kafka client works inside testing/synctest.
# With onceward_failpoints a test can fail one application at a point, or break one of its mechanisms.
TEST_TAGS  ?= synctests,onceward_failpoints
# VET are the flags of go vet.
VET        = -tags $(TEST_TAGS) -cgocall=false
# TEST_FLAGS are further flags of go test, such as -count=1.
TEST_FLAGS ?=
# The gate leaves the long scenarios to nightly, and tries the same cases each time: rapid takes its seed from the environment. In short runs it
# makes a fifth of RAPID_CHECKS.
CHECKS       = 500
GATE         = RAPID_SEED=1 RAPID_CHECKS=$(CHECKS)
GATE_FLAGS   = -short -tags $(TEST_TAGS) $(TEST_FLAGS)
# Packages wait for timeouts and processes more than they compute, so more run at a time than a small machine has processors.
WAITING      = -p 3
GO_ALONE     = env -u ONCEWARD_KAFKA_BROKERS -u ONCEWARD_REQUIRE_KAFKA
# IN_MEMORY runs a command with its temporary files in memory, if there is enough.
IN_MEMORY    = $(CURDIR)/.ci/in-memory
# PACKAGES are those that test and race take, the slowest first: go test starts them in this order.
PACKAGES   ?= ./e2e/faults ./e2e/simulation ./txn ./state/pebblestore ./cmd/cli ./...
# POSTGRES is a module of its own, which ./... does not reach.
POSTGRES     = processors/postgres
# KAFKA_PACKAGES are those with tests on real Kafka, found by what these call. The slowest come first.
KAFKA_FIRST     = ./e2e/conformance ./e2e/faults ./e2e/processing ./e2e/operations ./e2e/flights ./e2e/cluster ./e2e/runtime
KAFKA_PACKAGES ?= $(KAFKA_FIRST) $(filter-out $(KAFKA_FIRST),$(sort $(patsubst %/,./%,$(dir $(shell \
	grep -rlE 'cluster\.(Kafka|Each|EachKind|Own|OwnWith|Java)\>' --include='*_test.go' e2e examples)))))

.DEFAULT_GOAL := help
.PHONY: help demo drill test test-kafka test-postgres test-console race nightly long long-kafka simulate verify-eos lint prose prose-lower docs vulnerabilities tidy-check cross build negative negative-soak bench bench-go bench-compare bench-baseline bench-latency
.PHONY: bench-processors bench-restore bench-comparison bench-sweep bench-state figures failover standbys copy soak soak-state verify-copy verify-smoke verify-differential clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## payment events on the embedded broker, with kills; ends with a table
	$(GO) run ./cmd/onceward demo

drill: ## 100,000 captures through a fake gateway that loses replies, with kills and a replay; KAFKA=1 does so on real Kafka
	ONCEWARD_REQUIRE_KAFKA=$(KAFKA) $(GO) test -count=1 -v -timeout 30m -run '^TestDrill$$' ./examples/capture -full

test: ## vet and every test but the long ones and those on real Kafka; Go alone
	$(GO) vet $(VET) ./...
	$(GATE) $(GO_ALONE) $(IN_MEMORY) $(GO) test $(WAITING) $(GATE_FLAGS) -vet off -timeout 20m $(PACKAGES)
	CGO_ENABLED=0 $(GATE) $(GO_ALONE) $(GO) test $(GATE_FLAGS) -vet off -run 'Memory|GCPercent' ./state/pebblestore # whose allocator is another one then
	$(GO) -C $(POSTGRES) vet $(VET) ./...
	ONCEWARD_POSTGRES_URL=none $(GATE) $(GO_ALONE) $(GO) -C $(POSTGRES) test $(GATE_FLAGS) -vet off -timeout 20m ./...
	@echo "not in make test: real Kafka (make test-kafka), PostgreSQL (make test-postgres), the console in a browser (make test-console), the race detector (make race), the long tests (make nightly)"

test-kafka: ## the tests that only real Kafka can pass or fail; needs a JDK 17 and Maven (or ONCEWARD_KAFKA_BROKERS)
	ONCEWARD_REQUIRE_KAFKA=1 $(GATE) $(GO) test $(WAITING) $(GATE_FLAGS) -count=1 -vet off -timeout 20m $(KAFKA_PACKAGES)
	ONCEWARD_REQUIRE_KAFKA=1 $(GATE) $(GO) -C $(POSTGRES) test $(GATE_FLAGS) -count=1 -vet off -timeout 20m ./pgsink ./pgoutbox ./examples/payments # if there is PostgreSQL

test-postgres: ## the tests on PostgreSQL; needs an installed server (Debian package postgresql) or ONCEWARD_POSTGRES_URL
	ONCEWARD_REQUIRE_POSTGRES=1 $(GATE) $(GO_ALONE) $(GO) -C $(POSTGRES) test $(GATE_FLAGS) -count=1 -vet off -timeout 20m ./...

test-console: PICTURES ?= bin/pictures
test-console: ## the console in Chromium without a screen; needs the Debian package chromium; pictures of each view in PICTURES (bin/pictures)
	mkdir -p $(PICTURES)
	ONCEWARD_REQUIRE_BROWSER=1 ONCEWARD_PICTURES=$(abspath $(PICTURES)) $(GO) test $(GATE_FLAGS) -count=1 -vet off -timeout 20m ./txn/internal/console

race: TEST_TAGS := $(TEST_TAGS),invariants
race: CHECKS = 100
# A program under the race detector waits a second when it exits, so that reports of other goroutines are written. The tests start hundreds of programs.
race: export GORACE = atexit_sleep_ms=20
# One processor for each test program: three run at a time, and the detector costs less where threads do not contend. It finds what
# happens-before does not order, whether or not it ran at the same time.
race: export GOMAXPROCS = 1
race: ## make test under the race detector, with invariants asserted
	$(GATE) $(GO_ALONE) $(IN_MEMORY) $(GO) test -race $(WAITING) $(GATE_FLAGS) -vet off -timeout 30m $(PACKAGES)
	$(GATE) $(GO_ALONE) $(GO) -C $(POSTGRES) test -race $(GATE_FLAGS) -vet off -timeout 20m ./...

nightly: ## everything that the gate leaves out, for hours; a step that has passed for this revision is not run again; needs a JDK 17 and Maven
	./.ci/nightly

long: ## every test that needs Go alone, the long ones too
	$(GO_ALONE) $(IN_MEMORY) $(GO) test -tags $(TEST_TAGS) $(TEST_FLAGS) -timeout 60m $(PACKAGES)

long-kafka: ## every test on real Kafka, the long ones too; needs a JDK 17 and Maven (or ONCEWARD_KAFKA_BROKERS)
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -tags $(TEST_TAGS) $(TEST_FLAGS) -count=1 -timeout 90m $(KAFKA_PACKAGES)

simulate: ## SEEDS (1000) simulations of each application on virtual time from SEED (1) on; SUBJECT and FAULTS choose some
	$(GO_ALONE) $(IN_MEMORY) $(GO) test -count=1 -tags $(TEST_TAGS) -timeout 10h -run '^TestSeeds$$' ./e2e/simulation -seed $(or $(SEED),1) -seeds $(or $(SEEDS),1000) \
		-subject "$(SUBJECT)" -faults "$(FAULTS)"

verify-eos: ## Kafka's own StreamsEosTest judges the runtime under many kills; needs Java 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 30m -run '^TestEos' ./e2e/conformance -full

verify-smoke: ## Kafka's own StreamsSmokeTest judges windows, tables and joins while instances join, die and leave; needs a JDK 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 60m -run '^TestSmoke' ./e2e/conformance -full

verify-differential: ## every operator (or OPERATORS, a pattern) beside Kafka Streams on CASES (1000) random inputs each, and the named ones; needs a JDK 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 30m -run '^TestOperator' ./e2e/conformance -cases $(or $(CASES),1000) $(if $(SEED),-seed $(SEED)) $(if $(OPERATORS),-operators '$(OPERATORS)')

negative: ## with dedupe broken on purpose, the demo has to find it; make test has the other negative controls
	./.ci/negative

negative-soak: ## with mechanisms broken on purpose, the soak on real Kafka has to find them; needs a JDK 17 and Maven
	./.ci/negative-soak

soak: ## kills, freezes and bounces on real Kafka for MINUTES (60), judged at the end; SEED repeats the choice of faults; needs Java 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 0 -run '^TestSoak$$' ./e2e/soak -minutes $(or $(MINUTES),60) $(if $(SEED),-seed $(SEED))

soak-state: ## a database under a million writes with crashes, on a file system that loses what is not synced; SEED is where the seeds begin
	ONCEWARD_STATE_OPERATIONS=$(or $(OPERATIONS),1000000) ONCEWARD_STATE_SEED=$(or $(SEED),$(shell date +%s)) \
		$(GO) test -count=1 -v -timeout 60m -run '^TestCrashLeavesAPrefixOfWholeRounds$$' ./state/pebblestore

verify-copy: ## Kafka's own TransactionsTest on real Kafka: 100,000 records, 750 a transaction, client and broker bounced; needs Java 17 and Maven
	ONCEWARD_REQUIRE_KAFKA=1 $(GO) test -count=1 -v -timeout 30m -run '^TestCopy' ./e2e/conformance -full

lint: export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS))
lint: prose ## static analysis with the import rules, and make prose
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run
	cd $(POSTGRES) && $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run

prose: ## the language of documents, comments and messages; FILES="a.md b.go" lists every finding of these; needs a C compiler
	ONCEWARD_REQUIRE_VALE=1 $(GO) test -count=1 -vet off -run '^TestPlantedSentencesAreFound$$' ./docs/prose
	$(GO) run ./docs/prose $(FILES)

prose-lower: ## lower the numbers of docs/prose/baseline.txt to the findings that are left
	$(GO) run ./docs/prose -lower

docs: ## the documents as a site with search, in bin/site; a broken link is an error; needs Python 3.9 and npm
	./.ci/docs

vulnerabilities: ## known vulnerabilities of dependencies that the code calls; needs the internet (vuln.go.dev)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) ./...
	$(GO) -C $(POSTGRES) run golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) ./...

tidy-check: ## go.mod and formatting are clean
	$(GO) mod tidy -diff
	$(GO) -C $(POSTGRES) mod tidy -diff
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

cross: ## compile the commands for Linux, macOS and Windows; no mechanism of the tests is in it
	@for target in linux/amd64 darwin/arm64 windows/amd64; do \
		echo "  $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/onceward || exit 1; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/onceward-bench || exit 1; \
	done
	$(GO) test -count=1 -run '^TestReleaseHasNone$$' ./txn/internal/failpoint

build: ## the commands onceward and onceward-bench, in bin/
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/onceward ./cmd/onceward-bench

bench: ## every workload on real Kafka, 8 million records each, outputs and state checked; results in FIGURES; needs Java 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestWorkloads$$' ./e2e/figures

bench-processors: ## a ledger with and without inbox and evidence, and keys beside one that is parked, in turns on real Kafka; results in FIGURES
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestEvidence$$' ./e2e/figures
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestParkedKeyDoesNotSlowOthers$$' ./e2e/processing

bench-go: ## the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH_FLAGS) ./...

bench-compare: ## the Go benchmarks of the hot parts against bench/baseline.txt; fails if one is over 10 % slower or misses its target by far. BASELINE=file is another one
	mkdir -p bin
	./bench/hot > bin/bench.txt
	./bench/compare "$(or $(BASELINE),bench/baseline.txt)" bin/bench.txt

bench-baseline: ## replace bench/baseline.txt, on a machine that does nothing else
	mkdir -p bin
	./bench/hot > bin/bench.txt
	mv bin/bench.txt bench/baseline.txt
	./bench/targets bench/baseline.txt

bench-latency: ## latency of dedupe and ledger at 10,000 events/s on the cluster BROKERS=host:port
	$(GO) run ./cmd/onceward-bench latency --brokers "$(BROKERS)" --application "latency-$(shell date +%s)"

bench-restore: ## restore of 4 million records beside Kafka Streams, on a broker of its own or BROKERS; needs a JDK 17 and Maven; results in FIGURES
ifdef BROKERS
	$(GO) run ./bench/restoretime/run -brokers "$(BROKERS)" -out "$(FIGURES)"
else
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestRestore$$' ./e2e/figures
endif

bench-comparison: ## Onceward beside Kafka Streams and a plain loop, on a broker of its own or BROKERS, about four hours; PARTS=ledger,sessions measures these again, with RECORDS and ROUNDS instead of 8 million and 5; needs a JDK 17 and Maven; results in REPORT (bench)
ifdef BROKERS
	$(GO) run ./bench/comparison/run -brokers "$(BROKERS)" -flights e2e/flights/testdata/flights.csv.gz -parts "$(PARTS)" $(if $(RECORDS),-records $(RECORDS)) $(if $(ROUNDS),-rounds $(ROUNDS)) -revision "$(REVISION)" -out "$(REPORT)"
else
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(REPORT)) ONCEWARD_REVISION="$(REVISION)" $(GO) test -count=1 -v -timeout 8h -run '^TestPeers$$' ./e2e/figures -parts "$(PARTS)" \
		$(if $(RECORDS),-peer-records $(RECORDS)) $(if $(ROUNDS),-peer-rounds $(ROUNDS))
endif

bench-sweep: ## the fastest settings of Kafka Streams for bench-comparison, about two hours; PARTS=pass,ledger finds those of these workloads again, with a quarter of RECORDS; needs a JDK 17 and Maven; results in bench/comparison/sweep.json
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(CURDIR)/bench/comparison $(GO) test -count=1 -v -timeout 8h -run '^TestSweep$$' ./e2e/figures -parts "$(PARTS)" $(if $(RECORDS),-peer-records $(RECORDS))

bench-state: ## cost of state at 1, 10 and 50 million keys, and a reopen after kill -9; needs 15 GB of disk; results in FIGURES
	$(GO) run ./bench/statecost/run -out "$(FIGURES)"

figures: ## latency, restart, takeover and rolling restart on real Kafka, at length; results in FIGURES; needs Java 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 60m -run '^TestFigures$$' ./e2e/figures

failover: ## KILLS (30) failures of an instance of each kind at RATE (10000) events/s, after STATE (500000) events, or ten times as many in scenarios with much state; SCENARIO=two measures that one again; results in FIGURES; needs a JDK 17 and Maven, and root for hosts that vanish
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 12h -run '^TestFailover$$/$(if $(SCENARIO),^$(SCENARIO)$$)' ./e2e/figures \
		-kills $(or $(KILLS),30) -rate $(or $(RATE),10000) -state $(or $(STATE),500000)

standbys: ## ROLLS (10) rolling restarts with a standby, ROUNDS (5) of throughput with a standby against without one over BACKLOG (8000000) records, QUERIES (20000) at another instance, at RATE (10000) events/s after STATE (500000) events; SCENARIO=rolling measures that one again; results in FIGURES; needs a JDK 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 12h -run '^TestStandbys$$/$(if $(SCENARIO),^$(SCENARIO)$$)' ./e2e/figures \
		-rolls $(or $(ROLLS),10) -rounds $(or $(ROUNDS),5) -backlog $(or $(BACKLOG),8000000) -queries $(or $(QUERIES),20000) \
		-rate $(or $(RATE),10000) -state $(or $(STATE),500000)

copy: ## RUNS (30) copies of RECORDS (3000000) while a broker with one replica and the instance are killed in turn; results in FIGURES; needs a JDK 17 and Maven
	mkdir -p $(FIGURES)
	ONCEWARD_REQUIRE_KAFKA=1 ONCEWARD_FIGURES=$(abspath $(FIGURES)) $(GO) test -count=1 -v -timeout 12h -run '^TestCopyWithKills$$' ./e2e/figures \
		-copies $(or $(RUNS),30) -records $(or $(RECORDS),3000000)

clean: ## remove what make made
	rm -rf bin
