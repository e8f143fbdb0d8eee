package operations_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/txn/admin"
)

// begun returns an application that has processed 100 records of each partition and stopped, and
// 100 more that wait.
func begun(t *testing.T, c *cluster.Cluster) *recoveryScene {
	t.Helper()
	e := newRecoveryScene(t, c)
	e.feed(100)
	e.life(100)
	e.process(0, 100)
	e.feed(100)
	return e
}

// TestMovedForward: an outside reset leaves input out. The skip can be accepted; to set the offsets
// back is the other way, which accept-skip makes good too.
func TestMovedForward(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		e.commit(150, "")
		e.stops("carry no metadata", "`onceward accept-skip "+e.in+"_0`")
		op := e.operator()
		e.refuses(op.AdoptFromRounds, "it has committed offsets")
		e.refuses(withOffsets(op.Reset, admin.Offsets{e.in: 120}), "see to that first")
		e.commit(1000, "")
		e.refuses(op.AcceptSkip, "1000", "not in the log")
		e.refuses(op.Adopt, "1000", "not in the log")
		e.commit(150, "")
		report := e.does(op.AcceptSkip)
		if in := report.Tasks[1].Inputs[0]; in.Partition != 1 || in.Before != 150 || in.After != 150 {
			t.Errorf("the report says %+v", report)
		}
		if again, err := op.AcceptSkip(t.Context(), admin.Options{}); err != nil || again.Tasks[0].Changed {
			t.Errorf("accepting once more returned %+v and %v, want that nothing is needed", again, err)
		}
		e.goesOn(150, 50)
	})
}

// TestMovedBack: an outside reset would apply input twice, and accept-skip is no way to get that.
func TestMovedBack(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(e *recoveryScene){
		"set back": func(e *recoveryScene) {
			e.commit(100, "")
			e.does(e.operator().AcceptSkip)
			e.goesOn(100, 20)
		},
		"adopt": func(e *recoveryScene) { // the operator insists: the state counts twice what is read twice
			e.does(e.operator().Adopt)
			e.goesOn(40, 20)
		},
		"rebuild from input": func(e *recoveryScene) {
			report := e.does(withOffsets(e.operator().RebuildFromInput, nil))
			if cl := report.Tasks[0].Changelogs[0]; cl.Tombstones != keys {
				e.t.Errorf("%d tombstones for %d keys", cl.Tombstones, keys)
			}
			e.empty()
			e.goesOn(0, 20)
		},
		"rebuild from an offset": func(e *recoveryScene) {
			e.does(withOffsets(e.operator().RebuildFromInput, admin.Offsets{e.in: 60}))
			e.empty()
			e.goesOn(60, 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
				e := begun(t, c)
				e.commit(40, "")
				e.stops("carry no metadata")
				e.refuses(e.operator().AcceptSkip, "goes back from 100 to 40", "set it to 100 or more", "rebuild from-input")
				take(e)
			})
		})
	}
}

// TestForeignMetadata: another program has committed the very offsets of the state, and is taken at
// its word by adopt.
func TestForeignMetadata(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		e.commit(100, "of another program")
		e.stops("carry no metadata")
		e.does(e.operator().Adopt)
		if again, err := e.operator().Adopt(t.Context(), admin.Options{}); err != nil || again.Tasks[0].Changed {
			t.Errorf("adopting once more returned %+v and %v, want that nothing is needed", again, err)
		}
		// The same state declared once more, with databases that are at it already, is the same
		// state.
		e.life(200)
		e.process(100, 200)
		e.commit(200, "of another program")
		e.does(e.operator().Adopt)
		e.goesOn(200, 20)
	})
}

// TestAdoptTwice: a second adoption of what databases hold already does not take them for another
// round's.
func TestAdoptTwice(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newRecoveryScene(t, c)
		e.feed(50)
		e.life(50)
		e.process(0, 50)
		for range 2 {
			e.commit(50, "")
			e.does(e.operator().Adopt)
			e.life(50) // the database is brought to the adopted position, and nothing is written
		}
		e.goesOn(50, 10)
	})
}

