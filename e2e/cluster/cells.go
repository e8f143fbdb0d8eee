package cluster

import (
	"flag"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/virtual"
)

// byPackage is what InParallel has set the flag -parallel to, which is not the choice of the user
// who runs the tests.
var byPackage string

// InParallel lets n tests that call t.Parallel run at a time, unless the flag -parallel says
// otherwise. The default is the number of processors, too few for tests that wait for sessions and
// transactions to end most of the time. Call it in TestMain, before [Main].
func InParallel(n int) {
	byPackage = strconv.Itoa(n)
	_ = flag.Set("test.parallel", byPackage) // a test binary has that flag
}

// Cells runs run as a subtest for each cell, named by name: at most inParallel of them at once, or
// as many as the flag -parallel says. They start in the order of the slice, so that the long ones
// can come first. With [testing.T.Parallel] they start in no order that is promised, in practice
// nearly the reverse one, and its bound is the number of processors: cells wait for timeouts most
// of the time.
//
// It returns when all of them have ended. run must not call t.Parallel.
func Cells[C any](t *testing.T, inParallel int, cells []C, name func(C) string, run func(t *testing.T, c C)) {
	t.Helper()
	flag.Visit(func(f *flag.Flag) {
		if n, err := strconv.Atoi(f.Value.String()); f.Name == "test.parallel" && f.Value.String() != byPackage && err == nil {
			inParallel = n
		}
	})
	next := make(chan C)
	var workers sync.WaitGroup
	for range inParallel {
		workers.Go(func() {
			for c := range next {
				t.Run(name(c), func(t *testing.T) { run(t, c) })
			}
		})
	}
	for _, c := range cells {
		next <- c
	}
	close(next)
	workers.Wait()
}

// EachKind runs f as a subtest on the kind of broker that this process tests on: "embedded", or
// "kafka" where the environment asks for real Kafka. So each half of the test runs once in `make
// test` and `make test-kafka`. f must not call t.Parallel.
func EachKind(t *testing.T, f func(t *testing.T, k Kind)) {
	t.Helper()
	kind := kindWanted(t, KindEmbedded)
	t.Run(string(kind), func(t *testing.T) { f(t, kind) })
}

// kindWanted returns KindKafka where the environment asks for real Kafka, else the given kind.
func kindWanted(t *testing.T, without Kind) Kind {
	t.Helper()
	switch wanted, _, err := onKafka(); {
	case err != nil:
		t.Fatal(err)
	case wanted:
		return KindKafka
	}
	processBroker.say(notWanted)
	return without
}

// Each is [EachKind] with a broker of the kind: the real one is [Kafka], the embedded one belongs
// to the subtest.
func Each(t *testing.T, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	EachKind(t, func(t *testing.T, k Kind) {
		t.Helper()
		if k == KindEmbedded {
			f(t, Embedded(t))
		} else {
			f(t, Kafka(t))
		}
	})
}

// Scenario runs f as a subtest: "virtual", on brokers of its own on virtual time (package virtual),
// or "kafka", on [Kafka], where the environment asks for real Kafka. f is to make no subtests and
// must not call t.Parallel: a bubble has neither.
//
// On virtual time applications need the [Cluster.Dialer] of their host, and txn.Config.NoControl.
// [Cluster.Network] has the faults.
func Scenario(t *testing.T, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	kind := kindWanted(t, KindVirtual)
	t.Run(string(kind), func(t *testing.T) {
		if kind == KindKafka {
			f(t, Kafka(t))
			return
		}
		virtual.Test(t, func(t *testing.T) { f(t, virtualOwn(t)) })
	})
}

// OnVirtual runs f on virtual time alone, as [Scenario] does, for what real Kafka adds nothing to.
// Where the process tests on real Kafka it skips the test. The options are those of the brokers.
func OnVirtual(t *testing.T, f func(t *testing.T, c *Cluster), opts ...kfake.Opt) {
	t.Helper()
	processBroker.expect(t, KindVirtual)
	virtual.Test(t, func(t *testing.T) { f(t, virtualOwn(t, opts...)) })
}

// virtualBrokers is how many brokers a virtual cluster has: a coordinator or a leader is mostly
// elsewhere.
const virtualBrokers = 3

func virtualOwn(t *testing.T, opts ...kfake.Opt) *Cluster {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	return Virtual(t, network, virtual.NewKafka(t, network, virtualBrokers, opts...))
}
