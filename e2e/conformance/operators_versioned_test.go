package conformance

import (
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// tableHistory is how long the history of a versioned table is, in milliseconds.
const tableHistory = windowSize + windowGrace

func versionsFor(name string, history int64) topology.Store[state.Versioned[string, int64]] {
	return topology.VersionedStore(name, strCodec, longCodec, ofMillis(history))
}

// versions is a store of versions of numbers.
func versions(name string) topology.Store[state.Versioned[string, int64]] {
	return versionsFor(name, tableHistory)
}

func versionedOf(b *topology.Builder, topic string) topology.Table[string, int64] {
	return topology.TableFrom(b, numbers(topic), versions(topic+"-table"))
}

// computedOf is a versioned table that is made of the one in the store.
func computedOf(b *topology.Builder, topic string) topology.Table[string, int64] {
	return computedFrom(versionedOf(b, topic))
}

func computedFrom[K any](t topology.Table[K, int64]) topology.Table[K, int64] {
	double := topology.MapTable(t, "double", func(_ K, v int64) (int64, error) { return 2 * v, nil })
	return double.Filter("no-thirds", func(_ K, v int64) (bool, error) { return v%3 != 0, nil })
}

// otherVersions is the other topic as a versioned table for streams whose keys may be null.
func otherVersions(b *topology.Builder, history int64) topology.Table[maybeKey, int64] {
	return topology.TableFrom(b, nullableKeys("other"), topology.VersionedStore("other-table", presentKey{}, longCodec, ofMillis(history)))
}

func sumOfBoth(_ maybeKey, l maybeValue, r int64) (int64, error) { return l.Or(0) + r, nil }

func sumOrThousand(_ maybeKey, l, r maybeValue) (int64, error) { return l.Or(0) + r.Or(1000), nil }

// graceJoin declares a join with a grace of the input and the other topic.
func graceJoin(grace, history int64) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		topology.JoinStreamTableWithGrace(anyInput(b), otherVersions(b, history), "join", ofMillis(grace), presentKey{}, presentValue{}, sumOfBoth).
			Into(nullableKeys("out"))
	}
}

func graceLeftJoin(grace int64) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		in := anyInput(b).Filter("keyed", func(r inRecord) (bool, error) {
			_, ok := r.Key.Get()
			return ok, nil
		})
		topology.LeftJoinStreamTableWithGrace(in, computedFrom(otherVersions(b, tableHistory)), "join", ofMillis(grace),
			presentKey{}, presentValue{}, sumOrThousand).Into(nullableKeys("out"))
	}
}

func sumTables(_ string, l, r int64) (int64, error) { return l + r, nil }

func groupedVersions(b *topology.Builder) topology.TableGroup[string, int64] {
	return topology.GroupTable(versionedOf(b, "in"), "moved", strCodec, longCodec, groupOf)
}

// versionedTopic and versionedTopics have no delete with the timestamp of the value that it
// deletes: Kafka Streams does not always keep such a delete, which operators_differences_test.go
// shows.
var (
	versionedTopic  = caseTraits{topics: []string{"in"}, deletesApart: true}
	versionedTopics = caseTraits{topics: twoTopics.topics, deletesApart: true}
)