// TestExpiredOffsets: the group is gone, and a clean stop has kept what it knew.
func TestExpiredOffsets(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		e.expire()
		e.stops("the group has no offset", "`onceward adopt --from-rounds "+e.in+"_0`")
		op := e.operator()
		e.refuses(op.Adopt, "no committed offset", "--from-rounds")
		e.refuses(op.AcceptSkip, "no committed offset", "--from-rounds")
		e.does(op.AdoptFromRounds)
		e.life(200)
		e.process(100, 200)
		e.check()
		// Without the record of a clean stop there is nothing to go by.
		for p := range recoveryPartitions {
			r := &kgo.Record{Topic: e.application + "-rounds", Key: []byte("positions " + e.in + "_" + string(rune('0'+p)))}
			if err := e.producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		e.expire()
		e.refuses(op.AdoptFromRounds, "not a clean one", "rebuild from-input")
		e.commit(200, "")
		e.refuses(op.AcceptSkip, "offsets for which the state was written are unknown")
		e.refuses(op.Adopt, "in which mode", "--mode")
		e.does(live(op.Adopt))
		e.goesOn(200, 20)
	})
}

// expire removes the group with its offsets, as the brokers do after offsets.retention.minutes.
func (e *recoveryScene) expire() {
	e.t.Helper()
	deleted, err := e.Admin().DeleteGroups(e.t.Context(), e.application)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// TestOldCommit: offsets and metadata of an earlier commit are there again, as a coordinator that
// has lost records shows them. The databases are ahead, and so are the changelogs.
func TestOldCommit(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		old, err := e.Admin().FetchOffsets(t.Context(), e.application)
		if err != nil {
			t.Fatal(err)
		}
		e.life(200)
		e.process(100, 200)
		if err := e.Admin().CommitAllOffsets(t.Context(), e.application, old.Offsets()); err != nil {
			t.Fatal(err)
		}
		e.stops("the database contains changelog")
		op := e.operator()
		e.refuses(op.AcceptSkip, "committed records behind offset")
		e.refuses(func(ctx context.Context, o admin.Options) (admin.Report, error) {
			return op.RebuildFromChangelog(ctx, e.stateDir, nil, o)
		}, "committed records behind offset")
		e.does(withOffsets(op.RebuildFromInput, admin.Offsets{e.in: admin.Start}))
		e.empty()
		e.goesOn(0, 20)
	})
}

// lose deletes a topic, and waits until the broker does not know it any more: the controller
// answers before.
func (e *recoveryScene) lose(topic string) {
	e.t.Helper()
	if _, err := e.Admin().DeleteTopic(e.t.Context(), topic); err != nil {
		e.t.Fatal(err)
	}
	instance.Await(e.t, "the end of "+topic, func() error { return nil }, func() error {
		topics, err := e.Admin().ListTopics(e.t.Context(), topic)
		if err != nil {
			e.t.Fatal(err)
		}
		if errors.Is(topics[topic].Err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", topics[topic].Err)
	})
}

// TestRecreatedChangelog: a changelog was deleted and is another topic now. Nothing can bring the
// state back but the input.
func TestRecreatedChangelog(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]bool{"shorter": false, "longer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
				e := begun(t, c)
				topic := e.application + "-counts-changelog"
				e.lose(topic)
				e.refuses(e.operator().Adopt, topic, "does not exist")
				reason := "the cluster lost records"
				if long {
					e.recreateLonger(topic)
					reason = "deleted and created again"
				}
				e.stops(reason)
				op := e.operator()
				if long { // a high watermark that is too low is believed after ten seconds, in each look
					e.refuses(withOffsets(op.Reset, admin.Offsets{e.in: 150}), "see to that first")
					e.does(withOffsets(op.RebuildFromInput, nil))
				} else if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
					t.Fatal(err)
				}
				e.empty()
				e.goesOn(0, 20)
			})
		})
	}
}

