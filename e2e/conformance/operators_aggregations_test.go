package conformance

import (
	"strconv"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// numbers is a topic of keys and values that are never null: a null in it dies, where Kafka Streams
// drops it in the aggregation.
func numbers(name string) topology.TopicOf[string, int64] {
	return topology.Topic(name, strCodec, longCodec)
}

// keyed is a topic of keys that are never null, and values that may be.
func keyed(name string) topology.TopicOf[string, maybeValue] {
	return topology.Topic(name, strCodec, topology.Nullable(longCodec))
}

// stored is a store of numbers.
func stored(name string) topology.Store[state.Timestamped[string, int64]] {
	return topology.TimestampedStore(name, strCodec, longCodec)
}

func addValue(old int64, r topology.Record[string, int64]) (int64, error) { return old + r.Value, nil }

func hundred() int64 { return 100 }

// aggregationOperators are those of streams, without windows.
var aggregationOperators = map[string]operator{
	"count": {declare: func(b *topology.Builder) {
		topology.Count(topology.From(b, keyed("in")), stored("count")).Into(numbers("out"))
	}},
	"reduce": {declare: func(b *topology.Builder) {
		topology.Reduce(topology.From(b, numbers("in")), stored("reduce"), addValue).Into(numbers("out"))
	}},
	"aggregate": {declare: func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, numbers("in")), stored("aggregate"), hundred,
			func(agg int64, r topology.Record[string, int64]) (int64, error) {
				if (agg+r.Value)%7 == 0 {
					return 0, topology.ErrRemove
				}
				return agg + r.Value, nil
			}).Into(numbers("out"))
	}},
	// A value that is null has a group, and is not counted in it.
	"group-by-count": {declare: func(b *topology.Builder) {
		moved := topology.SelectKey(topology.From(b, anything("in")), "by-group", func(r inRecord) (string, error) { return groupName(r.Value), nil })
		topology.Count(topology.RepartitionWith(moved, "moved", strCodec, topology.Nullable(longCodec)), stored("count")).Into(numbers("out"))
	}},
}

func groupOf(_ string, v int64) (string, int64, error) {
	return "g" + strconv.FormatInt(v%3, 10), v, nil
}

func addToGroup(agg int64, _ string, v int64) (int64, error)    { return agg + v, nil }
func takeFromGroup(agg int64, _ string, v int64) (int64, error) { return agg - v, nil }

func tableOf(b *topology.Builder, topic string, opts ...topology.SourceOption) topology.Table[string, int64] {
	return topology.TableFrom(b, numbers(topic), stored(topic+"-table"), opts...)
}

// presentKey is the codec of a store for keys that may be null in a topic. A null key never comes
// to the store.
type presentKey struct{}

func (presentKey) Name() string { return strCodec.Name() }
func (presentKey) Append(dst []byte, key maybeKey) ([]byte, error) {
	return strCodec.Append(dst, key.Or(""))
}

func (presentKey) Decode(b []byte) (maybeKey, error) {
	key, err := strCodec.Decode(b)
	return topology.Some(key), err
}

// otherTable is the other topic as a table for streams whose keys may be null.
func otherTable(b *topology.Builder) topology.Table[maybeKey, int64] {
	return topology.TableFrom(b, nullableKeys("other"), topology.TimestampedStore("other-table", presentKey{}, longCodec))
}

// otherGlobal is the other topic as a global table.
func otherGlobal(b *topology.Builder) topology.GlobalTable[string, int64] {
	return topology.GlobalTableFrom(b, numbers("other"), stored("other-table"))
}

// rowOf chooses the row of a global table: none, that of the key, or that of "a".
func rowOf(r topology.Record[maybeKey, maybeValue]) (maybeKey, error) {
	switch v := r.Value.Or(0); {
	case v%5 == 0:
		return topology.None[string](), nil
	case v%2 == 0:
		return r.Key, nil
	default:
		return topology.Some("a"), nil
	}
}

// nullableKeys is a topic of keys that may be null.
func nullableKeys(name string) topology.TopicOf[maybeKey, int64] {
	return topology.Topic(name, topology.Nullable(strCodec), longCodec)
}

func groupedTable(b *topology.Builder) topology.TableGroup[string, int64] {
	return topology.GroupTable(tableOf(b, "in"), "moved", strCodec, longCodec, groupOf)
}

var twoTopics = caseTraits{topics: []string{"in", "other"}}

