package runtime_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/txn"
)

// lastEpoch is the highest epoch that the broker gives to a transaction. The one after it has a new
// producer id, and begins at 0.
const lastEpoch = math.MaxInt16 - 1

// TestEpochRollsOver: rule 1.1. Each transaction has an epoch of its own, and a producer id has
// 32,767 of them. When they are used up, the answer to a commit brings a new producer id, and the
// rounds go on with it. If that very answer is lost, the round is resolved like any other.
//
// The transactional ids are aged by initialising them again and again, which raises the epoch as a
// transaction does.
func TestEpochRollsOver(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		if c.Kind() == cluster.KindKafka && testing.Short() {
			t.Skip("a real broker takes minutes to use up the epochs of two producer ids")
		}
		e := newAppScene(t, c)
		clean, doubted := e.application+"~one~0~0", e.application+"~one~0~1"
		e.age(map[string]int16{clean: lastEpoch - 20, doubted: lastEpoch - 60})
		p := e.throughProxy(func(c *txn.Config) { c.Instance, c.Workers = "one", 1 })
		seen := watchEnds(t, p)
		lost := p.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient, Where: func(f *proxy.Frame) bool {
			end, err := endOf(f)
			return err == nil && end.TransactionalID == doubted && end.ProducerEpoch == lastEpoch
		}}, proxy.Drop())

		r := e.start(e.count())
		fed := 0
		for rounds := 0; rounds < 30; { // of either id, after its roll-over
			e.feed(10, plain)
			fed += 10
			e.until(r, int64(fed))
			rounds = min(seen.afterRoll(clean), seen.afterRoll(doubted))
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if lost.Counts().Matched == 0 {
			t.Error("no answer was lost")
		}
		seen.check(clean, true)
		seen.check(doubted, false)
		for k, n := range testapp.LastCounts(t, e.Records(t, e.out)) {
			if n != int64(fed/10) {
				t.Errorf("%s was counted to %d, want %d", k, n, fed/10)
			}
		}
		e.checkClosed()
	})
}

// age initialises transactional ids, all of them at once, until each one's epoch is the given one.
func (e *appScene) age(to map[string]int16) {
	e.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	errs := make(chan error, len(to))
	for id, epoch := range to {
		wg.Go(func() { errs <- e.ageOne(id, epoch) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			e.t.Fatal(err)
		}
	}
	e.t.Logf("aged %d transactional ids in %v", len(to), time.Since(began).Round(time.Millisecond))
}

func (e *appScene) ageOne(id string, to int16) error {
	ctx, cl := e.t.Context(), e.Client(e.t)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(id), 10_000
	for epoch := int16(-1); epoch < to; {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("initialising %s after epoch %d: %w", id, epoch, err)
		}
		epoch = resp.ProducerEpoch
	}
	return nil
}

// ends are the commits and aborts that have been sent.
type ends struct {
	t  *testing.T
	mu sync.Mutex
	of map[string][]end // by transactional id
}

// end is one of them, once, however often it was sent.
type end struct {
	producer int64
	epoch    int16
	commit   bool
}

func watchEnds(t *testing.T, p rules) *ends {
	s := &ends{t: t, of: map[string][]end{}}
	p.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToBroker, Where: func(f *proxy.Frame) bool {
		req, err := endOf(f)
		if err != nil {
			t.Error(err)
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		of := s.of[req.TransactionalID]
		if now := (end{req.ProducerID, req.ProducerEpoch, req.Commit}); len(of) == 0 || of[len(of)-1] != now {
			s.of[req.TransactionalID] = append(of, now)
		}
		return true
	}}, proxy.Pass())
	return s
}

func endOf(f *proxy.Frame) (*kmsg.EndTxnRequest, error) {
	req, err := f.Request()
	if err != nil {
		return nil, err
	}
	end, ok := req.(*kmsg.EndTxnRequest)
	if !ok {
		return nil, fmt.Errorf("%s is no EndTxn", f)
	}
	return end, nil
}

// afterRoll returns how many transactions of an id have another producer id than the first one.
func (s *ends) afterRoll(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, end := range s.of[id] {
		if end.producer != s.of[id][0].producer {
			n++
		}
	}
	return n
}

// check asserts that the id has rolled over once, from the last epoch, and that no two transactions
// share an identity. If clean, each one was committed and has the epoch after that of the one
// before.
func (s *ends) check(id string, clean bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	rolled := 0
	known := map[end]bool{}
	for i, now := range s.of[id] {
		identity := end{now.producer, now.epoch, false}
		if known[identity] {
			s.t.Errorf("%s: two transactions are %d/%d", id, now.producer, now.epoch)
		}
		known[identity] = true
		if clean && !now.commit {
			s.t.Errorf("%s: the transaction %d/%d was aborted", id, now.producer, now.epoch)
		}
		if i == 0 {
			continue
		}
		switch before := s.of[id][i-1]; {
		case now.producer != before.producer:
			rolled++
			if before.epoch != lastEpoch || clean && now.epoch != 0 {
				s.t.Errorf("%s: %d/%d follows %d/%d", id, now.producer, now.epoch, before.producer, before.epoch)
			}
		case now.epoch <= before.epoch || clean && now.epoch != before.epoch+1:
			s.t.Errorf("%s: %d/%d follows %d/%d", id, now.producer, now.epoch, before.producer, before.epoch)
		}
	}
	if rolled != 1 {
		s.t.Errorf("%s: the producer id changed %d times, want once: %v", id, rolled, slices.Clone(s.of[id]))
	}
}