// recreateLonger creates a changelog that was deleted, with more records than it had, of another
// writer.
func (e *recoveryScene) recreateLonger(topic string) {
	e.t.Helper()
	if err := e.CreateTopic(e.t.Context(), topic, recoveryPartitions, map[string]*string{"cleanup.policy": new("compact")}); err != nil {
		e.t.Fatal(err)
	}
	var records []*kgo.Record
	for i := range 1000 {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % recoveryPartitions), Key: []byte("stray"), Value: make([]byte, 8)})
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// TestGroupAndTransactions: nothing is done while an instance runs, and a transaction that is open
// on a changelog is waited for.
func TestGroupAndTransactions(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		r := e.start()
		e.until(r, 200)
		e.process(100, 200)
		op := e.operator()
		for _, do := range []action{
			op.Adopt, op.AdoptFromRounds, op.AcceptSkip, withOffsets(op.Reset, admin.Offsets{e.in: admin.End}), withOffsets(op.RebuildFromInput, nil),
		} {
			e.refuses(do, "has members", "stop every instance")
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		e.commit(200, "")
		foreign := c.Client(t, kgo.TransactionalID(c.Name(t, "foreign")), kgo.TransactionTimeout(5*time.Minute),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		stray := &kgo.Record{Topic: e.application + "-counts-changelog", Key: []byte("p0-k0"), Value: make([]byte, 8)}
		if err := foreign.ProduceSync(t.Context(), stray).FirstErr(); err != nil {
			t.Fatal(err)
		}
		before := e.snapshot()
		for limit := 2 * time.Second; ; limit *= 2 { // how long it takes to come to the wait is the machine's business
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err := op.Adopt(ctx, admin.Options{})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("with an open transaction adopt returned %v, want that it has waited", err)
			}
			if strings.Contains(err.Error(), "transaction is open on") {
				break
			}
			if limit > time.Minute {
				t.Fatalf("with an open transaction adopt waited for something else: %v", err)
			}
		}
		if after := e.snapshot(); !reflect.DeepEqual(before, after) {
			t.Errorf("an action that waited in vain changed something:\n%v\n%v", before, after)
		}
		if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		if err := e.WaitStable(t.Context(), stray.Topic); err != nil { // the marker comes after the answer
			t.Fatal(err)
		}
		e.does(op.Adopt)
		e.goesOn(200, 20)
	})
}

// TestReset moves offsets together with the state: forward, and back only where there is no state.
func TestReset(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		op := e.operator()
		e.refuses(withOffsets(op.Reset, admin.Offsets{e.in: 99}), "goes back from 100 to 99")
		e.refuses(withOffsets(op.Reset, admin.Offsets{e.in: 201}), "not in the log")
		e.refuses(withOffsets(op.Reset, admin.Offsets{"other": 1}), "none of the tasks reads the topic other")
		e.refuses(func(ctx context.Context, o admin.Options) (admin.Report, error) {
			o.Tasks = []string{"absent_0"}
			return op.Reset(ctx, o, admin.Offsets{e.in: 120})
		}, "there is no task \"absent_0\"")
		e.does(withOffsets(op.Reset, admin.Offsets{e.in: 120}))
		e.goesOn(120, 10)
		e.feed(30)
		e.does(withOffsets(op.Reset, admin.Offsets{e.in: admin.End}))
		e.goesOn(len(e.fed[0]), 10)
	})
}

// TestFirstCommitForgets: the record of a clean stop is invalid once a later incarnation has
// committed anything, even without state.
func TestFirstCommitForgets(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		r := e.start()
		e.until(r, 200)
		kept := map[string]bool{}
		for _, rec := range e.Records(t, e.application+"-rounds") {
			kept[string(rec.Key)] = rec.Value != nil
		}
		for p := range []int{0, 1} {
			if key := "positions " + e.in + "_" + string(rune('0'+p)); kept[key] {
				t.Errorf("%q is still kept after a commit of the next life", key)
			}
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHalfEmptied: what a rebuild from input has begun to empty belongs to no offsets, whatever is
// said.
func TestHalfEmptied(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		e.commit(0, "rebuild from input is not complete")
		e.stops("was interrupted")
		op := e.operator()
		e.refuses(op.Adopt, "interrupted", "`onceward rebuild from-input "+e.in+"_0`")
		e.refuses(op.AcceptSkip, "interrupted", "`onceward rebuild from-input "+e.in+"_0`")
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		e.empty()
		e.life(200)
		e.process(0, 200)
		e.check()
	})
}
