package transition_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestMachineGrows: a state that is added later is entered by aggregates that were there before.
func TestMachineGrows(t *testing.T) {
	d := newRouted(t, orders)
	send(d, place, pay)
	grown := transition.Machine[State]{Initial: orders.Initial, Next: maps.Clone(orders.Next)}
	grown.Next[Paid] = []State{Shipped, "refunded"}
	grown.Next["refunded"] = nil
	d2 := newRouted(t, grown)
	for k, v := range d.Rows("orders-aggregates", 0) {
		d2.SetRow("orders-aggregates", k, v)
	}
	send(d2, Ask{ID: "t3", From: Paid, To: "refunded"})
	if n := len(d2.Take("facts")); n != 1 {
		t.Errorf("there are %d facts", n)
	}
}

// TestVersionedIsStored: a guard that means another thing by the version does not open what was
// written before.
func TestVersionedIsStored(t *testing.T) {
	versioned := transition.Versioned()
	for name, c := range map[string]struct {
		before, after []transition.Option
		want          string
	}{
		"never":   {},
		"always":  {before: []transition.Option{versioned}, after: []transition.Option{versioned}},
		"added":   {after: []transition.Option{versioned}, want: "leave Versioned out, or give the guard another name"},
		"removed": {before: []transition.Option{versioned}, want: "declare Versioned, or give the guard another name"},
	} {
		t.Run(name, func(t *testing.T) {
			d, d2 := newRouted(t, orders, c.before...), newRouted(t, orders, c.after...)
			first := place
			if c.before != nil {
				first.Version = 7
			}
			send(d, first)
			for k, v := range d.Rows("orders-aggregates", 0) {
				d2.SetRow("orders-aggregates", k, v)
			}
			err := d2.Driver.Restart()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Restart returned %v, want %q", err, c.want)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	from := func(b *topology.Builder) topology.Stream[string, Ask] { return topology.From(b, askTopic) }
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		transition.Guard[string, Ask](from(b), "orders", orders, nil, nil)
		return processortest.Above()
	}, "an option is nil", "the function that reads the transition is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		transition.Guard(from(b), "orders", orders, read, transition.Key[string](nil))
		return processortest.Above()
	}, "Key: the codec is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		transition.Guard(from(b), "orders", orders, read, transition.Key(schemas.Int64()))
		return processortest.Above()
	}, "Key: the codec is not one for string")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		g := transition.Guard(from(b), "orders", orders, read)
		line := processortest.Above()
		g.Refused(7, transition.Stale)
		return line
	}, "Refused: refusal(7) is no refusal")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		transition.Guard(from(b), "orders", orders, read, transition.EmitRefused(transition.Stale, transition.Duplicate))
		return processortest.Above()
	}, "EmitRefused: duplicate is no refusal that fails; there are stale, illegal, missing-aggregate, out-of-order, corruption")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		g := transition.Guard(from(b), "orders", orders, read, transition.EmitRefused(transition.Stale, transition.Illegal))
		line := processortest.Above()
		g.Refused(transition.Stale, transition.OutOfOrder).Into(refusedTopic)
		return line
	}, "Refused is used for out-of-order, but such a transition fails; EmitRefused emits it instead\n"+
		"nothing uses Refused for illegal: EmitRefused emits such transitions, and they would be lost")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		transition.Guard(from(b), "orders", transition.Machine[State]{}, read)
		return processortest.Above()
	}, "the machine has 0 states; it takes 1 to 255\nthe machine has no initial state")
}