// tableOperators are the operators of tables.
var tableOperators = map[string]operator{
	"table": {declare: func(b *topology.Builder) { tableOf(b, "in").Into(numbers("out")) }},
	"to-table": {declare: func(b *topology.Builder) {
		topology.ToTableWithDeletes(topology.From(b, keyed("in")), stored("in-table")).Into(numbers("out"))
	}},
	"table-filter": {declare: func(b *topology.Builder) {
		tableOf(b, "in").Filter("even", func(_ string, v int64) (bool, error) { return v%2 == 0, nil }).Into(numbers("out"))
	}},
	"table-map": {declare: func(b *topology.Builder) {
		topology.MapTable(tableOf(b, "in"), "double", func(_ string, v int64) (int64, error) { return 2 * v, nil }).Into(numbers("out"))
	}},
	"table-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.JoinTables(tableOf(b, "in"), tableOf(b, "other"), "join", func(_ string, l, r int64) (int64, error) { return l + r, nil }).
			Into(numbers("out"))
	}},
	"table-left-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinTables(tableOf(b, "in"), tableOf(b, "other"), "join", func(_ string, l int64, r maybeValue) (int64, error) {
			return l + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
	"table-outer-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.OuterJoinTables(tableOf(b, "in"), tableOf(b, "other"), "join", func(_ string, l, r maybeValue) (int64, error) {
			return l.Or(2000) + r.Or(1000), nil
		}).Into(numbers("out"))
	}},
	"stream-table-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.JoinStreamTable(anyInput(b), otherTable(b), "join", func(_ maybeKey, l maybeValue, r int64) (int64, error) {
			return l.Or(0) + r, nil
		}).Into(nullableKeys("out"))
	}},
	"stream-table-left-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinStreamTable(anyInput(b), otherTable(b), "join", func(_ maybeKey, l, r maybeValue) (int64, error) {
			return l.Or(0) + r.Or(1000), nil
		}).Into(nullableKeys("out"))
	}},
	"global-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.JoinGlobalTable(anyInput(b), otherGlobal(b), "join", rowOf, func(_ maybeKey, l maybeValue, r int64) (int64, error) {
			return l.Or(0) + r, nil
		}).Into(nullableKeys("out"))
	}},
	"global-left-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinGlobalTable(anyInput(b), otherGlobal(b), "join", rowOf, func(_ maybeKey, l, r maybeValue) (int64, error) {
			return l.Or(0) + r.Or(1000), nil
		}).Into(nullableKeys("out"))
	}},
	// The stream meets the row that its own table has made. A record that both drop is dropped
	// twice there.
	"stream-own-table-join": {caseTraits: caseTraits{uncounted: true}, declare: func(b *topology.Builder) {
		s := topology.From(b, numbers("in"))
		topology.JoinStreamTable(s, topology.Reduce(s, stored("sums"), addValue), "join",
			func(_ string, l, total int64) (int64, error) { return total*1000 + l, nil }).Into(numbers("out"))
	}},
	"table-group-count": {declare: func(b *topology.Builder) {
		topology.CountTable(groupedTable(b), stored("count")).Into(numbers("out"))
	}},
	"table-group-reduce": {declare: func(b *topology.Builder) {
		topology.ReduceTable(groupedTable(b), stored("reduce"), addToGroup, takeFromGroup).Into(numbers("out"))
	}},
	"table-group-aggregate": {declare: func(b *topology.Builder) {
		topology.AggregateTable(groupedTable(b), stored("aggregate"), hundred, addToGroup, takeFromGroup).Into(numbers("out"))
	}},
	// A record that both aggregations drop is dropped twice there, and dies once here.
	"table-count-join": {caseTraits: caseTraits{uncounted: true}, declare: func(b *topology.Builder) {
		s := topology.From(b, numbers("in"))
		topology.JoinTables(topology.Reduce(s, stored("sums"), addValue), topology.Count(s, stored("counts")), "join",
			func(_ string, total, n int64) (int64, error) { return total*1000 + n, nil }).Into(numbers("out"))
	}},
}

var tableControls = map[string]control{
	"a group that forgets to subtract": {"table-group-reduce", func(b *topology.Builder) {
		topology.ReduceTable(groupedTable(b), stored("reduce"), addToGroup, func(agg int64, _ string, _ int64) (int64, error) { return agg, nil }).
			Into(numbers("out"))
	}},
	"an inner join for a left one": {"table-left-join", func(b *topology.Builder) {
		topology.JoinTables(tableOf(b, "in"), tableOf(b, "other"), "join", func(_ string, l, r int64) (int64, error) { return l + r, nil }).
			Into(numbers("out"))
	}},
	"an inner join for a left one of a global table": {"global-left-join", func(b *topology.Builder) {
		topology.JoinGlobalTable(anyInput(b), otherGlobal(b), "join", rowOf, func(_ maybeKey, l maybeValue, r int64) (int64, error) {
			return l.Or(0) + r, nil
		}).Into(nullableKeys("out"))
	}},
	"a global table that is joined by the key of the record": {"global-join", func(b *topology.Builder) {
		topology.JoinGlobalTable(anyInput(b), otherGlobal(b), "join",
			func(r topology.Record[maybeKey, maybeValue]) (maybeKey, error) { return r.Key, nil },
			func(_ maybeKey, l maybeValue, r int64) (int64, error) { return l.Or(0) + r, nil }).Into(nullableKeys("out"))
	}},
	"an inner join for a left one of a stream": {"stream-table-left-join", func(b *topology.Builder) {
		topology.JoinStreamTable(anyInput(b), otherTable(b), "join", func(_ maybeKey, l maybeValue, r int64) (int64, error) {
			return l.Or(0) + r, nil
		}).Into(nullableKeys("out"))
	}},
	"a stream for a table": {"table-filter", func(b *topology.Builder) {
		topology.From(b, numbers("in")).Filter("even", func(r topology.Record[string, int64]) (bool, error) { return r.Value%2 == 0, nil }).
			Into(numbers("out"))
	}},
}
