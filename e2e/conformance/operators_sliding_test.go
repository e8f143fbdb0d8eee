package conformance

import (
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

func sliding() topology.Windows { return topology.Sliding(windowSize * ms).Grace(windowGrace * ms) }

// slidingStore keeps windows for longer than needed, as that of the Java program does. So both know
// all windows before a record, and count it as late for the same ones.
func slidingStore(name string) topology.Store[state.Window[string, int64]] {
	return topology.WindowStore(name, strCodec, longCodec, time.Hour)
}

func countSliding(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, int64] {
	return topology.CountWindows(topology.From(b, keyed("in")), w, slidingStore("count"))
}

// reduceSliding shows the order in which values are added.
func reduceSliding(b *topology.Builder) topology.WindowedTable[string, int64] {
	return topology.ReduceWindows(topology.From(b, numbers("in")), sliding(), slidingStore("reduce"), twiceLess)
}

func twiceLess(sofar int64, r topology.Record[string, int64]) (int64, error) {
	return 2*sofar - r.Value, nil
}

// aggregateSliding removes some windows.
func aggregateSliding(b *topology.Builder) topology.WindowedTable[string, int64] {
	return topology.AggregateWindows(topology.From(b, numbers("in")), sliding(), slidingStore("aggregate"), hundred, removeSevenths)
}

// removeSevenths adds a value, and removes the aggregate if it is a multiple of seven then.
func removeSevenths(agg int64, r topology.Record[string, int64]) (int64, error) {
	if (agg+r.Value)%7 == 0 {
		return 0, topology.ErrRemove
	}
	return agg + r.Value, nil
}

// slidingOperators are the aggregations in sliding windows, with an update for each record and on
// close.
var slidingOperators = map[string]operator{
	"count-sliding":          {declare: func(b *topology.Builder) { countSliding(b, sliding()).Into(windowedOut) }},
	"count-sliding-no-grace": {declare: func(b *topology.Builder) { countSliding(b, graceless(sliding())).Into(windowedOut) }},
	"reduce-sliding":         {declare: func(b *topology.Builder) { reduceSliding(b).Into(windowedOut) }},
	"aggregate-sliding":      {declare: func(b *topology.Builder) { aggregateSliding(b).Into(windowedOut) }},
	"count-sliding-on-close": operatorOf(func(b *topology.Builder) { countSliding(b, sliding()).Closed().Into(windowedOut) }),
	"count-sliding-no-grace-on-close": operatorOf(func(b *topology.Builder) {
		countSliding(b, graceless(sliding())).Closed().Into(windowedOut)
	}),
	"reduce-sliding-on-close":    operatorOf(func(b *topology.Builder) { reduceSliding(b).Closed().Into(windowedOut) }),
	"aggregate-sliding-on-close": operatorOf(func(b *topology.Builder) { aggregateSliding(b).Closed().Into(windowedOut) }),
}

var slidingControls = map[string]control{
	"sliding windows that are longer": {"count-sliding", func(b *topology.Builder) {
		longer := topology.Sliding((windowSize + 1) * ms).Grace((windowGrace - 1) * ms)
		out := topology.Topic("out", topology.WindowedCodec(strCodec, longer.Size()), longCodec)
		topology.CountWindows(topology.From(b, keyed("in")), longer, slidingStore("count")).Into(out)
	}},
	"sliding windows with a grace that is longer": {"count-sliding-no-grace", func(b *topology.Builder) {
		countSliding(b, sliding().Grace(ms)).Into(windowedOut)
	}},
	"hopping windows for sliding ones": {"count-sliding", func(b *topology.Builder) {
		countSliding(b, topology.Hopping(windowSize*ms, ms).Grace(windowGrace*ms)).Into(windowedOut)
	}},
	"sliding windows that close later": {"count-sliding-on-close", func(b *topology.Builder) {
		countSliding(b, sliding().Grace((windowGrace+1)*ms)).Closed().Into(windowedOut)
	}},
	"a reduction of sliding windows that begins with a hundred": {"reduce-sliding", func(b *topology.Builder) {
		topology.AggregateWindows(topology.From(b, numbers("in")), sliding(), slidingStore("reduce"), hundred, twiceLess).Into(windowedOut)
	}},
}
