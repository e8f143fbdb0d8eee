package topology

import "github.com/onceward/onceward/state"

// Folded is a stream with the function that folds its records into an aggregate. [Cogroup] takes
// several, whose values may be of different types. It is made with [Fold].
type Folded[K, A any] struct {
	part func(initial func() A) part[K, A]
}

// Fold returns s with the function that folds its records into an aggregate, for [Cogroup]. fold
// gets the aggregate so far and returns the next one; it may change its argument, and may return
// [ErrRemove].
func Fold[K, V, A any](s Stream[K, V], fold func(sofar A, r Record[K, V]) (A, error)) Folded[K, A] {
	return Folded[K, A]{func(initial func() A) part[K, A] { return partOf(s, fold != nil, folding(initial, fold)) }}
}

// Cogroup returns a table of aggregates over several streams, each with its own function: one
// aggregate for each key, in one store. It is [Aggregate] with more than one stream. There is one
// node, named after the store, so the streams need no names, and their order does not matter.
//
// The streams are read by the same task: their topics need the same number of partitions, and the
// same partitioner. A task takes records in the order of their timestamps, as far as they have been
// fetched.
func Cogroup[K, A any, S TableRows[K, A]](
	streams []Folded[K, A], store Store[S], initial func() A, opts ...NodeOption,
) Table[K, A] {
	return aggregate(tableStoreOf[K, A](store), "Cogroup", opts, partsOf("Cogroup", streams, initial)...)
}

// CogroupWindows is [Cogroup] with one aggregate for each key and window, as [AggregateWindows]
// has. The windows have one clock: the largest timestamp of the records of all streams.
func CogroupWindows[K, A any](
	streams []Folded[K, A], w Windows, store Store[state.Window[K, A]], initial func() A, opts ...NodeOption,
) WindowedTable[K, A] {
	return aggregateWindows(w, store, "CogroupWindows", opts, partsOf("CogroupWindows", streams, initial)...)
}

// CogroupSessions is [Cogroup] with one aggregate for each session, as [AggregateSessions] has. A
// session may have records of several streams. The sessions have one clock, as the windows of
// [CogroupWindows] do.
func CogroupSessions[K, A any](
	streams []Folded[K, A], w SessionWindows, store Store[state.Session[K, A]], initial func() A,
	merge func(key K, a, b A) (A, error), opts ...NodeOption,
) SessionTable[K, A] {
	parts := partsOf("CogroupSessions", streams, initial)
	for i := range parts {
		parts[i].defined = parts[i].defined && merge != nil
	}
	return aggregateSessions(w, store, "CogroupSessions", opts, mergingSessions(initial, merge), parts...)
}

// partsOf returns the parts of an aggregation that begins with initial.
func partsOf[K, A any](declaring string, streams []Folded[K, A], initial func() A) []part[K, A] {
	if len(streams) == 0 {
		panic("topology: " + declaring + " has no stream; Fold makes what it takes")
	}
	parts := make([]part[K, A], len(streams))
	for i, s := range streams {
		if s.part == nil {
			panic("topology: " + declaring + " uses the zero Folded; Fold makes one")
		}
		parts[i] = s.part(initial)
	}
	return parts
}
