package conformance

import (
	"time"

	"github.com/onceward/onceward/topology"
)

// presentValue is the codec of a store for values that may be null in a topic. A null value never
// comes to the store.
type presentValue struct{}

func (presentValue) Name() string { return longCodec.Name() }
func (presentValue) Append(dst []byte, v maybeValue) ([]byte, error) {
	return longCodec.Append(dst, v.Or(0))
}

func (presentValue) Decode(b []byte) (maybeValue, error) {
	v, err := longCodec.Decode(b)
	return topology.Some(v), err
}

// maybeSide is a side of an outer join.
type maybeSide = topology.Option[maybeValue]

// both shows both values and their sides.
func both(l, r int64) (int64, error) { return l*10000 + r, nil }

func near(before, after, grace int64) topology.JoinWindows {
	return topology.Within(0).Before(ofMillis(before)).After(ofMillis(after)).Grace(ofMillis(grace))
}

func ofMillis(n int64) time.Duration { return time.Duration(n) * ms }

// joinedStreams are the ways to join two streams.
var joinedStreams = map[string]func(left, right topology.Stream[maybeKey, maybeValue], w topology.JoinWindows) topology.Stream[maybeKey, int64]{
	"": func(left, right topology.Stream[maybeKey, maybeValue], w topology.JoinWindows) topology.Stream[maybeKey, int64] {
		return topology.JoinStreams(left, right, "join", w, presentKey{}, presentValue{}, presentValue{},
			func(_ maybeKey, l, r maybeValue) (int64, error) { return both(l.Or(0), r.Or(0)) })
	},
	"left-": func(left, right topology.Stream[maybeKey, maybeValue], w topology.JoinWindows) topology.Stream[maybeKey, int64] {
		return topology.LeftJoinStreams(left, right, "join", w, presentKey{}, presentValue{}, presentValue{},
			func(_ maybeKey, l maybeValue, r maybeSide) (int64, error) {
				return both(l.Or(0), r.Or(topology.Some[int64](1000)).Or(0))
			})
	},
	"outer-": func(left, right topology.Stream[maybeKey, maybeValue], w topology.JoinWindows) topology.Stream[maybeKey, int64] {
		return topology.OuterJoinStreams(left, right, "join", w, presentKey{}, presentValue{}, presentValue{},
			func(_ maybeKey, l, r maybeSide) (int64, error) {
				return both(l.Or(topology.Some[int64](2000)).Or(0), r.Or(topology.Some[int64](1000)).Or(0))
			})
	},
}

// declareJoin declares the join of the two topics of that kind.
func declareJoin(kind string, w topology.JoinWindows) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		joinedStreams[kind](anyInput(b), topology.From(b, anything("other")), w).Into(nullableKeys("out"))
	}
}

// streamJoinOperators are the joins of two streams. A null that an outer join leaves out moves the
// time there, and not here, which operators_differences_test.go shows: it is not ahead of the
// others in these cases.
var streamJoinOperators = func() map[string]operator {
	all := map[string]operator{
		"skip-invalid-stream-join": {caseTraits: caseTraits{topics: twoTopics.topics, negative: true}, declare: func(b *topology.Builder) {
			joinedStreams[""](anyInput(b, skipInvalid), topology.From(b, anything("other"), skipInvalid), near(windowSize, windowSize, windowGrace)).
				Into(nullableKeys("out"))
		}},
	}
	for name, w := range map[string]topology.JoinWindows{
		"":                  near(windowSize, windowSize, windowGrace),
		"-no-grace":         near(windowSize, windowSize, 0),
		"-before-and-after": near(windowSize, windowAdvance, windowGrace),
		"-after-and-before": near(windowAdvance, windowSize, windowGrace),
		"-after-only":       near(0, windowSize, windowGrace),
		"-same-time":        near(0, 0, 0),
	} {
		for kind, join := range joinedStreams {
			outer := kind != ""
			all["stream-"+kind+"join"+name] = operator{
				caseTraits: caseTraits{topics: twoTopics.topics, headerless: outer, nullsBehind: outer}, declare: declareJoin(kind, w),
			}
			if kind == "left-" {
				continue
			}
			all["stream-"+kind+"self-join"+name] = operator{
				caseTraits: caseTraits{headerless: outer, nullsBehind: outer}, declare: func(b *topology.Builder) {
					s := anyInput(b)
					join(s, s, w).Into(nullableKeys("out"))
				},
			}
		}
	}
	return all
}()

var streamJoinControls = map[string]control{
	"an inner join for a left one of streams": {"stream-left-join", declareJoin("", near(windowSize, windowSize, windowGrace))},
	"an outer join for a left one of streams": {"stream-left-join", declareJoin("outer-", near(windowSize, windowSize, windowGrace))},
	"a join that is a millisecond wider":      {"stream-join", declareJoin("", near(windowSize+1, windowSize, windowGrace-1))},
	"a join that is a millisecond narrower":   {"stream-join-before-and-after", declareJoin("", near(windowSize, windowAdvance-1, windowGrace+1))},
	"a join with a longer grace":              {"stream-left-join", declareJoin("left-", near(windowSize, windowSize, windowGrace+1))},
	"a join with a grace where there is none": {"stream-outer-join-no-grace", declareJoin("outer-", near(windowSize, windowSize, 1))},
	"a join whose limits are exchanged":       {"stream-outer-join-after-and-before", declareJoin("outer-", near(windowSize, windowAdvance, windowGrace))},
	"streams that are exchanged": {"stream-join", func(b *topology.Builder) {
		joinedStreams[""](topology.From(b, anything("other")), anyInput(b), near(windowSize, windowSize, windowGrace)).Into(nullableKeys("out"))
	}},
}
