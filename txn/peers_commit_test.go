//go:build onceward_failpoints

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/txn"
)

// results returns how many results of feedAll are committed for the keys together, once there are
// no more for a while. It says what is wrong with their order, as after a record that was counted
// twice or left out.
func (s *peerScene) results() (n int, wrong error) {
	s.t.Helper()
	cl := s.client(s.t, kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer cl.Close()
	last := map[string]byte{}
	for {
		ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
		f := cl.PollFetches(ctx)
		cancel()
		if f.NumRecords() == 0 {
			return n, wrong
		}
		f.EachRecord(func(r *kgo.Record) {
			n++
			key, count := string(r.Key), r.Value[len(r.Value)-1] // big endian, and small
			if count != last[key]+1 {
				wrong = errors.Join(wrong, fmt.Errorf("%s: %d follows %d", key, count, last[key]))
			}
			last[key] = count
		})
	}
}

// TestSuspectIsFencedInItsCommit: rule 13.4. An instance is fenced between its request to commit
// and the answer. If the coordinator has the request, the transaction is committed; if not, it is
// aborted, and the request is refused when it comes. Both instances go on, and each record has one
// result. The negative control commits offsets outside of transactions: what is aborted is then not
// processed again.
func TestSuspectIsFencedInItsCommit(t *testing.T) {
	for name, c := range map[string]struct {
		direction proxy.Direction
		broken    []string
	}{
		"the answer is late":           {proxy.ToClient, nil},
		"the request is late":          {proxy.ToBroker, nil},
		"the request is late, control": {proxy.ToBroker, []string{"offsets"}},
	} {
		bubble(t, name, func(t *testing.T) {
			s := pairOf(t, func(_ string, cfg *txn.Config) { *cfg = cfg.WithFailpoints(nil, c.broken...) })
			s.feedAll()
			s.await("the first results", func() bool { return s.committedAll(1) })
			commit := s.hosts["one"].Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: c.direction, Limit: 1}, proxy.Hold())
			s.feedAll()
			s.await("a commit under way", matched(commit))
			before := s.memberOf("one")
			if err := s.apps["two"].FencePeer(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			commit.Lift()
			s.await("the instance to join again", func() bool { m := s.memberOf("one"); return m != "" && m != before && s.balanced() })
			s.feedAll()
			n, wrong := s.results()
			if failed := n != 3*4 || wrong != nil; failed != (c.broken != nil) {
				t.Errorf("%d results of 12 records: %v", n, wrong)
			}
			if c.broken == nil && s.apps["one"].Status().Totals.Records+s.apps["two"].Status().Totals.Records != 12 {
				t.Error("the instances do not count each record once")
			}
		})
	}
}

// committedAll reports whether the offsets behind the first n records of each partition are
// committed.
func (s *peerScene) committedAll(n int64) bool {
	at := s.committed(s.t)
	for p := range int32(4) {
		if at[p] < n {
			return false
		}
	}
	return true
}

// TestTwoFenceOneAtOnce: two instances fence a third one that lives, at the same moment and under
// load. That is one fencing: what is under way is aborted or committed once, the member joins
// again, and each record has one result. The negative control commits offsets outside of
// transactions.
func TestTwoFenceOneAtOnce(t *testing.T) {
	for name, broken := range map[string][]string{"safe": nil, "control": {"offsets"}} {
		bubble(t, name, func(t *testing.T) {
			const times = 5
			s := newPeerScene(t)
			all := []string{"one", "two", "three"}
			for _, instance := range all {
				s.start(instance, func(cfg *txn.Config) { *cfg = cfg.WithFailpoints(nil, broken...) })
			}
			atWork := func() bool {
				tasks := 0
				for _, app := range s.apps {
					n := 0
					for _, task := range app.Status().Tasks {
						if task.State == txn.TaskRunning {
							n++
						}
					}
					if tasks += n; n == 0 || !allConnected(app, 2) {
						return false
					}
				}
				return tasks == 4
			}
			s.await("tasks at each instance, connected", atWork)
			records := 0
			feed := func() { s.feedAll(); records += 4 }
			for range times {
				feed()
				var fencers sync.WaitGroup
				errs := make([]error, 2)
				for i, fencer := range all[:2] {
					fencers.Go(func() { errs[i] = s.apps[fencer].FencePeer(t.Context(), "three") })
				}
				feed()
				fencers.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					feed()
					time.Sleep(100 * time.Millisecond)
				}
				if broken == nil {
					s.await("all to work again", atWork)
				}
			}
			n, wrong := s.results()
			if failed := n != records || wrong != nil; failed != (broken != nil) {
				t.Errorf("%d results of %d records: %v", n, records, wrong)
			}
		})
	}
}
