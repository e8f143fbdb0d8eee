package txn_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

var countsStore = topology.KeyValueStore("counts", schemas.String(), schemas.Int64())

// count reads the count of k0 with its view's labels.
func count(t *testing.T, app *txn.App, options ...txn.ReadOption) (n int64, view *txn.View[state.KeyValue[string, int64]], err error) {
	t.Helper()
	view, err = txn.Read(app, countsStore, 0, options...)
	if err != nil {
		return 0, nil, err
	}
	n, _, err = view.Store().Get("k0")
	if err != nil {
		t.Fatal(err)
	}
	return n, view, nil
}

// TestReadInDoubt: while a commit is in doubt for more than 5 s a query is refused, unless it asks
// for stale data (rule 8.3). Once the commit is resolved, and the round has run again, the same
// owner serves the next round.
func TestReadInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var armed atomic.Bool
		var doubts atomic.Int64
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		defer letGo()
		b.ControlKey(keyEndTxn, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !armed.Load() {
				return nil, nil, false
			}
			return refuse(req, kerr.UnknownServerError.Code), nil, true
		})
		b.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if armed.Load() {
				doubts.Add(1)
				b.SleepControl(func() { <-hold })
			}
			return nil, nil, false
		})
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		_, before, err := count(t, app)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()

		armed.Store(true)
		feedPartition(t, b, 0, 100) // first: it is the one that is to be in doubt
		waitFor(t, "a commit to be in doubt", func() bool { return doubts.Load() > 0 })
		time.Sleep(4 * time.Second)
		if n, view, err := count(t, app); err != nil || n != 10 {
			t.Errorf("a task that is in doubt for a moment is read as %d (%v), want 10", n, err)
		} else {
			_ = view.Close()
		}
		time.Sleep(time.Second)
		if _, _, err := count(t, app); !errors.Is(err, txn.ErrInDoubt) {
			t.Fatalf("Read returned %v", err)
		}
		feedPartition(t, b, 1, 100)
		n, stale, err := count(t, app, txn.Stale())
		if err != nil {
			t.Fatal(err)
		}
		if n != 10 || stale.Round() != before.Round() || stale.Epoch() != before.Epoch() || !errors.Is(stale.WhyStale(), txn.ErrInDoubt) {
			t.Errorf("the stale view has count %d, round %s, epoch %s, because of %v; want 10, %s, %s and the doubt", n, stale.Round(),
				stale.Epoch(), stale.WhyStale(), before.Round(), before.Epoch())
		}
		_ = stale.Close()
		armed.Store(false)
		letGo()
		waitFor(t, "the commit to be resolved", func() bool { return app.Status().Totals.Records == 400 })
		n, after, err := count(t, app)
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close()
		if n != 20 || after.Round() == before.Round() || after.Epoch() != before.Epoch() {
			t.Errorf("afterwards the view has count %d, round %s (before: %s), epoch %s (before: %s)", n, after.Round(), before.Round(),
				after.Epoch(), before.Epoch())
		}
		check(t, b.read(t, "out", 400), 20)
	})
}

// TestReadWhileRestoring: a task that is being restored is not served, unless stale data are asked
// for. The next owner has another epoch, and serves the round that the last owner has committed
// (rule 8.3).
func TestReadWhileRestoring(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		first, stop := start(t, countTopology(t), cfg)
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return first.Status().Totals.Records == 200 })
		_, before, err := count(t, first)
		if err != nil {
			t.Fatal(err)
		}
		round, epoch := before.Round(), before.Epoch()
		_ = before.Close()
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		changelog := b.TopicInfo("counting-counts-changelog")
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		defer letGo()
		b.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			for _, topic := range req.(*kmsg.FetchRequest).Topics {
				if topic.Topic == changelog.Topic || topic.TopicID == changelog.TopicID {
					b.SleepControl(func() { <-hold })
				}
			}
			return nil, nil, false
		})
		cfg.StateDir = t.TempDir() // nothing is there: all of it comes from the changelog
		app, _ := start(t, countTopology(t), cfg)
		var stale *txn.View[state.KeyValue[string, int64]]
		waitFor(t, "the restore", func() bool {
			_, stale, err = count(t, app, txn.Stale())
			if err != nil && !errors.Is(err, txn.ErrNotServing) {
				t.Fatal(err)
			}
			return err == nil
		})
		if !errors.Is(stale.WhyStale(), txn.ErrRestoring) || stale.Epoch() != (txn.Epoch{}) || !stale.Round().IsZero() {
			t.Errorf("the stale view has epoch %s and round %s, because of %v", stale.Epoch(), stale.Round(), stale.WhyStale())
		}
		_ = stale.Close()
		if _, _, err := count(t, app); !errors.Is(err, txn.ErrRestoring) {
			t.Errorf("Read returned %v, want %v", err, txn.ErrRestoring)
		}
		letGo()
		var after *txn.View[state.KeyValue[string, int64]]
		var n int64
		waitFor(t, "the task to be served", func() bool {
			n, after, err = count(t, app)
			if err != nil && !errors.Is(err, txn.ErrNotServing) {
				t.Fatal(err)
			}
			return err == nil
		})
		defer after.Close()
		if n != 10 || after.Round() != round || after.Epoch() == epoch || after.WhyStale() != nil {
			t.Errorf("the next owner has count %d, round %s, epoch %s; the last one had 10, %s, %s", n, after.Round(), after.Epoch(), round, epoch)
		}
	})
}
