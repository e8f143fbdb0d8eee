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

// values are the records of the input that have a value. Windowed aggregations of Kafka Streams take null for a value as ours do, so
// those that would fail on it get none.
func values(b *topology.Builder) topology.Stream[string, int64] {
	present := topology.From(b, keyed("in")).Filter("present", func(r topology.Record[string, maybeValue]) (bool, error) {
		_, ok := r.Value.Get()
		return ok, nil
	})
	return topology.MapValues(present, "value", func(r topology.Record[string, maybeValue]) (int64, error) { return r.Value.Or(0), nil })
}

func reduceIn(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, int64] {
	return topology.ReduceWindows(values(b), w, windowStore("reduce"), sum)
}

func aggregateIn(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, int64] {
	return topology.AggregateWindows(values(b), w, windowStore("aggregate"), hundred,
		func(agg int64, r topology.Record[string, int64]) (int64, error) { return agg + r.Value, nil })
}

// graceless are windows that take no late records.
func graceless(w topology.Windows) topology.Windows { return w.Grace(0) }

// windows are the windowed aggregations, with an update for each record.
var windows = map[string]operator{
	"count-tumbling":          {declare: func(b *topology.Builder) { countIn(b, tumbling()).Into(windowedOut) }},
	"count-tumbling-no-grace": {declare: func(b *topology.Builder) { countIn(b, graceless(tumbling())).Into(windowedOut) }},
	"count-hopping":           {declare: func(b *topology.Builder) { countIn(b, hopping()).Into(windowedOut) }},
	"count-hopping-no-grace":  {declare: func(b *topology.Builder) { countIn(b, graceless(hopping())).Into(windowedOut) }},
	"reduce-tumbling":         {declare: func(b *topology.Builder) { reduceIn(b, tumbling()).Into(windowedOut) }},
	"reduce-hopping":          {declare: func(b *topology.Builder) { reduceIn(b, hopping()).Into(windowedOut) }},
	"aggregate-tumbling":      {declare: func(b *topology.Builder) { aggregateIn(b, tumbling()).Into(windowedOut) }},
	"aggregate-hopping":       {declare: func(b *topology.Builder) { aggregateIn(b, hopping()).Into(windowedOut) }},
}

var windowControls = map[string]control{
	"a grace that is longer": {"count-tumbling", func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, keyed("in")), topology.Tumbling(size*ms).Grace((grace+1)*ms),
			topology.WindowStore("count", strCodec, longCodec, (size+grace+1)*ms)).Into(windowedOut)
	}},
	"a grace where there is none": {"count-tumbling-no-grace", func(b *topology.Builder) {
		countIn(b, topology.Tumbling(size*ms).Grace(ms)).Into(windowedOut)
	}},
	"a grace where there is none, and the windows overlap": {"count-hopping-no-grace", func(b *topology.Builder) {
		countIn(b, topology.Hopping(size*ms, advance*ms).Grace(ms)).Into(windowedOut)
	}},
	"an advance that is longer": {"count-hopping", func(b *topology.Builder) {
		countIn(b, topology.Hopping(size*ms, (advance+1)*ms).Grace(grace*ms)).Into(windowedOut)
	}},
	"a reduction that begins with a hundred": {"reduce-tumbling", func(b *topology.Builder) {
		topology.AggregateWindows(values(b), tumbling(), windowStore("reduce"), hundred, sum).Into(windowedOut)
	}},
	"an aggregation that begins with its first value": {"aggregate-hopping", func(b *topology.Builder) {
		topology.ReduceWindows(values(b), hopping(), windowStore("aggregate"), sum).Into(windowedOut)
	}},
}

// countControls write what they should, and leave records out that nobody counts.
var countControls = map[string]control{
	"late records that nobody counts": {"count-tumbling", func(b *topology.Builder) {
		inTime := topology.From(b, keyed("in")).Filter("in-time", func(r topology.Record[string, maybeValue]) (bool, error) {
			end := r.Timestamp - r.Timestamp%size + size
			return end > r.StreamTime()-grace, nil
		})
		topology.CountWindows(inTime, tumbling(), windowStore("count")).Into(windowedOut)
	}},
	"records that are late for all windows, and not counted": {"count-hopping", func(b *topology.Builder) {
		inTime := topology.From(b, keyed("in")).Filter("in-time", func(r topology.Record[string, maybeValue]) (bool, error) {
			newest := r.Timestamp - r.Timestamp%advance
			return newest+size > r.StreamTime()-grace, nil
		})
		topology.CountWindows(inTime, hopping(), windowStore("count")).Into(windowedOut)
	}},
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
