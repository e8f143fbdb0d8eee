package conformance

import (
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const ms = time.Millisecond

func tumbling() topology.Windows { return topology.Tumbling(windowSize * ms).Grace(windowGrace * ms) }
func hopping() topology.Windows {
	return topology.Hopping(windowSize*ms, windowAdvance*ms).Grace(windowGrace * ms)
}

func windowStore(name string) topology.Store[state.Window[string, int64]] {
	return topology.WindowStore(name, strCodec, longCodec, (windowSize+windowGrace)*ms)
}

// windowedOut is where the results of windows go.
var windowedOut = topology.Topic("out", topology.WindowedCodec(strCodec, windowSize*ms), longCodec)

func countIn(b *topology.Builder, w topology.Windows, opts ...topology.SourceOption) topology.WindowedTable[string, int64] {
	return topology.CountWindows(topology.From(b, keyed("in"), opts...), w, windowStore("count"))
}

// inputValues are the records of the input that have a value. Windowed aggregations of Kafka
// Streams take null for a value as ours do, so those that would fail on it get none.
func inputValues(b *topology.Builder) topology.Stream[string, int64] { return valuesOf(b, "in", "") }

// valuesOf are the records of a topic that have a value. The nodes are named with the prefix.
func valuesOf(b *topology.Builder, topic, prefix string) topology.Stream[string, int64] {
	present := topology.From(b, keyed(topic)).Filter(prefix+"present", func(r topology.Record[string, maybeValue]) (bool, error) {
		_, ok := r.Value.Get()
		return ok, nil
	})
	return topology.MapValues(present, prefix+"value", func(v maybeValue) (int64, error) { return v.Or(0), nil })
}

func reduceIn(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, int64] {
	return topology.ReduceWindows(inputValues(b), w, windowStore("reduce"), addValue)
}

func aggregateIn(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, int64] {
	return topology.AggregateWindows(inputValues(b), w, windowStore("aggregate"), hundred,
		func(agg int64, r topology.Record[string, int64]) (int64, error) { return agg + r.Value, nil })
}

// graceless are windows that take no late records.
func graceless(w topology.Windows) topology.Windows { return w.Grace(0) }

// windowOperators are the windowed aggregations, with an update for each record.
var windowOperators = map[string]operator{
	"count-tumbling":          {declare: func(b *topology.Builder) { countIn(b, tumbling()).Into(windowedOut) }},
	"count-tumbling-no-grace": {declare: func(b *topology.Builder) { countIn(b, graceless(tumbling())).Into(windowedOut) }},
	"count-hopping":           {declare: func(b *topology.Builder) { countIn(b, hopping()).Into(windowedOut) }},
	"count-hopping-no-grace":  {declare: func(b *topology.Builder) { countIn(b, graceless(hopping())).Into(windowedOut) }},
	"reduce-tumbling":         {declare: func(b *topology.Builder) { reduceIn(b, tumbling()).Into(windowedOut) }},
	"reduce-hopping":          {declare: func(b *topology.Builder) { reduceIn(b, hopping()).Into(windowedOut) }},
	"aggregate-tumbling":      {declare: func(b *topology.Builder) { aggregateIn(b, tumbling()).Into(windowedOut) }},
	"aggregate-hopping":       {declare: func(b *topology.Builder) { aggregateIn(b, hopping()).Into(windowedOut) }},
	"count-sessions": {caseTraits: caseTraits{headerless: true}, declare: func(b *topology.Builder) {
		topology.CountSessions(topology.From(b, keyed("in")), visits(), visitStore("count")).Into(sessionsOut)
	}},
	"count-sessions-no-grace": {caseTraits: caseTraits{headerless: true}, declare: func(b *topology.Builder) {
		topology.CountSessions(topology.From(b, keyed("in")), visits().Grace(0), visitStore("count")).Into(sessionsOut)
	}},
	"reduce-sessions": {caseTraits: caseTraits{headerless: true}, declare: func(b *topology.Builder) {
		topology.ReduceSessions(inputValues(b), visits(), visitStore("reduce"), subtract).Into(sessionsOut)
	}},
	"aggregate-sessions": {caseTraits: caseTraits{headerless: true}, declare: func(b *topology.Builder) {
		topology.AggregateSessions(inputValues(b), visits(), visitStore("aggregate"), hundred,
			func(agg int64, r topology.Record[string, int64]) (int64, error) { return agg + r.Value, nil },
			func(_ string, a, b int64) (int64, error) { return subtract(a, b) }).Into(sessionsOut)
	}},
}

// visits are sessions. Their gap is the size of the windows.
func visits() topology.SessionWindows {
	return topology.Sessions(windowSize * ms).Grace(windowGrace * ms)
}

func visitStore(name string) topology.Store[state.Session[string, int64]] {
	return topology.SessionStore(name, strCodec, longCodec, visits().Retention())
}

var sessionsOut = topology.Topic("out", topology.SessionCodec(strCodec), longCodec)

// subtract shows the order in which sessions are merged.
func subtract(a, b int64) (int64, error) { return a - b, nil }

var windowControls = map[string]control{
	"sessions with a gap that is longer": {"count-sessions", func(b *topology.Builder) {
		longer := topology.Sessions((windowSize + 1) * ms).Grace((windowGrace - 1) * ms)
		topology.CountSessions(topology.From(b, keyed("in")), longer, visitStore("count")).Into(sessionsOut)
	}},
	"sessions with a grace that is longer": {"count-sessions-no-grace", func(b *topology.Builder) {
		topology.CountSessions(topology.From(b, keyed("in")), visits().Grace(ms), visitStore("count")).Into(sessionsOut)
	}},
	"sessions that are merged without the first value": {"aggregate-sessions", func(b *topology.Builder) {
		topology.ReduceSessions(inputValues(b), visits(), visitStore("aggregate"), subtract).Into(sessionsOut)
	}},
	"a grace that is longer": {"count-tumbling", func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, keyed("in")), topology.Tumbling(windowSize*ms).Grace((windowGrace+1)*ms),
			topology.WindowStore("count", strCodec, longCodec, (windowSize+windowGrace+1)*ms)).Into(windowedOut)
	}},
	"a grace where there is none": {"count-tumbling-no-grace", func(b *topology.Builder) {
		countIn(b, topology.Tumbling(windowSize*ms).Grace(ms)).Into(windowedOut)
	}},
	"a grace where there is none, and the windows overlap": {"count-hopping-no-grace", func(b *topology.Builder) {
		countIn(b, topology.Hopping(windowSize*ms, windowAdvance*ms).Grace(ms)).Into(windowedOut)
	}},
	"an advance that is longer": {"count-hopping", func(b *topology.Builder) {
		countIn(b, topology.Hopping(windowSize*ms, (windowAdvance+1)*ms).Grace(windowGrace*ms)).Into(windowedOut)
	}},
	"a reduction that begins with a hundred": {"reduce-tumbling", func(b *topology.Builder) {
		topology.AggregateWindows(inputValues(b), tumbling(), windowStore("reduce"), hundred, addValue).Into(windowedOut)
	}},
	"an aggregation that begins with its first value": {"aggregate-hopping", func(b *topology.Builder) {
		topology.ReduceWindows(inputValues(b), hopping(), windowStore("aggregate"), addValue).Into(windowedOut)
	}},
}

