package txn_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

const keyDescribeTransactions = 65

// losesMarkers has the coordinator of a transactional id say that nothing is under way, as after a
// restart in which the markers of its last transaction were lost.
func (b *testBroker) losesMarkers(t *testing.T, id string) {
	t.Helper()
	described, err := b.adm.DescribeTransactions(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.ControlKey(keyDescribeTransactions, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.DescribeTransactionsRequest)
		if !slices.Equal(req.TransactionalIDs, []string{id}) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.State = id, "Empty"
		state.ProducerID, state.ProducerEpoch = described[id].ProducerID, described[id].ProducerEpoch+1
		resp.TransactionStates = append(resp.TransactionStates, state)
		return resp, nil, true
	})
}

// hides has coordinators list no transaction, as for a principal that may not describe the
// transactional ids.
func (b *testBroker) hides() {
	b.ControlKey(int16(kmsg.ListTransactions), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return kreq.ResponseKind(), nil, true
	})
}

// waitOf is the wait that a task has, as its status shows it.
func waitOf(app *txn.App) (w txn.WaitStatus, is bool) {
	for _, task := range app.Status().Tasks {
		for _, w := range task.Waits {
			return w, true
		}
	}
	return txn.WaitStatus{}, false
}

// TestWaitsAreReported: a task that waits for the end of a transaction says within a minute which
// producer it is, and whether it is ongoing, if that may be known. The log, the status, the metrics
// and /readyz say it, until the transaction has ended.
func TestWaitsAreReported(t *testing.T) {
	const offsets = "__consumer_offsets"
	tests := []struct {
		name, topic, message string
		kind                 string
		hanging, hidden      bool
	}{
		{"offsets", offsets, "the committed offsets are not stable, because a transaction is open", "offsets", false, false},
		{"offsets, hanging", offsets, "the committed offsets are not stable, because a transaction is open", "offsets", true, false},
		{"input", "in", "an input cannot be read on, because a transaction is open", "input", false, false},
		{"input, hanging", "in", "an input cannot be read on, because a transaction is open", "input", true, false},
		{"input, not named", "in", "an input cannot be read on, because a transaction is open", "input", false, true},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBrokers(t, 1, kfake.SeedTopics(1, "in", "out", offsets))
			holder, end := b.openTransaction(t, tc.topic)
			state := "ongoing"
			if tc.hanging {
				b.losesMarkers(t, "foreign")
				state, holder = "hanging", strings.Replace(holder, "(foreign is Ongoing)", "(hanging, foreign is Empty)", 1)
			}
			others := map[string]bool{"ongoing": true, "hanging": true, "unknown": true}
			if tc.hidden {
				b.hides()
				state, holder = "unknown", strings.Replace(holder, "(foreign is Ongoing)",
					"(no coordinator names it: it hangs, or its transactional id may not be described)", 1)
			}
			delete(others, state)
			stable := func() {}
			if tc.kind == "offsets" {
				stable = b.unstable(0, nil)
			}
			lines := newLogged(t, tc.message, "held_by")
			app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: slog.New(lines)}))
			waitFor(t, "the wait", func() bool { _, waits := waitOf(app); return waits })
			if w, _ := waitOf(app); w.HeldBy != "" || w.Hanging || len(lines.all()) > 0 {
				t.Errorf("before it is long the wait is %+v, reported as %q", w, lines.all())
			}
			time.Sleep(time.Minute)
			w, _ := waitOf(app)
			if w.For != tc.kind || w.Topic != tc.topic || w.Partition != 0 || w.HeldBy != holder || w.Hanging != tc.hanging {
				t.Errorf("the wait is %+v, want one for %s on %s[0] that is held by %s", w, tc.kind, tc.topic, holder)
			}
			if got := lines.all(); len(got) == 0 || got[0] != holder {
				t.Errorf("the reports are %q, want %q", got, holder)
			}
			want := series{`onceward_transaction_waits{holder="` + state + `",kind="` + tc.kind + `"}`: 1}
			for other := range others {
				want[`onceward_transaction_waits{holder="`+other+`",kind="`+tc.kind+`"}`] = 0
			}
			scrape(t, app).expect(t, want)
			status, body := get(app, "/readyz")
			if !strings.Contains(body, holder) || strings.Contains(body, "onceward transactions list") != tc.hanging {
				t.Errorf("/readyz answers %d %s, want it to name %q", status, body, holder)
			}
			if ready := status == http.StatusOK; ready != (tc.kind == "input") {
				t.Errorf("/readyz answers %d with a wait for %s", status, tc.kind)
			}
			stable()
			end()
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
			waitFor(t, "the wait to be over", func() bool { _, waits := waitOf(app); return !waits })
			b.read(t, "out", 1)
			if got := scrape(t, app).sum("onceward_transaction_waits"); got != 0 {
				t.Errorf("%g waits are left", got)
			}
		})
	}
}

// TestListingDoesNotWaitForLooks: brokers that do not say what holds an input do not keep the lag
// from being listed.
func TestListingDoesNotWaitForLooks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		_, end := b.openTransaction(t, "in")
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the wait", func() bool { _, waits := waitOf(app); return waits })
		away := b.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Err: kerr.NotLeaderForPartition, Count: -1})
		var listings, looks atomic.Int64
		count := func(key kmsg.Key, n *atomic.Int64) {
			b.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				n.Add(1)
				return nil, nil, false
			})
		}
		count(kmsg.ListOffsets, &listings)
		count(kmsg.DescribeProducers, &looks)
		waitFor(t, "a look", func() bool { return looks.Load() > 0 })
		before := listings.Load()
		time.Sleep(8 * time.Second) // less than a look takes
		if got := listings.Load() - before; got < 2 {
			t.Errorf("the ends were listed %d times while a partition was asked", got)
		}
		away.Remove()
		end()
	})
}
