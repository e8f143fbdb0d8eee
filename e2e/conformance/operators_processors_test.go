package conformance

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// processorOperators are nodes with code, a store and schedules of their own. Records with a null
// key end there.
var processorOperators = map[string]operator{
	"process":               {declare: func(b *topology.Builder) { pairs(b, remember) }},
	"process-values":        {declare: func(b *topology.Builder) { pairValues(b, true).Into(pairsOut) }},
	"process-values-count":  {declare: func(b *topology.Builder) { countPairs(pairValues(b, true)) }},
	"punctuate-stream-time": {declare: func(b *topology.Builder) { punctuated(b, onStreamTime(punctuateEvery)) }},
	"punctuate-wall-clock": {caseTraits: caseTraits{wallClock: true}, declare: func(b *topology.Builder) {
		punctuated(b, onWallClock(punctuateEvery))
	}},
	// Both in one node, so that it shows which of them comes first.
	"punctuate-both": {caseTraits: caseTraits{wallClock: true}, declare: func(b *topology.Builder) {
		punctuated(b, onStreamTime(punctuateEvery), onWallClock(punctuateEvery))
	}},
}

type lastRows = state.KeyValue[string, int64]

// lastValues is the store of the last value of each key.
var lastValues = topology.KeyValueStore("last", strCodec, longCodec)

// pairsOut is where values go together with the ones before.
var pairsOut = topology.Topic("out", topology.Nullable(strCodec), schemas.String())

// valueBefore returns the value that a key had.
func valueBefore(last lastRows, key string) (topology.Option[int64], error) {
	n, had, err := last.Get(key)
	if err != nil || !had {
		return topology.None[int64](), err
	}
	return topology.Some(n), nil
}

// pairs is a node that emits each value together with the one before.
func pairs(b *topology.Builder, remember func(last lastRows, key string, v maybeValue) error) {
	topology.Process(anyInput(b), "last", lastValues, func(
		c *topology.Context, last lastRows, r inRecord, emit topology.Emit[maybeKey, string],
	) error {
		key, ok := r.Key.Get()
		if !ok {
			return nil
		}
		before, err := valueBefore(last, key)
		if err != nil {
			return err
		}
		if err := remember(last, key, r.Value); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, textOf(before)+">"+textOf(r.Value)))
	}).Into(pairsOut)
}

// pairValues is pairs with a node that cannot change the key. headers says whether it passes them
// on.
func pairValues(b *topology.Builder, headers bool) topology.Stream[maybeKey, string] {
	return topology.ProcessValues(anyInput(b), "last", lastValues, func(
		c *topology.Context, last lastRows, r inRecord, emit topology.EmitFixedKey[string],
	) error {
		key, ok := r.Key.Get()
		if !ok {
			return nil
		}
		before, err := valueBefore(last, key)
		if err != nil {
			return err
		}
		if err := remember(last, key, r.Value); err != nil {
			return err
		}
		out := topology.FixedKey(textOf(before) + ">" + textOf(r.Value))
		if !headers {
			out.Headers = []topology.Header{}
		}
		return emit(c, out)
	})
}

// countPairs counts the pairs of each key, without a repartition topic.
func countPairs(pairs topology.Stream[maybeKey, string]) {
	topology.Count(pairs, topology.TimestampedStore("count", presentKey{}, longCodec)).
		Into(topology.Topic("out", topology.Nullable(strCodec), longCodec))
}

func textOf(v maybeValue) string {
	if n, ok := v.Get(); ok {
		return strconv.FormatInt(n, 10)
	}
	return "none"
}

// remember makes v the last value of key; without a value there is none.
func remember(last lastRows, key string, v maybeValue) error {
	if n, ok := v.Get(); ok {
		return last.Put(key, n)
	}
	return last.Delete(key)
}

// punctuationSchedule declares a punctuation.
type punctuationSchedule func(t *topology.Setup, f topology.Punctuator)

func onStreamTime(millis int64) punctuationSchedule {
	return func(t *topology.Setup, f topology.Punctuator) { t.OnStreamTime(time.Duration(millis)*ms, f) }
}

func onWallClock(millis int64) punctuationSchedule {
	return func(t *topology.Setup, f topology.Punctuator) { t.OnWallClock(time.Duration(millis)*ms, f) }
}

// punctuated is a node that emits each record and stores the last value of each key. Each firing of
// a schedule emits the number of keys, then all of them, and deletes the odd ones.
func punctuated(b *topology.Builder, schedules ...punctuationSchedule) {
	n := topology.Stateful(anyInput(b), "last", lastValues)
	outlet := topology.Outlet[string, maybeValue](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[maybeKey, maybeValue], error) {
		last, emit := lastValues.In(t), outlet.In(t)
		for _, s := range schedules {
			s(t, func(c *topology.Context, _ time.Time) error { return emitAll(c, last, emit) })
		}
		return func(c *topology.Context, r inRecord) error {
			key, ok := r.Key.Get()
			if !ok {
				return nil
			}
			if err := remember(last, key, r.Value); err != nil {
				return err
			}
			return emit(c, topology.WithKey(r, key))
		}, nil
	})
	outlet.Stream().Into(keyed("out"))
}

func emitAll(c *topology.Context, last lastRows, emit topology.Emit[string, maybeValue]) error {
	var rows []state.Pair[string, int64]
	for row, err := range last.All() {
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	type built = topology.Record[string, maybeValue]
	if err := emit(c, built{Key: "rows", Value: topology.Some(int64(len(rows)))}); err != nil {
		return err
	}
	for _, row := range rows {
		if err := emit(c, built{Key: row.Key, Value: topology.Some(row.Value)}); err != nil {
			return err
		}
		if row.Value%2 != 0 {
			if err := last.Delete(row.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

var processorControls = map[string]control{
	"a null that forgets nothing": {"process", func(b *topology.Builder) {
		pairs(b, func(last lastRows, key string, v maybeValue) error {
			if _, ok := v.Get(); !ok {
				return nil
			}
			return remember(last, key, v)
		})
	}},
	"a node that takes the headers away": {"process-values", func(b *topology.Builder) { pairValues(b, false).Into(pairsOut) }},
	"only changed pairs counted": {"process-values-count", func(b *topology.Builder) {
		countPairs(pairValues(b, true).Filter("changed", func(r topology.Record[maybeKey, string]) (bool, error) {
			before, after, _ := strings.Cut(r.Value, ">")
			return before != after, nil
		}))
	}},
	"an interval of stream time that is longer": {"punctuate-stream-time", func(b *topology.Builder) {
		punctuated(b, onStreamTime(punctuateEvery+1))
	}},
	"the wall clock for stream time": {"punctuate-stream-time", func(b *topology.Builder) { punctuated(b, onWallClock(punctuateEvery)) }},
	"an interval of the wall clock that is longer": {"punctuate-wall-clock", func(b *topology.Builder) {
		punctuated(b, onWallClock(punctuateEvery+1))
	}},
}