// versionedOperators are those of versioned tables. An aggregate is not removed, because that is
// such a delete.
var versionedOperators = map[string]operator{
	"versioned-table": {caseTraits: versionedTopic, declare: func(b *topology.Builder) { versionedOf(b, "in").Into(numbers("out")) }},
	"versioned-to-table": {caseTraits: versionedTopic, declare: func(b *topology.Builder) {
		topology.ToTableWithDeletes(topology.From(b, keyed("in")), versions("in-table")).Into(numbers("out"))
	}},
	"versioned-computed": {caseTraits: versionedTopic, declare: func(b *topology.Builder) { computedOf(b, "in").Into(numbers("out")) }},
	"versioned-join": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.JoinTables(versionedOf(b, "in"), versionedOf(b, "other"), "join", sumTables).Into(numbers("out"))
	}},
	"versioned-left-join": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinTables(versionedOf(b, "in"), tableOf(b, "other"), "join", func(_ string, l int64, r maybeValue) (int64, error) {
			return l + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
	"versioned-outer-join": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.OuterJoinTables(tableOf(b, "in"), computedOf(b, "other"), "join", func(_ string, l, r maybeValue) (int64, error) {
			return l.Or(2000) + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
	"versioned-group": {caseTraits: versionedTopic, declare: func(b *topology.Builder) {
		topology.ReduceTable(groupedVersions(b), versions("reduce"), addToGroup, takeFromGroup).Into(numbers("out"))
	}},
	"versioned-aggregate": {declare: func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, numbers("in")), versions("aggregate"), hundred, addValue).Into(numbers("out"))
	}},
	"foreign-key-versioned": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.JoinForeignKey(versionedOf(b, "in"), versionedOf(b, "other"), "join", foreignLetter, thousands).Into(numbers("out"))
	}},
	"foreign-key-versioned-left": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		left := topology.MapTable(versionedOf(b, "in"), "double-in", func(_ string, v int64) (int64, error) { return 2 * v, nil }).
			Filter("no-thirds-in", func(_ string, v int64) (bool, error) { return v%3 != 0, nil })
		topology.LeftJoinForeignKey(left, computedOf(b, "other"), "join", foreignLetter, thousandsOrLess).Into(numbers("out"))
	}},
	"versioned-stream-join": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.JoinStreamTable(anyInput(b), otherVersions(b, tableHistory), "join", sumOfBoth).Into(nullableKeys("out"))
	}},
	"versioned-stream-left-join": {caseTraits: versionedTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinStreamTable(anyInput(b), computedFrom(otherVersions(b, tableHistory)), "join", sumOrThousand).Into(nullableKeys("out"))
	}},
	"versioned-stream-sum-join": {caseTraits: caseTraits{uncounted: true}, declare: func(b *topology.Builder) {
		s := topology.From(b, numbers("in"))
		sums := topology.Reduce(s, versions("sums"), addValue)
		topology.JoinStreamTable(s, sums, "join", func(_ string, l, sum int64) (int64, error) { return sum*1000 + l, nil }).Into(numbers("out"))
	}},
	"grace-join":            {caseTraits: versionedTopics, declare: graceJoin(windowGrace, tableHistory)},
	"grace-join-of-history": {caseTraits: versionedTopics, declare: graceJoin(tableHistory, tableHistory)},
	"grace-left-join":       {caseTraits: versionedTopics, declare: graceLeftJoin(windowGrace)},
}

var versionedControls = map[string]control{
	"a plain table for a versioned one in a join": {"versioned-join", func(b *topology.Builder) {
		topology.JoinTables(tableOf(b, "in"), versionedOf(b, "other"), "join", sumTables).Into(numbers("out"))
	}},
	"a plain table for a versioned one in a join by a foreign key": {"foreign-key-versioned", func(b *topology.Builder) {
		topology.JoinForeignKey(versionedOf(b, "in"), tableOf(b, "other"), "join", foreignLetter, thousands).Into(numbers("out"))
	}},
	"a plain table for a versioned one that is grouped": {"versioned-group", func(b *topology.Builder) {
		topology.ReduceTable(groupedTable(b), versions("reduce"), addToGroup, takeFromGroup).Into(numbers("out"))
	}},
	"a table as it is for one as of a time": {"versioned-stream-join", func(b *topology.Builder) {
		topology.JoinStreamTable(anyInput(b), otherTable(b), "join", sumOfBoth).Into(nullableKeys("out"))
	}},
	"a history that is a millisecond longer": {"versioned-table", func(b *topology.Builder) {
		topology.TableFrom(b, numbers("in"), versionsFor("in-table", tableHistory+1)).Into(numbers("out"))
	}},
	"a history that is a millisecond shorter": {"versioned-table", func(b *topology.Builder) {
		topology.TableFrom(b, numbers("in"), versionsFor("in-table", tableHistory-1)).Into(numbers("out"))
	}},
	"an aggregate in a plain store": {"versioned-aggregate", func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, numbers("in")), stored("aggregate"), hundred, addValue).Into(numbers("out"))
	}},
	"a history of an aggregate that is much shorter": {"versioned-aggregate", func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, numbers("in")), versionsFor("aggregate", 1), hundred, addValue).Into(numbers("out"))
	}},
	"a join without a grace for one with it": {"grace-join", func(b *topology.Builder) {
		topology.JoinStreamTable(anyInput(b), otherVersions(b, tableHistory), "join", sumOfBoth).Into(nullableKeys("out"))
	}},
	"a grace that is a millisecond longer":  {"grace-join", graceJoin(windowGrace+1, tableHistory)},
	"a grace that is a millisecond shorter": {"grace-left-join", graceLeftJoin(windowGrace - 1)},
	"an inner join with a grace for a left one": {"grace-left-join", func(b *topology.Builder) {
		topology.JoinStreamTableWithGrace(anyInput(b), computedFrom(otherVersions(b, tableHistory)), "join", ofMillis(windowGrace),
			presentKey{}, presentValue{}, sumOfBoth).Into(nullableKeys("out"))
	}},
}
