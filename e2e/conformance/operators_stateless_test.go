package conformance

import (
	"strconv"

	"github.com/onceward/onceward/topology"
)

type (
	maybeKey   = topology.Option[string]
	maybeValue = topology.Option[int64]
	inRecord   = topology.Record[maybeKey, maybeValue]
)

// operatorGroups and controlGroups are what the files of this package declare.
var (
	operatorGroups = []map[string]operator{
		statelessOperators, dynamicOperators, headerOperators, processorOperators, aggregationOperators, tableOperators, windowOperators,
		closingOperators, slidingOperators, cogroupOperators, suppressOperators, timeOperators, invalidTimeOperators, streamJoinOperators,
		foreignOperators, versionedOperators, partitionedOperators, patternOperators,
	}
	controlGroups = []map[string]control{
		statelessControls, headerControls, processorControls, tableControls, windowControls, countControls, closingControls,
		slidingControls, cogroupControls, suppressControls, invalidControls, streamJoinControls, foreignControls,
		versionedControls,
		partitionedControls, patternControls,
	}
)

// anything is a topic of keys and values that may be null.
func anything(name string) topology.TopicOf[maybeKey, maybeValue] {
	return topology.Topic(name, topology.Nullable(strCodec), topology.Nullable(longCodec))
}

func anyInput(b *topology.Builder, opts ...topology.SourceOption) topology.Stream[maybeKey, maybeValue] {
	return topology.From(b, anything("in"), opts...)
}

var outTopic = anything("out")

// statelessOperators are the operators without state. Null keys and values go through them.
var statelessOperators = map[string]operator{
	"map": {declare: func(b *topology.Builder) {
		topology.Map(anyInput(b), "map", func(r inRecord) (inRecord, error) {
			key, value := "none", r.Value.Or(-1)+1
			if k, ok := r.Key.Get(); ok {
				key = k + "x"
			}
			return topology.WithValue(topology.WithKey(r, topology.Some(key)), topology.Some(value)), nil
		}).Into(outTopic)
	}},
	"map-values": {declare: func(b *topology.Builder) {
		topology.MapValues(anyInput(b), "double", func(value maybeValue) (maybeValue, error) {
			if v, ok := value.Get(); ok {
				return topology.Some(2 * v), nil
			}
			return value, nil
		}).Into(outTopic)
	}},
	"flat-map": {declare: func(b *topology.Builder) {
		topology.FlatMap(anyInput(b), "copies", func(r inRecord, emit func(inRecord) error) error {
			for i := range max(r.Value.Or(1)%4, 0) {
				key := r.Key
				if k, ok := key.Get(); ok {
					key = topology.Some(k + strconv.FormatInt(i, 10))
				}
				if err := emit(topology.WithValue(topology.WithKey(r, key), topology.Some(i))); err != nil {
					return err
				}
			}
			return nil
		}).Into(outTopic)
	}},
	"filter": {declare: func(b *topology.Builder) { anyInput(b).Filter("even", even).Into(outTopic) }},
	"select-key": {declare: func(b *topology.Builder) {
		topology.SelectKey(anyInput(b), "by-group", func(r inRecord) (maybeKey, error) {
			if _, ok := r.Value.Get(); !ok {
				return topology.None[string](), nil
			}
			return topology.Some(groupName(r.Value)), nil
		}).Into(outTopic)
	}},
	"peek": {declare: func(b *topology.Builder) {
		anyInput(b).Peek("look", func(inRecord) error { return nil }).Into(outTopic)
	}},
	"merge": {caseTraits: caseTraits{topics: []string{"in", "other"}}, declare: func(b *topology.Builder) {
		anyInput(b).Merge("both", topology.From(b, anything("other"))).Into(outTopic)
	}},
	"split": {declare: func(b *topology.Builder) {
		split := anyInput(b).Split("split")
		split.Case("even", even).Into(anything("out-even"))
		split.Case("small", func(r inRecord) (bool, error) {
			v, ok := r.Value.Get()
			return ok && v < 10, nil
		}).Into(anything("out-small"))
		split.Otherwise("rest").Into(anything("out-rest"))
	}},
	"fan-out": {declare: func(b *topology.Builder) {
		s := anyInput(b)
		s.Filter("values", func(r inRecord) (bool, error) {
			_, ok := r.Value.Get()
			return ok, nil
		}).Into(anything("out-values"))
		s.Into(anything("out-all"))
	}},
	"repartition": {declare: func(b *topology.Builder) {
		moved := topology.SelectKey(anyInput(b), "by-group", func(r inRecord) (string, error) { return groupName(r.Value), nil })
		topology.MapValues(topology.RepartitionWith(moved, "moved", strCodec, topology.Nullable(longCodec)), "same",
			func(v maybeValue) (maybeValue, error) { return v, nil }).
			Into(topology.Topic("out", strCodec, topology.Nullable(longCodec)))
	}},
}

