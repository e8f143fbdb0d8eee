package differential

import (
	"strconv"

	"github.com/onceward/onceward/topology"
)

type (
	maybeKey   = topology.Option[string]
	maybeValue = topology.Option[int64]
	in         = topology.Record[maybeKey, maybeValue]
)

// operatorGroups and controlGroups are what the files of this package declare.
var (
	operatorGroups = []map[string]operator{
		stateless, dynamic, headers, processors, aggregations, tables, windows, closings, times, invalid,
	}
	controlGroups = []map[string]control{
		statelessControls, headerControls, processorControls, tableControls, windowControls, countControls, closingControls,
		invalidControls,
	}
)

// anything is a topic of keys and values that may be null.
func anything(name string) topology.TopicOf[maybeKey, maybeValue] {
	return topology.Topic(name, topology.Nullable(strCodec), topology.Nullable(longCodec))
}

func source(b *topology.Builder, opts ...topology.SourceOption) topology.Stream[maybeKey, maybeValue] {
	return topology.From(b, anything("in"), opts...)
}

var out = anything("out")

// stateless are the operators without state. Null keys and values go through them.
var stateless = map[string]operator{
	"map": {declare: func(b *topology.Builder) {
		topology.Map(source(b), "map", func(r in) (in, error) {
			key, value := "none", r.Value.Or(-1)+1
			if k, ok := r.Key.Get(); ok {
				key = k + "x"
			}
			return topology.WithValue(topology.WithKey(r, topology.Some(key)), topology.Some(value)), nil
		}).Into(out)
	}},
	"map-values": {declare: func(b *topology.Builder) {
		topology.MapValues(source(b), "double", func(r in) (maybeValue, error) {
			if v, ok := r.Value.Get(); ok {
				return topology.Some(2 * v), nil
			}
			return r.Value, nil
		}).Into(out)
	}},
	"flat-map": {declare: func(b *topology.Builder) {
		topology.FlatMap(source(b), "copies", func(r in, emit func(in) error) error {
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
		}).Into(out)
	}},
	"filter": {declare: func(b *topology.Builder) { source(b).Filter("even", even).Into(out) }},
	"select-key": {declare: func(b *topology.Builder) {
		topology.SelectKey(source(b), "by-group", func(r in) (maybeKey, error) {
			if _, ok := r.Value.Get(); !ok {
				return topology.None[string](), nil
			}
			return topology.Some(group(r.Value)), nil
		}).Into(out)
	}},
	"peek": {declare: func(b *topology.Builder) { source(b).Peek("look", func(in) error { return nil }).Into(out) }},
	"merge": {traits: traits{topics: []string{"in", "other"}}, declare: func(b *topology.Builder) {
		source(b).Merge("both", topology.From(b, anything("other"))).Into(out)
	}},
	"split": {declare: func(b *topology.Builder) {
		split := source(b).Split("split")
		split.Case("even", even).Into(anything("out-even"))
		split.Case("small", func(r in) (bool, error) {
			v, ok := r.Value.Get()
			return ok && v < 10, nil
		}).Into(anything("out-small"))
		split.Otherwise("rest").Into(anything("out-rest"))
	}},
	"fan-out": {declare: func(b *topology.Builder) {
		s := source(b)
		s.Filter("values", func(r in) (bool, error) {
			_, ok := r.Value.Get()
			return ok, nil
		}).Into(anything("out-values"))
		s.Into(anything("out-all"))
	}},
	"repartition": {declare: func(b *topology.Builder) {
		moved := topology.SelectKey(source(b), "by-group", func(r in) (string, error) { return group(r.Value), nil })
		topology.MapValues(topology.Repartition(moved, "moved", strCodec, topology.Nullable(longCodec)), "same",
			func(r topology.Record[string, maybeValue]) (maybeValue, error) { return r.Value, nil }).
			Into(topology.Topic("out", strCodec, topology.Nullable(longCodec)))
	}},
}

func even(r in) (bool, error) {
	v, ok := r.Value.Get()
	return ok && v%2 == 0, nil
}

// group is the group of a value.
func group(v maybeValue) string {
	if n, ok := v.Get(); ok {
		return "g" + strconv.FormatInt(n%3, 10)
	}
	return "none"
}

var statelessControls = map[string]control{
	"a filter that takes null for a value": {"filter", func(b *topology.Builder) {
		source(b).Filter("even", func(r in) (bool, error) { return r.Value.Or(0)%2 == 0, nil }).Into(out)
	}},
	"copies in reverse": {"flat-map", func(b *topology.Builder) {
		topology.FlatMap(source(b), "copies", func(r in, emit func(in) error) error {
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
		}).Into(out)
	}},
}