// countControls write what they should, and leave out records without counting them.
var countControls = map[string]control{
	"late records that are not counted": {"count-tumbling", func(b *topology.Builder) {
		inTime := topology.From(b, keyed("in")).Filter("in-time", func(r topology.Record[string, maybeValue]) (bool, error) {
			end := r.Timestamp - r.Timestamp%windowSize + windowSize
			return end > r.StreamTime()-windowGrace, nil
		})
		topology.CountWindows(inTime, tumbling(), windowStore("count")).Into(windowedOut)
	}},
	"records that are late for all windows, and not counted": {"count-hopping", func(b *topology.Builder) {
		inTime := topology.From(b, keyed("in")).Filter("in-time", func(r topology.Record[string, maybeValue]) (bool, error) {
			newest := r.Timestamp - r.Timestamp%windowAdvance
			return newest+windowSize > r.StreamTime()-windowGrace, nil
		})
		topology.CountWindows(inTime, hopping(), windowStore("count")).Into(windowedOut)
	}},
}

// timeOperators are where the time of a record comes from.
var timeOperators = map[string]operator{
	"skip-invalid": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) {
		anyInput(b, topology.OnInvalidTimestamp(topology.SkipInvalid)).Into(outTopic)
	}},
	"partition-time-for-invalid": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) {
		anyInput(b, topology.OnInvalidTimestamp(topology.StreamTimeForInvalid)).Into(outTopic)
	}},
	"event-time": {caseTraits: caseTraits{valueTimes: true}, declare: func(b *topology.Builder) {
		countIn(b, tumbling(), topology.EventTime(func(r topology.Record[string, maybeValue]) (time.Time, error) {
			return time.UnixMilli(r.Value.Or(r.Timestamp)), nil
		})).Into(windowedOut)
	}},
}

// dynamicOperators is the choice of a topic for each record.
var dynamicOperators = map[string]operator{
	"dynamic": {declare: func(b *topology.Builder) {
		evens, odds := anything("out-even"), anything("out-odd")
		anyInput(b).IntoOneOf("by-parity", func(r inRecord) (topology.TopicOf[maybeKey, maybeValue], error) {
			if r.Value.Or(0)%2 == 0 {
				return evens, nil
			}
			return odds, nil
		}, []topology.TopicOf[maybeKey, maybeValue]{evens, odds})
	}},
}
