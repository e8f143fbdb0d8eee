package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// facts are contributions, adjustments and reversals that make sense in the order in which they
// are: what one of them names was posted before, and is reversed once at most.
func facts(t *rapid.T) []Entry {
	var all []Entry
	reversed := map[string]bool{}
	for i := range rapid.IntRange(1, 12).Draw(t, "facts") {
		e := Entry{ID: fmt.Sprint("c", i), Amounts: []int64{rapid.Int64Range(-1000, 1000).Draw(t, "amount")}}
		if i > 0 {
			named := all[rapid.IntRange(0, i-1).Draw(t, "named")].ID
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0:
				e.Corrects = named
			case kind == 1 && !reversed[named]:
				reversed[named] = true
				e = Entry{ID: e.ID, Reverses: named}
			}
		}
		all = append(all, e)
	}
	return all
}

// TestAnyOrderOfFacts: whatever the order in which facts come, how often, and what starts again in
// between, the ledger is that of the clean sequence once what came too early has been sent again.
func TestAnyOrderOfFacts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := facts(rt)
		clean := newBare(t)
		for _, e := range all {
			post(rt, clean, e)
		}
		indices := make([]int, len(all))
		for i := range indices {
			indices[i] = i
		}
		order := rapid.Permutation(indices).Draw(rt, "order")
		order = append(order, rapid.SliceOfN(rapid.SampledFrom(indices), 0, 10).Draw(rt, "again")...)
		var l ledger.Ledger[string, Entry]
		d := processortest.New(t, func(b *topology.Builder) {
			l = ledger.Post(topology.From(b, entryTopic), "ledger", contribution)
		})
		for _, i := range order {
			post(rt, d, all[i])
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				d.Restart()
			}
		}
		for range all { // in each turn what has come too early by one step less is posted
			for _, letter := range d.Take("dead") {
				if err := d.PipeRaw("entries", letter.Key, letter.Value, at0); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if dead := d.Take("dead"); len(dead) > 0 {
			rt.Fatalf("%d records are left", len(dead))
		}
		if got, want := content(d), content(clean); got != want {
			rt.Fatalf("%+v in the order %v gives %s, want %s", all, order, got, want)
		}
		if err := checkStores(d, l); err != nil {
			rt.Fatal(err)
		}
	})
}

// at0 gives all deliveries one timestamp, which is part of the rows.
var at0 = topologytest.At(time.UnixMilli(1_700_000_000_000))

func post(rt *rapid.T, d *processortest.Driver, e Entry) {
	if err := topologytest.Pipe(d.Driver, entryTopic, "k", e, at0); err != nil {
		rt.Fatal(err)
	}
}
