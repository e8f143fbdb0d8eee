package txn_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/task"
)

const keyOffsetCommit = 8

// watched counts the requests of an application by key: produces only inside transactions.
type watched struct {
	sync.Mutex
	counts map[int16]int
}

// watch counts what arrives at the broker from now on.
func (b *testBroker) watch(keys ...int16) *watched {
	w := &watched{counts: map[int16]int{}}
	for _, key := range keys {
		b.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if transactional(req) {
				w.Lock()
				w.counts[key]++
				w.Unlock()
			}
			return nil, nil, false
		})
	}
	return w
}

func (w *watched) of(key int16) int {
	w.Lock()
	defer w.Unlock()
	return w.counts[key]
}

// noPlainCommit: rule 2.5. The application commits offsets, and never outside of a transaction.
func (w *watched) noPlainCommit(t *testing.T) {
	t.Helper()
	if w.of(keyTxnOffsetCommit) == 0 {
		t.Error("no offset commit of a transaction was seen: the count counts nothing")
	}
	if n := w.of(keyOffsetCommit); n > 0 {
		t.Errorf("%d offset commits were sent outside of a transaction", n)
	}
}

// ongoing returns the transactional ids with an open transaction.
func (b *testBroker) ongoing(t *testing.T) (ids []string) {
	t.Helper()
	all, err := b.adm.ListTransactions(t.Context(), nil, []string{"Ongoing"})
	if err != nil {
		t.Error(err)
	}
	for id, tx := range all {
		if tx.State == "Ongoing" {
			ids = append(ids, id)
		}
	}
	return ids
}

// never fails when a condition becomes true within a time. It needs virtual time.
func never(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(pollMax) {
		if cond() {
			t.Error(what)
			return
		}
	}
}

// TestIncarnation: rule 1.4. Two lives of one instance, with the same state directory, name their
// rounds differently whatever the broker's producer ids and epochs are; within one life every task
// has the same incarnation.
func TestIncarnation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 2})
		lives := map[uint32]bool{}
		for life := range 3 {
			app, stop := start(t, countTopology(t), cfg)
			feed(t, b, 200)
			waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 200 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			found := map[uint32]int{}
			b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
				committed, err := task.ParseCommitMetadata(o.Metadata)
				if err != nil {
					t.Fatal(err)
				}
				found[committed.Round.Incarnation]++
				lives[committed.Round.Incarnation] = true
			})
			if len(found) != 1 || found[0] > 0 {
				t.Errorf("life %d has the incarnations %v, want one that is not 0", life, found)
			}
		}
		if len(lives) != 3 {
			t.Errorf("three lives have the incarnations %v", lives)
		}
	})
}

// gatedTopology counts records per key and passes their values on. The last of n records waits
// inside user code until the gate opens.
func gatedTopology(t *testing.T, n int64, inside chan<- struct{}, gate <-chan struct{}) *topology.Topology {
	t.Helper()
	var seen atomic.Int64
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.Bytes()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, []byte], emit topology.Emit[string, []byte],
	) error {
		before, _, err := counts.Get(r.Key)
		if err != nil {
			return err
		}
		if err := counts.Put(r.Key, before+1); err != nil {
			return err
		}
		if seen.Add(1) == n {
			close(inside)
			<-gate
		}
		return emit(c, r)
	}).Into(topology.Topic("out", schemas.String(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestSmallRoundSendsNothingBeforeItsSeal: rule 2.1. While a small round is computed nothing is
// produced and no transaction is open, and its writes to one key become one changelog record, while
// every output is written. A large round sends ahead.
func TestSmallRoundSendsNothingBeforeItsSeal(t *testing.T) {
	for _, tc := range []struct {
		name  string
		n     int
		size  int
		ahead bool
	}{
		{"small", 100, 10, false},
		{"control: large", 8, 100 << 10, true},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBroker(t, 1, "in", "out")
			var random noise
			var records []*kgo.Record
			for range tc.n {
				records = append(records, &kgo.Record{Topic: "in", Key: []byte("k"), Value: random.bytes(tc.size)})
			}
			b.produce(t, records...)
			w := b.watch(keyProduce, keyTxnOffsetCommit, keyOffsetCommit)
			inside, gate := make(chan struct{}), make(chan struct{})
			app, stop := start(t, gatedTopology(t, int64(tc.n), inside, gate), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
			}))
			opened := false
			open := func() {
				if !opened {
					opened = true
					close(gate)
				}
			}
			defer open()
			select {
			case <-inside:
			case <-time.After(patience):
				t.Fatal("the last record was not processed")
			}
			if tc.ahead {
				waitFor(t, "output to be sent ahead", func() bool { return w.of(keyProduce) > 0 && len(b.ongoing(t)) == 1 })
			} else {
				never(t, time.Minute, "output was sent before the seal", func() bool { return w.of(keyProduce) > 0 || len(b.ongoing(t)) > 0 })
			}
			open()
			waitFor(t, "the round to commit", func() bool { return app.Status().Totals.Records == int64(tc.n) })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if w.of(keyProduce) == 0 {
				t.Error("no produce was seen: the count counts nothing")
			}
			b.read(t, "out", tc.n)
			if commits := app.Status().Totals.Commits; commits == 1 {
				b.read(t, "counting-counts-changelog", 1)
			} else if !tc.ahead {
				t.Errorf("the input was committed in %d rounds: the test needs one", commits)
			}
			w.noPlainCommit(t)
		})
	}
}

// TestEmptyRoundIsCommitted: rule 2.5. Input that leads to no record is committed after a bounded
// time by a round with one filler, with the application running, and not before. Nothing is ever
// committed outside of a transaction.
func TestEmptyRoundIsCommitted(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		bubble(t, fmt.Sprintf("bounded=%t", bounded), func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			w := b.watch(keyProduce, keyTxnOffsetCommit, keyOffsetCommit)
			var seen atomic.Int64
			build := topology.NewBuilder("counting")
			topology.From(build, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
				Filter("none", func(topology.Record[[]byte, []byte]) (bool, error) { seen.Add(1); return false, nil }).
				Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
			top, err := build.Build()
			if err != nil {
				t.Fatal(err)
			}
			feed(t, b, 400)
			app, stop := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			waitFor(t, "the records to be processed", func() bool { return seen.Load() == 400 })
			committed := func() bool { at := b.committed(t); return at[0] == 200 && at[1] == 200 }
			never(t, 9*time.Second, "a round was committed before its time", func() bool { return w.of(keyTxnOffsetCommit) > 0 })
			others := 2 // records of the rounds topic that are no fillers: each task's positions, deleted by its first commit and written by a stop
			if bounded {
				waitFor(t, "the round to be committed by itself", func() bool { return committed() && app.Status().Totals.Records == 400 })
			} else {
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				others += 2
			}
			if !committed() {
				t.Errorf("the committed offsets are %v, want 200 and 200", b.committed(t))
			}
			rounds, fillers := int(app.Status().Totals.Commits), 0
			for _, r := range b.read(t, "counting-rounds", rounds+others) {
				if strings.HasPrefix(string(r.Key), "filler ") {
					fillers++
				}
			}
			produces := w.of(keyProduce) // what a round buffers may leave in two requests, if the second record is late
			if rounds == 0 || fillers != rounds || produces < rounds || produces > rounds+others {
				t.Errorf("%d rounds have %d fillers and %d produces, want one of each", rounds, fillers, produces)
			}
			w.noPlainCommit(t)
		})
	}
}
