package conformance

import (
	"time"

	"github.com/onceward/onceward/topology"
)

// bothStreams are the two streams of a cogroup. A removal in one of them is seen by the other one.
func bothStreams(in, other topology.Stream[string, int64]) []topology.Folded[string, int64] {
	return []topology.Folded[string, int64]{topology.Fold(in, removeSevenths), topology.Fold(other, twiceLess)}
}

func inAndOther(b *topology.Builder) []topology.Folded[string, int64] {
	return bothStreams(topology.From(b, numbers("in")), topology.From(b, numbers("other")))
}

// inAndOtherValues leave nulls out before the node, which would take them for values.
func inAndOtherValues(b *topology.Builder) []topology.Folded[string, int64] {
	return bothStreams(inputValues(b), valuesOf(b, "other", "other-"))
}

// longGrace is longer than all cases. With less, the clocks differ: see [differences].
const longGrace = time.Hour

func cogroupTumbling(b *topology.Builder, grace time.Duration) topology.WindowedTable[string, int64] {
	w := topology.Tumbling(windowSize * ms).Grace(grace)
	return topology.CogroupWindows(inAndOtherValues(b), w, topology.WindowStore("cogroup", strCodec, longCodec, 2*time.Hour), hundred)
}

func cogroupIn(streams []topology.Folded[string, int64], w topology.Windows) {
	store := topology.WindowStore("cogroup", strCodec, longCodec, 2*time.Hour)
	topology.CogroupWindows(streams, w, store, hundred).Into(windowedOut)
}

var sessionTraits = caseTraits{topics: twoTopics.topics, headerless: true}

// cogroupOperators are aggregations of two streams.
var cogroupOperators = map[string]operator{
	"cogroup": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		topology.Cogroup(inAndOther(b), stored("cogroup"), hundred).Into(numbers("out"))
	}},
	"cogroup-of-three": {caseTraits: caseTraits{topics: []string{"in", "other", "third"}}, declare: func(b *topology.Builder) {
		lessThree := topology.Fold(topology.From(b, numbers("third")), func(agg int64, _ topology.Record[string, int64]) (int64, error) {
			return agg - 3, nil
		})
		topology.Cogroup(append(inAndOther(b), lessThree), stored("cogroup"), hundred).Into(numbers("out"))
	}},
	"cogroup-tumbling": {caseTraits: twoTopics, declare: func(b *topology.Builder) { cogroupTumbling(b, longGrace).Into(windowedOut) }},
	"cogroup-hopping": {caseTraits: twoTopics, declare: func(b *topology.Builder) {
		cogroupIn(inAndOtherValues(b), hopping().Grace(longGrace))
	}},
	"cogroup-sliding": {caseTraits: twoTopics, declare: func(b *topology.Builder) { cogroupIn(inAndOther(b), sliding().Grace(longGrace)) }},
	"cogroup-sessions": {caseTraits: sessionTraits, declare: func(b *topology.Builder) {
		store := topology.SessionStore("cogroup", strCodec, longCodec, 2*time.Hour)
		topology.CogroupSessions(inAndOtherValues(b), visits().Grace(longGrace), store, hundred,
			func(_ string, x, y int64) (int64, error) { return subtract(x, y) }).Into(sessionsOut)
	}},
}

var cogroupControls = map[string]control{
	"streams of a cogroup that are exchanged": {"cogroup", func(b *topology.Builder) {
		exchanged := bothStreams(topology.From(b, numbers("other")), topology.From(b, numbers("in")))
		topology.Cogroup(exchanged, stored("cogroup"), hundred).Into(numbers("out"))
	}},
	"a cogroup that begins with nothing": {"cogroup", func(b *topology.Builder) {
		topology.Cogroup(inAndOther(b), stored("cogroup"), nil).Into(numbers("out"))
	}},
	"one stream of two": {"cogroup-tumbling", func(b *topology.Builder) { cogroupIn(inAndOtherValues(b)[:1], tumbling().Grace(longGrace)) }},
	"tumbling windows for sliding ones": {"cogroup-sliding", func(b *topology.Builder) {
		cogroupIn(inAndOther(b), tumbling().Grace(longGrace))
	}},
}
