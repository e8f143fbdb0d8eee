package txn_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestStuckRestoreIsReported: a foreign producer's open transaction holds the last stable offset of
// a changelog below the restore's target (rule 7.4). The unread part is the missing tail, or in a
// first incarnation the whole changelog. The restore waits. It names the producer when the
// transaction timeout and 15 s are over, and not before. It names the producer again after as long
// again, and continues when the transaction ends.
func TestStuckRestoreIsReported(t *testing.T) {
	const limit = 10*time.Second + 15*time.Second
	for _, lives := range []bool{true, false} {
		bubble(t, fmt.Sprintf("lives before: %t", lives), func(t *testing.T) {
			b := newBroker(t, 1, "in", "out")
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
			sent := 0
			life := func() {
				app, stop := start(t, countTopology(t), cfg)
				waitFor(t, "the task", running(app, 1))
				if lives {
					b.send(t, "in", "v", 10)
					sent += 10
					b.read(t, "out", sent)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			life()
			holder, end := b.openTransaction(t, "counting-counts-changelog")
			if lives {
				life() // what it writes is behind the open transaction
				cfg.StateDir = t.TempDir()
			}
			reports := newLogged(t, "a changelog cannot be read on, because a transaction is open", "held_by")
			cfg.Logger = slog.New(reports)
			app, _ := start(t, countTopology(t), cfg)
			for i := range 2 {
				time.Sleep(limit - 5*time.Second)
				if got := reports.all(); len(got) != i {
					t.Fatalf("before %s the reports are %q, want %d of them", limit, got, i)
				}
				time.Sleep(10 * time.Second) // a wait begins and is looked at once an answer
				if got := reports.all(); len(got) != i+1 || got[i] != holder {
					t.Fatalf("later than that the reports are %q, want %d that name %q", got, i+1, holder)
				}
			}
			if running(app, 1)() {
				t.Error("the task was opened although its changelog could not be read")
			}
			end()
			b.send(t, "in", "v", 10)
			sent += 10
			check(t, b.read(t, "out", sent), int64(sent))
			if got := slices.Compact(reports.all()); len(got) != 1 {
				t.Errorf("the reports are %q", got)
			}
		})
	}
}

// openTransaction writes a record of a transaction that stays open until end is called, and says
// how a report names it.
func (b *testBroker) openTransaction(t *testing.T, topic string) (holder string, end func()) {
	t.Helper()
	cl := b.client(t, kgo.TransactionalID("foreign"), kgo.TransactionTimeout(10*time.Minute))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	written, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("foreign")}).First()
	if err != nil {
		t.Fatal(err)
	}
	holder = fmt.Sprintf("producer id %d epoch %d since offset %d (foreign is Ongoing)", written.ProducerID, written.ProducerEpoch, written.Offset)
	return holder, func() {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
}
