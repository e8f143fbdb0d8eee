package runtime_test

import (
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/txn"
)

// TestCommitThatNeverArrives: rule 3.2. The commit of a round does not reach the broker, however
// often it is sent, while there is input for the next round. The next one waits until it is known
// what became of the first: it was aborted, both are run again, and every record counts once.
func TestCommitThatNeverArrives(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		fed := e.dropCommit(func(*txn.Config) {})
		out := e.Records(t, e.out)
		if len(out) != fed {
			t.Errorf("%d records of %d are in the output", len(out), fed)
		}
		testapp.LastCounts(t, out)
		e.checkClosed()
	})
}

// dropCommit runs an application and drops the commit of one round each time that it is sent, until
// everything that was fed is processed and its offsets are committed. It returns how many records
// were fed.
func (e *appScene) dropCommit(change func(*txn.Config)) (fed int) {
	e.t.Helper()
	p := e.throughProxy(func(c *txn.Config) {
		c.Instance, c.Workers, c.TransactionTimeout = "one", 1, 10*time.Second
		change(c)
	})
	r := e.start(e.count())
	e.feed(100, plain)
	e.until(r, 100)
	never := p.Add(oneCommitOf(e.application+"~one~0~0"), proxy.Drop())
	fed = 100
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(time.Minute)
	for never.Counts().Matched == 0 {
		if time.Now().After(deadline) {
			e.t.Fatal("no commit was dropped within a minute")
		}
		e.feed(10, plain)
		fed += 10
		<-tick.C
	}
	e.feed(10, plain) // for the next round, at the latest
	fed += 10
	e.until(r, int64(fed))
	if err := r.Stop(); err != nil {
		e.t.Fatal(err)
	}
	commits, err := e.CommittedOffsets(e.t.Context(), e.application, e.in)
	if err != nil {
		e.t.Fatal(err)
	}
	committed := 0
	for _, of := range commits[e.in] {
		committed += int(of.Offset)
	}
	if committed != fed {
		e.t.Errorf("%d records of %d are committed", committed, fed)
	}
	return fed
}

// oneCommitOf matches the commit of one transaction of an id, the first one that is seen, each time
// that it is sent.
func oneCommitOf(id string) proxy.Match {
	var mu sync.Mutex
	var first *end
	return proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToBroker, Where: func(f *proxy.Frame) bool {
		req, err := endOf(f)
		if err != nil || req.TransactionalID != id || !req.Commit {
			return false
		}
		this := end{req.ProducerID, req.ProducerEpoch, true}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = &this
		}
		return *first == this
	}}
}
