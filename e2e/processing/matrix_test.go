//go:build unix

package processing

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/effect"
)

// row is a row of the failure matrix: something happens to the pipeline, and it comes to the same.
type row struct {
	name string
	// kafka says that the row is run on a real Kafka too.
	kafka bool
	run   func(s *scene)
}

// rows are those of the matrix, all of them.
var rows = []row{
	{name: "crash before processing", kafka: true, run: killedAt("process-before", 60)},
	{name: "crash after processing before flush", kafka: true, run: killedAt("flush-before", 5)},
	{name: "crash after flush before offsets", kafka: true, run: killedAt("offsets-before", 5)},
	{name: "crash after offsets before end", kafka: true, run: killedAt("end-before", 5)},
	{name: "crash after end before the local apply", kafka: true, run: killedAt("apply-before", 5)},
	{name: "crash after the apply", kafka: true, run: killedAt("apply-after", 5)},
	{name: "duplicate delivery", run: duplicated},
	{name: "concurrent duplicate on two instances", run: concurrent},
	{name: "older version after newer", run: older},
	{name: "gap", run: gap},
	{name: "poison payload", run: poisoned},
	{name: "failing dependency", run: failing},
	{name: "failing dependency, redriven", run: redriven},
	{name: "rebalance in mid-batch", kafka: true, run: rebalanced},
	{name: "out-of-order completion", run: outOfOrder},
	{name: "replay from earliest", kafka: true, run: redelivered},
	{name: "replay from earliest, beside", kafka: true, run: replayed},
	{name: "replay after expiry", kafka: true, run: expired},
	{name: "broker restart", run: brokerRestarted},
	{name: "worker frozen past its session and back", kafka: true, run: frozen},
	{name: "lost state directory", run: lost},
	{name: "corrupt state directory", run: corrupted},
	{name: "disk full", run: full},
}

// TestMatrix runs every row on virtual time.
func TestMatrix(t *testing.T) {
	t.Parallel()
	cluster.Cells(t, runtime.GOMAXPROCS(0), rows, func(r row) string { return r.name }, func(t *testing.T, r row) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) { r.run(newScene(t, c, 1)) })
	})
}

// inParallelOnKafka is how many cells of a test run at a time: they wait most of the time.
const inParallelOnKafka = 3

// TestMatrixOnKafka runs the rows on a real Kafka that are about what only that can show.
func TestMatrixOnKafka(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t)
	some := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !r.kafka })
	cluster.Cells(t, inParallelOnKafka, some, func(r row) string { return r.name }, func(t *testing.T, r row) { r.run(newScene(t, c, 1)) })
}

// TestBrokenOnBroker is the negative control of the matrix: a pipeline that calls the gateway in
// its handler calls again whenever a unit of work is undone, and is found by its payments.
func TestBrokenOnBroker(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, callsAtOnce)
}

func callsAtOnce(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	s := newScene(t, c, 1)
	s.settings.Broken = CallsAtOnce
	l := s.start(s.settings)
	var facts []fact
	for i, kind := range []Kind{Open, Deposit, Payout} {
		e := Event{ID: fmt.Sprint(kind), Version: int64(i + 1), Kind: kind, Amount: int64(i)}
		facts = append(facts, fact{frail, e, s.history.began.UnixMilli()})
	}
	s.feed(clean(facts[:2])...)
	s.finish(l.Alive)
	s.be(worldDown)
	s.feed(clean(facts[2:])...)
	s.until("two payments", l.Alive, func() error {
		if n := s.gateway.times(effect.IdempotencyKey(nodePayouts, facts[2].ID)); n < 2 {
			return fmt.Errorf("%d payments", n)
		}
		return nil
	})
	s.be(worldFine)
	s.finish(l.Alive)
	l.End()
	if err := s.judged(); err == nil || !strings.Contains(err.Error(), "was paid") {
		t.Errorf("the payments that were made twice are not found: %v", err)
	}
}

// killedAt is a crash at a point of the commit.
func killedAt(point string, skip int) func(*scene) {
	return func(s *scene) {
		s.past()
		p := s.startArmed(point, "kill", skip)
		s.feedUntil(p)
		s.settings.StateDir = p.Killed()
		s.whole()
	}
}

// lost is a kill with the state directory gone.
func lost(s *scene) {
	s.past()
	p := s.startArmed("end-after", "kill", 8)
	s.feedUntil(p)
	s.settings.StateDir = p.Killed()
	s.lose()
	s.whole()
}

// rebalanced lets instances come and go while they have work.
func rebalanced(s *scene) {
	one := s.start(s.settings)
	s.more(everything)
	s.expireAll(one.Alive)
	two := s.start(s.second())
	for len(two.Status().Tasks) == 0 {
		s.more(everything)
		s.finish(two.Alive)
	}
	s.more(everything)
	ended := make(chan error, 1)
	go func() { ended <- one.Stop() }()
	s.more(everything)
	if err := <-ended; err != nil {
		s.t.Fatal(err)
	}
	s.more(everything)
	s.finish(two.Alive)
	s.check(two)
	two.End()
	s.whole()
}

// frozen freezes an instance until another instance has its tasks and its work. Back again it is a
// zombie, and has to find that out.
func frozen(s *scene) {
	s.past()
	p := s.startArmed("end-before", "freeze", 5)
	s.feedUntil(p)
	other := s.start(s.second())
	s.more(everything)
	s.finish(other.Alive)
	p.Thaw()
	s.more(everything)
	s.finish(other.Alive)
	other.End()
	s.more(everything)
	s.finish(p.Alive) // the former zombie works again
	p.End()
	s.whole()
}

// brokerRestarted takes the broker down with records on their way.
func brokerRestarted(s *scene) {
	l := s.start(s.settings)
	s.more(everything)
	s.finish(l.Alive)
	for range 2 {
		s.more(everything)
		if err := s.cluster.Restart(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.more(everything)
		s.finish(l.Alive)
	}
	s.check(l)
	l.End()
	s.whole()
}
