package conformance

import (
	"time"

	"github.com/onceward/onceward/topology"
)

// invalidTimeOperators have state behind records with invalid timestamps. A record with a null key
// is left out, and its timestamp counts all the same.
var invalidTimeOperators = map[string]operator{
	"skip-invalid-count": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) { countOf(b, skipInvalid) }},
	"skip-invalid-count-tumbling": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) {
		countIn(b, tumbling(), topology.SkipNullKeys(), skipInvalid).Into(windowedOut)
	}},
	"skip-invalid-count-hopping-suppressed": {caseTraits: caseTraits{negative: true, headerless: true}, declare: func(b *topology.Builder) {
		countIn(b, hopping(), topology.SkipNullKeys(), skipInvalid).Closed().Into(windowedOut)
	}},
	"skip-invalid-table-join": {caseTraits: caseTraits{topics: twoTopics.topics, negative: true}, declare: func(b *topology.Builder) {
		joinOf(b, skipInvalid)
	}},
	"partition-time-count": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) { countOf(b, streamTimeForInvalid) }},
	"partition-time-count-tumbling": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) {
		countIn(b, tumbling(), topology.SkipNullKeys(), streamTimeForInvalid).Into(windowedOut)
	}},
	"partition-time-count-hopping-suppressed": {caseTraits: caseTraits{negative: true, headerless: true}, declare: func(b *topology.Builder) {
		countIn(b, hopping(), topology.SkipNullKeys(), streamTimeForInvalid).Closed().Into(windowedOut)
	}},
	// The time of a partition is that of its task where the task reads one topic, so that is what
	// can be compared.
	"partition-time-table": {caseTraits: caseTraits{negative: true}, declare: func(b *topology.Builder) {
		tableOf(b, "in", streamTimeForInvalid).Into(numbers("out"))
	}},
	"event-time-skip-invalid": {caseTraits: caseTraits{negative: true, valueTimes: true}, declare: func(b *topology.Builder) {
		countByValueTime(b, skipInvalid)
	}},
	"event-time-partition-time": {caseTraits: caseTraits{negative: true, valueTimes: true}, declare: func(b *topology.Builder) {
		countByValueTime(b, streamTimeForInvalid)
	}},
}

var (
	skipInvalid          = topology.OnInvalidTimestamp(topology.SkipInvalid)
	streamTimeForInvalid = topology.OnInvalidTimestamp(topology.StreamTimeForInvalid)
)

func countOf(b *topology.Builder, opts ...topology.SourceOption) {
	s := topology.From(b, keyed("in"), append(opts, topology.SkipNullKeys())...)
	topology.Count(s, stored("count")).Into(numbers("out"))
}

func joinOf(b *topology.Builder, opts ...topology.SourceOption) {
	topology.JoinTables(tableOf(b, "in", opts...), tableOf(b, "other", opts...), "join",
		func(_ string, l, r int64) (int64, error) { return l + r, nil }).Into(numbers("out"))
}

// countByValueTime counts in windows by the times that are the values. Null keys are left out
// behind the source, and not by it, because what a source leaves out it does not look into.
func countByValueTime(b *topology.Builder, opts ...topology.SourceOption) {
	times := topology.EventTime(func(r inRecord) (time.Time, error) { return time.UnixMilli(r.Value.Or(r.Timestamp)), nil })
	withKey := topology.FlatMap(anyInput(b, append(opts, times)...), "keyed",
		func(r inRecord, emit func(topology.Record[string, maybeValue]) error) error {
			if key, ok := r.Key.Get(); ok {
				return emit(topology.WithKey(r, key))
			}
			return nil
		})
	topology.CountWindows(withKey.Copartitioned(), tumbling(), windowStore("count")).Into(windowedOut)
}

var invalidControls = map[string]control{
	"partition time for a skip, counted": {"skip-invalid-count", func(b *topology.Builder) { countOf(b, streamTimeForInvalid) }},
	"partition time for a skip, joined":  {"skip-invalid-table-join", func(b *topology.Builder) { joinOf(b, streamTimeForInvalid) }},
	"partition time for a skip, in windows": {"skip-invalid-count-tumbling", func(b *topology.Builder) {
		countIn(b, tumbling(), topology.SkipNullKeys(), streamTimeForInvalid).Into(windowedOut)
	}},
	"a skip for partition time": {"partition-time-count-tumbling", func(b *topology.Builder) {
		countIn(b, tumbling(), topology.SkipNullKeys(), skipInvalid).Into(windowedOut)
	}},
	"a skip for partition time, of event times": {"event-time-partition-time", func(b *topology.Builder) { countByValueTime(b, skipInvalid) }},
	"partition time for a skip, of event times": {"event-time-skip-invalid", func(b *topology.Builder) {
		countByValueTime(b, streamTimeForInvalid)
	}},
}
