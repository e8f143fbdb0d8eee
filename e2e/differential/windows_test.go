package differential

import (
	"time"

	"github.com/onceward/onceward/topology"
)

const ms = time.Millisecond

func tumbling() topology.Windows { return topology.Tumbling(size * ms).Grace(grace * ms) }
func hopping() topology.Windows  { return topology.Hopping(size*ms, advance*ms).Grace(grace * ms) }

func windowStore(name string) topology.WindowStoreOf[string, int64] {
	return topology.WindowStore(name, strCodec, longCodec, (size+grace)*ms)
}

// windowedOut is where the results of windows go.
var windowedOut = topology.Topic("out", topology.WindowedCodec(strCodec, size*ms), longCodec)

func countIn(b *topology.Builder, w topology.Windows, opts ...topology.SourceOption) topology.WindowedTable[string, int64] {
	return topology.CountWindows(topology.From(b, keyed("in"), opts...), w, windowStore("count"))
}

// windows are the windowed aggregations.
var windows = map[string]operator{
	"count-tumbling": {declare: func(b *topology.Builder) { countIn(b, tumbling()).Into(windowedOut) }},
	"count-hopping":  {declare: func(b *topology.Builder) { countIn(b, hopping()).Into(windowedOut) }},
	"reduce-hopping": {declare: func(b *topology.Builder) {
		topology.ReduceWindows(topology.From(b, numbers("in")), hopping(), windowStore("reduce"), sum).Into(windowedOut)
	}},
	"aggregate-tumbling": {declare: func(b *topology.Builder) {
		topology.AggregateWindows(topology.From(b, numbers("in")), tumbling(), windowStore("aggregate"), hundred,
			func(agg int64, r topology.Record[string, int64]) (int64, error) { return agg + r.Value, nil }).Into(windowedOut)
	}},
	"count-tumbling-suppressed": {declare: func(b *topology.Builder) { countIn(b, tumbling()).Closed().Into(windowedOut) }},
	"count-hopping-suppressed":  {declare: func(b *topology.Builder) { countIn(b, hopping()).Closed().Into(windowedOut) }},
	"count-tumbling-on-close":   {declare: func(b *topology.Builder) { countIn(b, tumbling()).Closed().Into(windowedOut) }},
}

var windowControls = map[string]control{
	"a grace that is longer": {"count-tumbling", func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, keyed("in")), topology.Tumbling(size*ms).Grace((grace+1)*ms),
			topology.WindowStore("count", strCodec, longCodec, (size+grace+1)*ms)).Into(windowedOut)
	}},
	"an advance that is longer": {"count-hopping", func(b *topology.Builder) {
		countIn(b, topology.Hopping(size*ms, (advance+1)*ms).Grace(grace*ms)).Into(windowedOut)
	}},
	"updates for final results": {"count-tumbling-suppressed", func(b *topology.Builder) { countIn(b, tumbling()).Into(windowedOut) }},
}

// times are where the time of a record comes from.
var times = map[string]operator{
	"skip-invalid": {traits: traits{negative: true}, declare: func(b *topology.Builder) {
		source(b, topology.OnInvalidTimestamp(topology.SkipInvalid)).Into(out)
	}},
	"partition-time-for-invalid": {traits: traits{negative: true}, declare: func(b *topology.Builder) {
		source(b, topology.OnInvalidTimestamp(topology.StreamTimeForInvalid)).Into(out)
	}},
	"event-time": {traits: traits{valueTimes: true}, declare: func(b *topology.Builder) {
		countIn(b, tumbling(), topology.EventTime(func(r topology.Record[string, maybeValue]) (time.Time, error) {
			return time.UnixMilli(r.Value.Or(r.Timestamp)), nil
		})).Into(windowedOut)
	}},
}

// dynamic is the choice of a topic for each record.
var dynamic = map[string]operator{
	"dynamic": {declare: func(b *topology.Builder) {
		evens, odds := anything("out-even"), anything("out-odd")
		source(b).IntoOneOf("by-parity", func(r in) (topology.TopicOf[maybeKey, maybeValue], error) {
			if r.Value.Or(0)%2 == 0 {
				return evens, nil
			}
			return odds, nil
		}, []topology.TopicOf[maybeKey, maybeValue]{evens, odds})
	}},
}
