package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

var globalRows = topology.TimestampedStore("rows", schemas.String(), schemas.String())

type globalText = topology.GlobalTable[string, string]

// byValue chooses the row by the value of the record, none for "none".
func byValue(r word) (topology.Option[string], error) {
	if r.Value == "none" {
		return topology.None[string](), nil
	}
	return topology.Some(r.Value), nil
}

// globalTest starts a join of the left topic with the right one as a global table.
func globalTest(
	t *testing.T, join func(s topology.Stream[string, string], g globalText) topology.Stream[string, string], opts ...topologytest.Option,
) *topologytest.Test {
	t.Helper()
	b := topology.NewBuilder("global", topology.DeadLetters("dead"))
	join(topology.From(b, leftTopic), topology.GlobalTableFrom(b, rightTopic, globalRows)).Into(resultTopic)
	return topologytest.Start(t, mustBuild(t, b), opts...)
}

func innerGlobal(s topology.Stream[string, string], g globalText) topology.Stream[string, string] {
	return topology.JoinGlobalTable(s, g, "join", byValue, plus)
}

func leftGlobal(s topology.Stream[string, string], g globalText) topology.Stream[string, string] {
	return topology.LeftJoinGlobalTable(s, g, "join", byValue, func(_, v string, row textOpt) (string, error) { return v + "+" + row.Or("?"), nil })
}

// TestJoinGlobalTable: a record meets the row that is there then, by the key that is chosen from
// it, from any partition. A change of the table emits nothing, and the timestamp is that of the
// record.
func TestJoinGlobalTable(t *testing.T) {
	d := globalTest(t, innerGlobal, topologytest.Partitions(3), topologytest.TopicPartitions("right", 7))
	left, right, out := topologytest.In(d, leftTopic), topologytest.In(d, rightTopic), topologytest.Out(d, resultTopic)
	left.Pipe("a", "x")
	right.Pipe("x", "1", topologytest.At(time.UnixMilli(9000)))
	out.Want()
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		left.Pipe(key, "x", topologytest.At(time.UnixMilli(5000)))
	}
	records := out.Want(topologytest.KV("a", "x+1"), topologytest.KV("b", "x+1"), topologytest.KV("c", "x+1"),
		topologytest.KV("d", "x+1"), topologytest.KV("e", "x+1"))
	if records[0].Timestamp != 5000 {
		t.Errorf("the timestamp is %d, want that of the record", records[0].Timestamp)
	}
	right.Pipe("x", "2", topologytest.At(time.UnixMilli(1000)))
	left.Pipe("a", "x")
	out.Want(topologytest.KV("a", "x+2"))
	if err := d.PipeRaw("right", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	left.Pipe("a", "x")
	left.Pipe("a", "none")
	out.Want()
	d.WantCount("join", "null-key", 1)
}

func TestLeftJoinGlobalTable(t *testing.T) {
	d := globalTest(t, leftGlobal)
	left, right, out := topologytest.In(d, leftTopic), topologytest.In(d, rightTopic), topologytest.Out(d, resultTopic)
	left.Pipe("a", "x")
	right.Pipe("x", "1")
	left.Pipe("a", "x")
	left.Pipe("a", "none")
	out.Want(topologytest.KV("a", "x+?"), topologytest.KV("a", "x+1"), topologytest.KV("a", "none+?"))
	d.WantCount("join", "null-key", 0)
}