// The partitioners of partitionedOperators: a record has the first partition, or that of its key.
var (
	firstForEven = topology.PartitionBy("first-for-even", func(_ string, _ string, value int64, _ int32) int32 {
		if value%2 == 0 {
			return 0
		}
		return topology.ByKey
	})
	firstOfAll = topology.PartitionBy("first-of-all", func(string, string, maybeValue, int32) int32 { return 0 })
)

// counted counts what comes out of a repartition topic with a partitioner, and writes to a topic
// with another one.
func counted(b *topology.Builder, by topology.Partitioner[string, maybeValue]) {
	moved := topology.SelectKey(anyInput(b), "by-group", func(r inRecord) (string, error) { return groupName(r.Value), nil })
	apart := topology.RepartitionWith(moved, "moved", strCodec, topology.Nullable(longCodec), by)
	counts := topology.Count(apart.Copartitioned(), stored("count"))
	topology.MapValues(counts.Stream(), "present", func(v maybeValue) (int64, error) { return v.Or(0), nil }).
		Into(numbers("out").PartitionedBy(firstForEven))
}

// partitionedOperators have partitioners. The driver of Kafka Streams has one partition for each
// topic, so what is compared is what comes through, and that a partition is found.
var partitionedOperators = map[string]operator{
	"partitioned": {declare: func(b *topology.Builder) { counted(b, firstOfAll) }},
}

var partitionedControls = map[string]control{
	"a partitioner that chooses no partition for some": {"partitioned", func(b *topology.Builder) {
		counted(b, topology.PartitionBy("none-for-odd", func(_ string, _ string, value maybeValue, partitions int32) int32 {
			if value.Or(0)%2 == 0 {
				return 0
			}
			return partitions
		}))
	}},
}

func even(r inRecord) (bool, error) {
	v, ok := r.Value.Get()
	return ok && v%2 == 0, nil
}

// groupName returns the name of the group of a value.
func groupName(v maybeValue) string {
	if n, ok := v.Get(); ok {
		return "g" + strconv.FormatInt(n%3, 10)
	}
	return "none"
}

var statelessControls = map[string]control{
	"a filter that takes null for a value": {"filter", func(b *topology.Builder) {
		anyInput(b).Filter("even", func(r inRecord) (bool, error) { return r.Value.Or(0)%2 == 0, nil }).Into(outTopic)
	}},
	"copies in reverse": {"flat-map", func(b *topology.Builder) {
		topology.FlatMap(anyInput(b), "copies", func(r inRecord, emit func(inRecord) error) error {
			for i := r.Value.Or(1)%4 - 1; i >= 0; i-- {
				key := r.Key
				if k, ok := key.Get(); ok {
					key = topology.Some(k + strconv.FormatInt(i, 10))
				}
				if err := emit(topology.WithValue(topology.WithKey(r, key), topology.Some(i))); err != nil {
					return err
				}
			}
			return nil
		}).Into(outTopic)
	}},
}
