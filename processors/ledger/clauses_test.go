package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/topology"
)

// TestClauses is requirement K3: the contract says what a ledger is, and by what the copies of a
// record are in the same window.
func TestClauses(t *testing.T) {
	windowed := func(w ledger.Windows, opts ...ledger.Option) func(*topology.Builder) {
		return func(b *topology.Builder) {
			ledger.PostWindowed(topology.From(b, entryTopic), "ledger", w, contribution, opts...)
		}
	}
	hopping := ledger.Windows{Size: time.Hour, Advance: 15 * time.Minute}
	for name, test := range map[string]struct {
		declare func(*topology.Builder)
		says    map[topology.Aspect]string
		not     string
	}{
		"plain": {
			func(b *topology.Builder) { routed(b) }, map[topology.Aspect]string{
				topology.KeyAssumption: "the key is the ledger", topology.IdempotencyKey: "the ledger and the contribution id",
				topology.OnDuplicate: "changes no balance; a second reversal", topology.OutOfOrder: "a correction or reversal comes after what it names",
				topology.OnReplay: "what was posted is a duplicate", topology.Retention: "without a limit",
			}, "window",
		},
		"comparing payloads": {
			func(b *topology.Builder) { routed(b, ledger.ComparePayload()) }, map[topology.Aspect]string{
				topology.IdempotencyKey: "or with another payload, it is a conflict, which goes to a stream of its own",
			}, "payloads are compared",
		},
		"comparing parts of payloads": {
			func(b *topology.Builder) { routed(b, ledger.PayloadWithout("note")) }, map[topology.Aspect]string{
				topology.IdempotencyKey: "or with another payload",
				topology.OnDuplicate:    `payloads are compared without the members "note" of their JSON object`,
			}, "window",
		},
		"tumbling": {
			windowed(ledger.Tumbling(time.Hour)), map[topology.Aspect]string{
				topology.KeyAssumption:  "(windows of 1h0m0s that follow each other): all its contributions have it, and copies have the same timestamp",
				topology.IdempotencyKey: "a key in a window, and the contribution id", topology.OnDuplicate: "is another contribution there",
				topology.OutOfOrder: "windows do not close", topology.OnReplay: "what was posted is a duplicate", topology.Retention: "of all windows",
			}, "in other windows fails",
		},
		"hopping, by event time": {
			windowed(hopping, ledger.EventTime(func(r entry) (int64, error) { return r.Timestamp, nil })), map[topology.Aspect]string{
				topology.KeyAssumption: "(windows of 1h0m0s that begin every 15m0s): all its contributions have it, and copies have the same event time",
				topology.OnDuplicate:   "a copy with a time that is in other windows fails", topology.OutOfOrder: "windows do not close",
			}, "another window",
		},
	} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		test.declare(b)
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		said, all := map[topology.Aspect]string{}, ""
		for _, c := range topo.Clauses() {
			said[c.Aspect] += c.Text + "\n"
			all += c.Text + "\n"
		}
		for aspect, text := range test.says {
			if !strings.Contains(said[aspect], text) {
				t.Errorf("%s: %s: the contract does not say %q:\n%s", name, aspect, text, said[aspect])
			}
		}
		if strings.Contains(all, test.not) {
			t.Errorf("%s: the contract says %q:\n%s", name, test.not, all)
		}
	}
}