// TestJoinGlobalTableNulls: a null key of the record is a key like any other; a null value ends in
// both joins; a null that is chosen as the key is none.
func TestJoinGlobalTableNulls(t *testing.T) {
	in := topology.Topic("left", topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
	result := topology.Topic("result", topology.Nullable(schemas.String()), schemas.String())
	table := topology.Topic("right", schemas.Bytes(), schemas.String())
	rows := topology.TimestampedStore("rows", schemas.Bytes(), schemas.String())
	choose := func(r topology.Record[textOpt, textOpt]) (topology.Option[[]byte], error) {
		if v := r.Value.Or(""); v != "none" {
			return topology.Some([]byte(v)), nil
		}
		return topology.Some[[]byte](nil), nil
	}
	for name, test := range map[string]struct {
		left bool
		want []string
		null int64
	}{
		"inner": {false, []string{"=x+1"}, 1},
		"left":  {true, []string{"=x+1", "a=none+?"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("global", topology.DeadLetters("dead"))
			s, g := topology.From(b, in), topology.GlobalTableFrom(b, table, rows)
			if test.left {
				topology.LeftJoinGlobalTable(s, g, "join", choose,
					func(_, v, row textOpt) (string, error) { return v.Or("") + "+" + row.Or("?"), nil }).Into(result)
			} else {
				topology.JoinGlobalTable(s, g, "join", choose,
					func(_, v textOpt, row string) (string, error) { return v.Or("") + "+" + row, nil }).Into(result)
			}
			d := topologytest.Start(t, mustBuild(t, b))
			topologytest.In(d, table).Pipe([]byte("x"), "1")
			left := topologytest.In(d, in)
			left.Pipe(topology.None[string](), topology.Some("x"))
			left.Pipe(topology.Some("a"), topology.Some("none"))
			left.Pipe(topology.Some("a"), topology.None[string]())
			var got []string
			for _, r := range topologytest.Out(d, result).Read() {
				got = append(got, r.Key.Or("")+"="+r.Value)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("written is %v, want %v", got, test.want)
			}
			d.WantCount("join", "null-value", 1)
			d.WantCount("join", "null-key", test.null)
		})
	}
}

// TestGlobalTableSkips: a record that makes no row leaves the one that is there, and is counted.
func TestGlobalTableSkips(t *testing.T) {
	numbers := topology.Topic("right", schemas.String(), schemas.Int64())
	rows := topology.TimestampedStore("rows", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("global", topology.DeadLetters("dead"))
	topology.JoinGlobalTable(topology.From(b, leftTopic), topology.GlobalTableFrom(b, numbers, rows), "join", byValue,
		func(_, v string, row int64) (string, error) { return fmt.Sprint(v, "+", row), nil }).Into(resultTopic)
	d := topologytest.Start(t, mustBuild(t, b))
	topologytest.In(d, numbers).Pipe("x", 7)
	for _, record := range [][2][]byte{{[]byte("x"), []byte("no number")}, {nil, make([]byte, 8)}} {
		if err := d.PipeRaw("right", record[0], record[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.PipeRaw("right", []byte("x"), make([]byte, 8), topologytest.At(time.UnixMilli(-1))); err != nil {
		t.Fatal(err)
	}
	topologytest.In(d, leftTopic).Pipe("a", "x")
	topologytest.Out(d, resultTopic).Want(topologytest.KV("a", "x+7"))
	d.WantCount("rows", "skipped", 3)
	d.WantDead()
	if v, at, ok, err := topologytest.Stored(d, rows, 0).Get("x"); v != 7 || !ok || err != nil || at < 0 {
		t.Errorf("the row is %d at %d, %v, %v", v, at, ok, err)
	}
	top := mustBuild(t, b)
	for name, of := range map[string]func(string) (graph.Rows, bool){"rows": top.Rows, "right": top.Records} {
		if codecs, ok := of(name); !ok || codecs.Values.Format != schemas.Int64().Name() {
			t.Errorf("the codecs of %s are %+v, %v", name, codecs, ok)
		}
	}
	if _, err := topologytest.Store(d.Driver, rows, 1); err == nil {
		t.Error("a global table has a partition 1")
	}
	if err := topologytest.Stored(d, rows, 0).Put("x", 8, 0); err == nil {
		t.Error("a global table can be written")
	}
}

// TestGlobalTableOfAnOutput: what the topology commits to the topic is a row, and a crash takes no
// row back.
func TestGlobalTableOfAnOutput(t *testing.T) {
	b := topology.NewBuilder("global", topology.DeadLetters("dead"))
	s := topology.From(b, leftTopic)
	topology.LeftJoinGlobalTable(s, topology.GlobalTableFrom(b, rightTopic, globalRows), "join",
		func(r word) (topology.Option[string], error) { return topology.Some(r.Key), nil }, leftPlus).Into(resultTopic)
	s.Into(rightTopic)
	d := topologytest.Start(t, mustBuild(t, b), topologytest.CommitByHand())
	left, out := topologytest.In(d, leftTopic), topologytest.Out(d, resultTopic)
	left.Pipe("a", "1")
	d.Commit()
	left.Pipe("a", "2")
	d.Crash()
	d.Commit()
	out.Want(topologytest.KV("a", "1+?"), topologytest.KV("a", "2+1"))
}

// TestJoinGlobalTableFailures: an error of either function fails the record.
func TestJoinGlobalTableFailures(t *testing.T) {
	b := topology.NewBuilder("global", topology.DeadLetters("dead"))
	topology.LeftJoinGlobalTable(topology.From(b, leftTopic), topology.GlobalTableFrom(b, rightTopic, globalRows), "join",
		func(r word) (topology.Option[string], error) {
			if r.Value == "no key" {
				return topology.None[string](), errors.New("bad")
			}
			return topology.None[string](), nil
		},
		func(_, _ string, _ topology.Option[string]) (string, error) { return "", errors.New("bad") }).Into(resultTopic)
	d := topologytest.Start(t, mustBuild(t, b))
	left := topologytest.In(d, leftTopic)
	left.Pipe("a", "no key")
	left.Pipe("a", "x")
	d.WantDead("join: poison", "join: poison")
}

// TestGlobalTableMistakes: what is wrong with a declaration.
func TestGlobalTableMistakes(t *testing.T) {
	b, other := topology.NewBuilder("one", topology.DeadLetters("dead")), topology.NewBuilder("other")
	stream, table := topology.From(b, leftTopic), topology.GlobalTableFrom(b, rightTopic, globalRows)
	topology.JoinGlobalTable(stream, topology.GlobalTableFrom(other, rightTopic, globalRows), "foreign", byValue, plus)
	topology.JoinGlobalTable[string, string, string, string, string](stream, table, "no-key", nil, plus)
	topology.JoinGlobalTable[string, string, string, string, string](stream, table, "no-join", byValue, nil)
	topology.LeftJoinGlobalTable[string, string, string, string, string](stream, table, "no-left-join", byValue, nil)
	store := func(name string) topology.Store[state.Timestamped[string, string]] {
		return topology.TimestampedStore(name, schemas.String(), schemas.String())
	}
	topic := func(name string) topology.TopicOf[string, string] {
		return topology.Topic(name, schemas.String(), schemas.String())
	}
	topology.GlobalTableFrom(b, rightTopic, store("twice"))
	topology.GlobalTableFrom(b, leftTopic, store("read"))
	topology.GlobalTableFrom(b, topic("dead"), store("letters"))
	topology.ToTable(stream, store("kept"))
	topology.GlobalTableFrom(b, topic("fourth"), store("kept"))
	topology.GlobalTableFrom(b, topic("bad name"), store("fifth"))
	rekeyed := topology.SelectKey(stream, "by-value", func(r word) (string, error) { return r.Value, nil })
	topology.JoinGlobalTable(rekeyed, table, "rekeyed", byValue, plus) // needs no partitions of its key
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a global table cannot be joined: it belongs to another Builder",
		"no-key: the function is nil",
		"no-join: the function is nil",
		"no-left-join: the function is nil",
		"kept: the name is taken",
		"fifth: topic of a global table",
		"twice: the topic right is a global table already",
		"read: the topic left is read by a source too",
		"letters: a global table of the dead-letter topic",
		"kept: the store is used by node kept")
	topology.GlobalTableFrom(b, topic("late"), store("late"))
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "declared after Build") {
		t.Errorf("a declaration after Build: %v", err)
	}
}

// TestGlobalTableWithoutRows: a runtime that has no rows of a global table cannot open the task.
func TestGlobalTableWithoutRows(t *testing.T) {
	b := topology.NewBuilder("global", topology.DeadLetters("dead"))
	innerGlobal(topology.From(b, leftTopic), topology.GlobalTableFrom(b, rightTopic, globalRows)).Into(resultTopic)
	config := baseConfig()
	config.Partitions = func(string) int32 { return 1 }
	_, err := mustBuild(t, b).NewGraph(graph.TaskID{Subtopology: "left"}, nil, config)
	if err == nil || !strings.Contains(err.Error(), "the rows of the global table rows are not here") {
		t.Errorf("the error is %v", err)
	}
}
