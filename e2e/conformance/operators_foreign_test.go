package conformance

import (
	"github.com/onceward/onceward/topology"
)

// foreignLetter makes a value name one of the four keys, or none.
func foreignLetter(_ string, v int64) (topology.Option[string], error) {
	i := (v%5 + 5) % 5
	if i == 4 {
		return topology.None[string](), nil
	}
	return topology.Some(string("abcd"[i])), nil
}

func thousands(_ string, l, r int64) (int64, error) { return l*1000 + r, nil }

func thousandsOrLess(_ string, l int64, r maybeValue) (int64, error) { return l*1000 + r.Or(999), nil }

// foreignOperators are the joins by a foreign key.
var foreignOperators = map[string]operator{
	"foreign-key-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.JoinForeignKey(tableOf(b, "in"), tableOf(b, "other"), "join", foreignLetter, thousands).Into(numbers("out"))
	}},
	"foreign-key-left-join": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.LeftJoinForeignKey(tableOf(b, "in"), tableOf(b, "other"), "join", foreignLetter, thousandsOrLess).Into(numbers("out"))
	}},
	"foreign-key-computed": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		left := topology.MapTable(tableOf(b, "in"), "double", func(_ string, v int64) (int64, error) { return 2 * v, nil })
		right := tableOf(b, "other").Filter("even", func(_ string, v int64) (bool, error) { return v%2 == 0, nil })
		topology.JoinForeignKey(left, right, "join", foreignLetter, thousands).Into(numbers("out"))
	}},
	// A record is a row of both sides. Some answers are late, and here a delete can come twice for
	// that.
	"foreign-key-own": {caseTraits: caseTraits{settled: true, uncounted: true}, declare: func(b *topology.Builder) {
		table := tableOf(b, "in")
		topology.JoinForeignKey(table, table, "join", foreignLetter, thousands).Into(numbers("out"))
	}},
}

var foreignControls = map[string]control{
	"an inner join for a left one by a foreign key": {"foreign-key-left-join", func(b *topology.Builder) {
		topology.JoinForeignKey(tableOf(b, "in"), tableOf(b, "other"), "join", foreignLetter, thousands).Into(numbers("out"))
	}},
	"a join by the key for one by a foreign key": {"foreign-key-join", func(b *topology.Builder) {
		topology.JoinForeignKey(tableOf(b, "in"), tableOf(b, "other"), "join",
			func(key string, _ int64) (topology.Option[string], error) { return topology.Some(key), nil }, thousands).Into(numbers("out"))
	}},
}
