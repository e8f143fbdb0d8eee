package conformance

import "github.com/onceward/onceward/topology"

func limit() topology.Suppression { return topology.UntilTimeLimit(windowSize * ms) }

// suppress names the store as Kafka Streams does for a suppression that is named limit.
func suppress(t topology.Table[string, int64], until topology.Suppression) topology.Table[string, int64] {
	return t.Suppress("limit-store", strCodec, longCodec, until)
}

func suppressInput(b *topology.Builder, until topology.Suppression) topology.Table[string, int64] {
	return suppress(tableOf(b, "in"), until)
}

// suppressOperators are suppressions with a time limit. A bound for bytes is not compared, because
// what Kafka Streams counts is its memory.
var suppressOperators = map[string]operator{
	"suppress": operatorOf(func(b *topology.Builder) {
		suppress(topology.Count(topology.From(b, keyed("in")), stored("count")), limit()).Into(numbers("out"))
	}),
	"suppress-table":       operatorOf(func(b *topology.Builder) { suppressInput(b, limit()).Into(numbers("out")) }),
	"suppress-max-records": operatorOf(func(b *topology.Builder) { suppressInput(b, limit().MaxRecords(2)).Into(numbers("out")) }),
	"suppress-windowed": operatorOf(func(b *topology.Builder) {
		countIn(b, hopping()).Suppress("limit-store", topology.WindowedCodec(strCodec, windowSize*ms), longCodec, limit().MaxRecords(5)).
			Into(windowedOut)
	}),
	"suppress-join": {caseTraits: sessionTraits, declare: func(b *topology.Builder) {
		topology.LeftJoinTables(tableOf(b, "other"), suppressInput(b, limit()), "join", func(_ string, l int64, r maybeValue) (int64, error) {
			return l + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
}

var suppressControls = map[string]control{
	"a suppression with a limit that is longer": {"suppress", func(b *topology.Builder) {
		counts := topology.Count(topology.From(b, keyed("in")), stored("count"))
		suppress(counts, topology.UntilTimeLimit((windowSize+1)*ms)).Into(numbers("out"))
	}},
	"a suppression with a bound that is larger": {"suppress-max-records", func(b *topology.Builder) {
		suppressInput(b, limit().MaxRecords(3)).Into(numbers("out"))
	}},
	"a table that is not suppressed": {"suppress-table", func(b *topology.Builder) { tableOf(b, "in").Into(numbers("out")) }},
	"a join with what waits": {"suppress-join", func(b *topology.Builder) {
		topology.LeftJoinTables(tableOf(b, "other"), tableOf(b, "in"), "join", func(_ string, l int64, r maybeValue) (int64, error) {
			return l + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
}
