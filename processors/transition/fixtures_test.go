package transition_test

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// State is a state of an order.
type State string

const (
	Placed    State = "placed"
	Paid      State = "paid"
	Shipped   State = "shipped"
	Cancelled State = "cancelled"
)

// Ask is what the tests send: a transition as it travels.
type Ask struct {
	ID      string `json:"id"`
	From    State  `json:"from"`
	To      State  `json:"to"`
	Version int64  `json:"version,omitempty"`
}

type (
	ask     = topology.Record[string, Ask]
	guarded = transition.Guarded[string, Ask, State]
	refused = transition.Refused[State, Ask]
	fact    = transition.Fact[State]
)

var (
	askTopic      = topology.Topic("asks", schemas.String(), schemas.JSON[Ask]())
	acceptedTopic = topology.Topic("accepted", schemas.String(), schemas.JSON[Ask]())
	factTopic     = topology.Topic("facts", schemas.String(), schemas.JSON[fact]())
	refusedTopic  = topology.Topic("refused", schemas.String(), schemas.JSON[refused]())
)

// orders is a machine without a cycle.
var orders = transition.Machine[State]{
	Initial: []State{Placed},
	Next: map[State][]State{
		Placed: {Paid, Cancelled}, Paid: {Shipped}, Shipped: nil, Cancelled: nil,
	},
}

// doors is a machine with one, and with a state that may follow itself.
var doors = transition.Machine[State]{
	Initial: []State{"open", "shut"},
	Next:    map[State][]State{"open": {"shut", "open"}, "shut": {"open", "locked"}, "locked": {"shut"}},
}

func read(r ask) (transition.Transition[State], error) {
	return transition.Transition[State](r.Value), nil
}

// routed declares a guard all of whose outcomes go to topics. A record with the header fail fails
// behind it.
func routed(b *topology.Builder, machine transition.Machine[State], opts ...transition.Option) guarded {
	return routedFrom(b, machine, read, opts...)
}

func routedFrom(
	b *topology.Builder, machine transition.Machine[State],
	read func(r ask) (transition.Transition[State], error), opts ...transition.Option,
) guarded {
	g := transition.Guard(topology.From(b, askTopic), "orders", machine, read, append([]transition.Option{transition.EmitRefused()}, opts...)...)
	g.Facts().Into(factTopic)
	g.Refused().Into(refusedTopic)
	g.Accepted().Into(acceptedTopic)
	g.Accepted().Peek("fragile", func(r ask) error {
		if _, ok := r.Header("fail"); ok {
			return schemas.Reason("asked to")
		}
		return nil
	})
	return g
}

func newRouted(tb testing.TB, machine transition.Machine[State], opts ...transition.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) { routed(b, machine, opts...) })
}

// newBare declares a guard that routes nothing.
func newBare(tb testing.TB, opts ...transition.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) {
		transition.Guard(topology.From(b, askTopic), "orders", orders, read, opts...)
	})
}

// send pipes transitions of the aggregate k.
func send(d *processortest.Driver, asks ...Ask) {
	for _, a := range asks {
		sendTo(d, "k", a)
	}
}

func sendTo(d *processortest.Driver, key string, a Ask, opts ...topologytest.PipeOption) {
	value := fmt.Sprintf(`{"id":%q,"from":%q,"to":%q,"version":%d}`, a.ID, a.From, a.To, a.Version)
	d.Pipe("asks", key, value, opts...)
}

// The steps of an order that goes well.
var (
	place = Ask{ID: "t1", To: Placed}
	pay   = Ask{ID: "t2", From: Placed, To: Paid}
	ship  = Ask{ID: "t3", From: Paid, To: Shipped}
)

// numbered returns a with a version.
func numbered(a Ask, version int64) Ask {
	a.Version = version
	return a
}
