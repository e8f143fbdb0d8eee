package conformance

import "github.com/onceward/onceward/topology"

// closingOperators are windowed aggregations that emit once, when a window closes. Kafka Streams
// has two ways to that: it suppresses the updates behind the aggregation, or has the aggregation
// look into its store for what is over (on close). Ours is one way. They differ in the headers,
// which differences_test.go shows.
var closingOperators = map[string]operator{
	"count-tumbling-suppressed":          closedCount(tumbling()),
	"count-tumbling-on-close":            closedCount(tumbling()),
	"count-tumbling-no-grace-suppressed": closedCount(graceless(tumbling())),
	"count-tumbling-no-grace-on-close":   closedCount(graceless(tumbling())),
	"count-hopping-suppressed":           closedCount(hopping()),
	"count-hopping-on-close":             closedCount(hopping()),
	"count-hopping-no-grace-on-close":    closedCount(graceless(hopping())),
	"reduce-tumbling-suppressed":         closedReduce(tumbling()),
	"reduce-tumbling-on-close":           closedReduce(tumbling()),
	"reduce-hopping-suppressed":          closedReduce(hopping()),
	"reduce-hopping-on-close":            closedReduce(hopping()),
	"aggregate-tumbling-suppressed":      closedAggregate(tumbling()),
	"aggregate-tumbling-on-close":        closedAggregate(tumbling()),
	"aggregate-hopping-suppressed":       closedAggregate(hopping()),
	"aggregate-hopping-on-close":         closedAggregate(hopping()),
}

func operatorOf(declare func(b *topology.Builder)) operator {
	return operator{caseTraits: caseTraits{headerless: true}, declare: declare}
}

func closedCount(w topology.Windows) operator {
	return operatorOf(func(b *topology.Builder) { countIn(b, w).Closed().Into(windowedOut) })
}

func closedReduce(w topology.Windows) operator {
	return operatorOf(func(b *topology.Builder) { reduceIn(b, w).Closed().Into(windowedOut) })
}

func closedAggregate(w topology.Windows) operator {
	return operatorOf(func(b *topology.Builder) { aggregateIn(b, w).Closed().Into(windowedOut) })
}

var closingControls = map[string]control{
	"updates for final results": {"count-tumbling-suppressed", func(b *topology.Builder) { countIn(b, tumbling()).Into(windowedOut) }},
	"windows that close later":  {"count-tumbling-on-close", closedLater(topology.Tumbling(windowSize * ms))},
	"hopping windows that close later": {
		"count-hopping-on-close", closedLater(topology.Hopping(windowSize*ms, windowAdvance*ms)),
	},
	"windows that close late without grace": {"count-tumbling-no-grace-on-close", closedCount(topology.Tumbling(windowSize * ms).Grace(ms)).declare},
	"an advance for the size":               {"reduce-hopping-on-close", closedReduce(tumbling()).declare},
	"a reduction for an aggregation": {"aggregate-hopping-on-close", func(b *topology.Builder) {
		topology.ReduceWindows(inputValues(b), hopping(), windowStore("aggregate"), addValue).Closed().Into(windowedOut)
	}},
}

// closedLater are counts in windows with a grace that is a millisecond longer.
func closedLater(w topology.Windows) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, keyed("in")), w.Grace((windowGrace+1)*ms),
			topology.WindowStore("count", strCodec, longCodec, (windowSize+windowGrace+1)*ms)).Closed().Into(windowedOut)
	}
}
