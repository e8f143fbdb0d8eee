package topology_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// wantMistakes compares the mistakes of a BuildError, in their order, with the beginnings of "node:
// text". Each is in the file of the test that made it.
func wantMistakes(tb testing.TB, err error, want ...string) {
	tb.Helper()
	failed, ok := errors.AsType[*topology.BuildError](err)
	if !ok {
		tb.Fatalf("Build returned %v", err)
	}
	var got []string
	matches := len(failed.Mistakes) == len(want)
	for i, m := range failed.Mistakes {
		text := m.Node + ": " + m.Err.Error()
		got = append(got, text)
		matches = matches && strings.HasPrefix(text, want[i])
		if !strings.HasSuffix(filepath.Base(m.File), "_test.go") || m.Line == 0 {
			tb.Errorf("%s: the place is %s:%d", text, m.File, m.Line)
		}
	}
	if !matches {
		tb.Errorf("the mistakes are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestRekeyed: operators that keep state by key refuse a stream whose key an operator may have
// changed, whatever is in between.
func TestRekeyed(t *testing.T) {
	b := topology.NewBuilder("rekeyed")
	s := topology.From(b, wordsTopic)
	key := func(r word) (string, error) { return r.Value, nil }
	same := func(r word) (word, error) { return r, nil }
	end := func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, word) error { return nil }, nil
	}
	split := topology.SelectKey(s, "select", key).Filter("filter", pass).Split("split")
	branch := split.Case("one", pass)
	split.Otherwise("two")
	topology.ToTable(branch, leftTable)
	node := topology.Stateful(topology.Map(s, "map", same), "node")
	out := topology.Outlet[string, string](node, "out")
	node.Process(end)
	topology.Count(topology.MapValuesWithRecord(out.Stream(), "values", upper), countTable)
	flat := topology.FlatMap(s, "flat", func(r word, emit func(word) error) error { return emit(r) })
	windows := topology.Tumbling(time.Minute)
	perMinute := topology.WindowStore("per-minute", schemas.String(), schemas.Int64(), windows.Retention())
	topology.CountWindows(s.Merge("merge", flat), windows, perMinute)
	topology.Stateful(flat, "keyed").Keyed().Process(end)
	free := topology.Stateful(s, "free")
	others := topology.Outlet[string, string](free, "others").Stream()
	free.Process(end)
	topology.Stateful(others, "keyed-too").Keyed().Process(end)
	behind := topology.Stateful(flat, "behind")
	fixed := topology.FixedKeyOutlet[string](behind, "fixed").Stream()
	behind.Process(end)
	topology.Stateful(fixed, "keyed-behind").Keyed().Process(end)
	promised := topology.Stateful(flat, "promised").Copartitioned()
	promises := topology.Outlet[string, string](promised, "promises").Stream()
	promised.Process(end)
	topology.Stateful(promises, "keyed-promised").Keyed().Process(end)
	short := topology.Process(s, "short", countStore, drop)
	topology.Stateful(short, "keyed-short").Keyed().Process(end)

	// These are right.
	again := topology.RepartitionWith(flat, "again", schemas.String(), schemas.String())
	topology.Reduce(again, topology.TimestampedStore("again-table", schemas.String(), schemas.String()), newest)
	labelled := topology.MapHeaders(s, "label", func(word) ([]topology.Header, error) { return nil, nil })
	topology.Stateful(labelled, "keyed-well").Keyed().Process(end)
	values := topology.Stateful(s, "values-only")
	valuesOnly := topology.FixedKeyOutlet[string](values, "fixed").Stream()
	trusted := topology.Stateful(s, "trusted").Copartitioned()
	trustedOnly := topology.Outlet[string, string](trusted, "same").Stream()
	values.Process(end)
	trusted.Process(end)
	topology.Stateful(valuesOnly.Merge("fixed-and-trusted", trustedOnly), "keyed-trusted").Keyed().Process(end)
	shortValues := topology.ProcessValues(s, "short-values", topology.KeyValueStore("short-values", schemas.String(), schemas.String()),
		func(_ *topology.Context, _ state.KeyValue[string, string], r word, emit topology.EmitFixedKey[string]) error {
			return nil
		})
	topology.Stateful(shortValues, "keyed-short-values").Keyed().Process(end)
	kept := topology.Map(s, "kept", same).Copartitioned().Peek("peek", ignore)
	topology.Reduce(kept, topology.TimestampedStore("kept-table", schemas.String(), schemas.String()), newest)
	_, err := b.Build()
	const why = ", so that the records of one key are in several tasks; put Repartition before it, or Copartitioned if they are not"
	failed, ok := errors.AsType[*topology.BuildError](err)
	if !ok || len(failed.Mistakes) != 8 {
		t.Fatalf("Build returned %v, want eight mistakes", err)
	}
	for i, want := range []struct{ node, by string }{
		{"left-table", "select"}, {"count-table", "node"}, {"per-minute", "flat"}, {"keyed", "flat"},
		{"keyed-too", "free"}, {"keyed-behind", "flat"}, {"keyed-promised", "flat"}, {"keyed-short", "short"},
	} {
		m := failed.Mistakes[i]
		text := m.Err.Error()
		if m.Node != want.node || !strings.HasPrefix(text, "the key may have been changed by node "+want.by+" (") ||
			!strings.Contains(text, "operators_mistakes_test.go:") || !strings.HasSuffix(text, why) {
			t.Errorf("%s: %s", m.Node, text)
		}
	}
}

func newest(_ string, r word) (string, error) { return r.Value, nil }

// TestOperatorMistakes: what is wrong with tables, aggregations and windows, all at once.
func TestOperatorMistakes(t *testing.T) {
	text, number := schemas.String(), schemas.Int64()
	texts := func(name string) topology.Store[state.Timestamped[string, string]] {
		return topology.TimestampedStore(name, text, text)
	}
	hours := func(name string, retention time.Duration) topology.Store[state.Window[string, int64]] {
		return topology.WindowStore(name, text, number, retention)
	}
	b := topology.NewBuilder("mistakes")
	s := topology.From(b, wordsTopic)
	table := topology.ToTable(s, texts("table"))
	topology.ToTable(s, texts("table"))
	topology.ToTable(s, topology.TimestampedStore[string, string]("null", text, nil))
	topology.Reduce(s, texts("reduce"), nil)
	topology.Aggregate[string, string, string](s, texts("aggregate"), nil, nil)
	table.Filter("filter", nil)
	topology.MapTable[string, string, string](table, "map", nil)
	group := topology.GroupTable[string, string, string, string](table, "group", text, nil, nil, topology.Partitions(0))
	topology.ReduceTable(group, texts("reduce-group"), nil, nil)
	hour := topology.Tumbling(time.Hour)
	topology.CountWindows(s, topology.Windows{}, hours("none", time.Hour))
	topology.CountWindows(s, topology.Tumbling(0), hours("zero", time.Hour))
	topology.CountWindows(s, topology.Tumbling(1500*time.Microsecond), hours("fraction", time.Hour))
	topology.CountWindows(s, topology.Hopping(time.Hour, 2*time.Hour), hours("gaps", time.Hour))
	topology.CountWindows(s, hour.Grace(-1), hours("negative", time.Hour))
	topology.CountWindows(s, hour.Grace(time.Minute), hours("short", time.Hour))
	topology.CountWindows(s, hour, hours("retention", 0))
	topology.CountWindows(s, topology.Sliding(0), hours("no-difference", time.Hour))
	topology.CountWindows(s, topology.Sliding(time.Second).Grace(time.Second), hours("short-sliding", 3*time.Second))
	topology.CountWindows(s, hour, hours("right", hour.Retention())).Closed()
	topology.Count(s, topology.TimestampedStore("right-closing", text, number))
	s.IntoOneOf("route", nil, []topology.TopicOf[string, string]{outTopic, outTopic})
	s.IntoOneOf("nowhere", func(word) (topology.TopicOf[string, string], error) { return outTopic, nil }, nil)
	_, err := b.Build()
	wantMistakes(t, err,
		"table: the name is taken by the node declared at",
		"null: store null: the value codec is nil",
		"reduce: the function is nil",
		"aggregate: the function is nil",
		"filter: the function is nil",
		"map: the function is nil",
		"group: the function is nil",
		"group: Partitions(0): a topic has at least one partition",
		"group-repartition-sink: the value codec is nil",
		"reduce-group: the function is nil",
		"none: the windows have no size; Tumbling, Hopping and Sliding make windows",
		"zero: the windows have no size",
		"fraction: the size of a window is whole milliseconds, from 1 ms to 100 years, not 1.5ms",
		"gaps: windows of 1h0m0s advance by whole milliseconds, from 1 ms to their size, not by 2h0m0s",
		"negative: the grace of windows is whole milliseconds, from 0 to 100 years, not -1ns",
		"short: store short keeps windows for 1h0m0s, which is less than these need, 1h1m0s (Windows.Retention)",
		"retention: store retention: a window store has a retention of at least 1 ms, not 0",
		"retention: store retention keeps windows for 0s, which is less than these need",
		"no-difference: the difference of sliding windows is whole milliseconds, from 1 ms to 100 years, not 0s",
		"short-sliding: store short-sliding keeps windows for 3s, which is less than these need, 3.002s (Windows.Retention)",
		"route: the function is nil",
		"route: topic out is named twice",
		"nowhere: there is no topic to choose",
		"right-closing: store right-closing is timestamped here and keyvalue in node right",
		"right-closing: store right-closing has codecs (string, int64) here and (bytes, bytes) in node right",
	)
}

// TestSourceTimeMistakes: functions of other types, and none.
func TestSourceTimeMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	other := func(topology.Record[string, int64]) (time.Time, error) { return time.Time{}, nil }
	right := func(word) (time.Time, error) { return time.Time{}, nil }
	topology.From(b, wordsTopic, topology.EventTime(other))
	topology.From(b, otherTopic, topology.EventTime[string, string](nil))
	topology.From(b, secondTopic, topology.OnInvalidTimestamp(7))
	topology.From(b, outTopic, topology.EventTime(right))
	topology.From(b, outTopic, topology.EventTime(right))
	topology.TableFrom(b, leftTopic, leftTable, topology.EventTime(right))
	_, err := b.Build()
	wantMistakes(t, err,
		"words: EventTime: the function is a func(topology.Record[string,int64]) (time.Time, error), and the records of the source are "+
			"topology.Record[string,string]",
		"other: EventTime: the function is nil",
		"second: OnInvalidTimestamp: invalid timestamp(7) is no reaction",
		"out: the topic is read twice with different types, codecs or options",
		"left: EventTime: the function is a func(topology.Record[string,string]) (time.Time, error), and the records of the source are "+
			"topology.Record[string,github.com/onceward/onceward/topology.Option[string]]",
	)
}
