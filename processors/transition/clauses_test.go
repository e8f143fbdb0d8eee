package transition_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/topology"
)

// TestClauses is requirement K3: the contract says what a guard is, and whether versions decide
// about the order.
func TestClauses(t *testing.T) {
	for _, opts := range [][]transition.Option{nil, {transition.Versioned()}} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, orders, opts...)
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		said := map[topology.Aspect]string{}
		for _, c := range topo.Clauses() {
			said[c.Aspect] += c.Text
		}
		for aspect, text := range map[topology.Aspect]string{
			topology.KeyAssumption: "the key is the aggregate", topology.IdempotencyKey: "the id of the transition within its aggregate",
			topology.OnDuplicate: "refused as corruption", topology.OutOfOrder: "refused transitions go to streams of their own",
			topology.OnReplay: "has no second fact", topology.Retention: "for ever",
		} {
			if !strings.Contains(said[aspect], text) {
				t.Errorf("%s: the contract does not say %q: %q", aspect, text, said[aspect])
			}
		}
		if strings.HasSuffix(said[topology.OutOfOrder], "; versions decide") != (opts != nil) {
			t.Errorf("with %d options it says %q of the order", len(opts), said[topology.OutOfOrder])
		}
	}
}
