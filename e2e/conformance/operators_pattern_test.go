package conformance

import (
	"github.com/onceward/onceward/topology"
)

// countPattern counts the records of two topics that a pattern matches.
func countPattern(b *topology.Builder, step func(s topology.Stream[maybeKey, maybeValue]) topology.Stream[maybeKey, maybeValue]) {
	s := topology.FromPattern(b, "inputs", `in-.*`, topology.Nullable(strCodec), topology.Nullable(longCodec))
	grouped := topology.SelectKey(step(s), "by-group", func(r inRecord) (string, error) { return groupName(r.Value), nil })
	moved := topology.RepartitionWith(grouped, "moved", strCodec, topology.Nullable(longCodec), topology.Partitions(1))
	topology.Count(moved, stored("count")).Into(numbers("out"))
}

// patternOperators read topics by pattern.
var patternOperators = map[string]operator{
	"pattern": {caseTraits: caseTraits{topics: []string{"in-one", "in-two"}}, declare: func(b *topology.Builder) {
		countPattern(b, func(s topology.Stream[maybeKey, maybeValue]) topology.Stream[maybeKey, maybeValue] { return s })
	}},
}

var patternControls = map[string]control{
	"a topic of the pattern is left out": {"pattern", func(b *topology.Builder) {
		countPattern(b, func(s topology.Stream[maybeKey, maybeValue]) topology.Stream[maybeKey, maybeValue] {
			return s.Filter("one", func(r inRecord) (bool, error) {
				topic, _, _ := r.Source()
				return topic != "in-two", nil
			})
		})
	}},
}
