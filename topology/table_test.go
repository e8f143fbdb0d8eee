package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Topics and stores of the tests of tables.
var (
	leftTable  = topology.TimestampedStore("left-table", schemas.String(), schemas.String())
	rightTable = topology.TimestampedStore("right-table", schemas.String(), schemas.String())
	countTopic = topology.Topic("counted", schemas.String(), schemas.Int64())
	countTable = topology.TimestampedStore("count-table", schemas.String(), schemas.Int64())
)

type (
	textTable = topology.Table[string, string]
	textOpt   = topology.Option[string]
)

// changesTopic shows changes as old>new.
var changesTopic = topology.Topic("changes", schemas.String(), schemas.String())

func showChanges[V any](t topology.Table[string, V]) {
	topology.MapValues(t.Changes(), "show", func(v topology.Change[V]) (string, error) {
		return show(v.Old) + ">" + show(v.New), nil
	}).Into(changesTopic)
}

func show[V any](v topology.Option[V]) string {
	if value, ok := v.Get(); ok {
		return fmt.Sprint(value)
	}
	return "-"
}

// TestTableFrom: the last record wins, also with an earlier time; a null deletes; a null key is
// left out.
func TestTableFrom(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftTable)
		table.Into(resultTopic)
		showChanges(table)
	})
	wantLines(t, k.script("left 10 a x", "left 5 a y", "left 20 a -", "left 21 a -", "left 22 - z", "left 23 b w"),
		"a=x@10 a=->x@10",
		"a=y@5 a=x>y@5",
		"a=-@20 a=y>-@20",
		"a=-@21 a=->-@21",
		"",
		"b=w@23 b=->w@23")
	if n := countsOf(k.send("left", 30, "-", "z")); n != "left-source.null-key=1" {
		t.Errorf("a null key is counted as %q", n)
	}
	rows := leftTable.Open(k.state.Store("left-table"))
	if v, ms, ok, err := rows.Get("b"); v != "w" || ms != 23 || !ok || err != nil {
		t.Errorf("b is %q at %d, %t, %v", v, ms, ok, err)
	}
	if _, _, ok, err := rows.Get("a"); ok || err != nil {
		t.Errorf("a is there: %t, %v", ok, err)
	}
}

// TestTableOfBytes: where nil is null, an empty value is none.
func TestTableOfBytes(t *testing.T) {
	raw := topology.Topic("raw", schemas.Bytes(), schemas.Bytes())
	store := topology.TimestampedStore("raw-table", schemas.Bytes(), schemas.Bytes())
	k := tableTask(t, func(b *topology.Builder) {
		topology.TableFrom(b, raw, store).Into(topology.Topic("result", schemas.Bytes(), schemas.Bytes()))
	})
	v := want(t, k.graph.Process(graph.Input{Topic: "raw", Key: []byte("k"), Value: []byte{}}), graph.Accept)
	if len(v.Outputs) != 1 || v.Outputs[0].Value == nil || len(v.Outputs[0].Value) != 0 {
		t.Errorf("an empty value comes out as %v", v.Outputs)
	}
	v = want(t, k.graph.Process(graph.Input{Topic: "raw", Key: []byte("k")}), graph.Accept)
	if len(v.Outputs) != 1 || v.Outputs[0].Value != nil {
		t.Errorf("a null comes out as %v", v.Outputs)
	}
	v = want(t, k.graph.Process(graph.Input{Topic: "raw", Value: []byte("v")}), graph.Accept)
	if len(v.Outputs) != 0 || countsOf(v) != "raw-source.null-key=1" {
		t.Errorf("a null key comes out as %v, counted as %s", v.Outputs, countsOf(v))
	}
}

// TestToTable: a stream that changes its key through a repartition is another task; here the key
// stays.
func TestToTable(t *testing.T) {
	upsert := tableTask(t, func(b *topology.Builder) {
		topology.ToTable(topology.From(b, leftTopic).Peek("see", ignore), leftTable).Into(resultTopic)
	})
	wantLines(t, upsert.script("left 1 a x", "left 2 a y"), "a=x@1", "a=y@2")

	deleting := tableTask(t, func(b *topology.Builder) {
		s := topology.MapValues(topology.From(b, leftTopic), "parse", func(v string) (textOpt, error) {
			if v == "gone" {
				return topology.None[string](), nil
			}
			return topology.Some(v), nil
		})
		topology.ToTableWithDeletes(s, leftTable).Into(resultTopic)
	})
	wantLines(t, deleting.script("left 1 a x", "left 2 a gone", "left 3 b gone"), "a=x@1", "a=-@2", "b=-@3")
}

func isLower(_, v string) (bool, error) { return v == strings.ToLower(v), nil }

// TestFilterTable: a value that is not kept deletes what was kept before, and is nothing otherwise.
func TestFilterTable(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		lower := topology.TableFrom(b, leftTopic, leftTable).Filter("lower", isLower)
		lower.Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a X", "left 2 a x", "left 3 a y", "left 4 a Y", "left 5 a Z", "left 6 a -",
		"left 7 b x", "left 8 b -"),
		"", "a=x@2", "a=y@3", "a=-@4", "", "", "b=x@7", "b=-@8")
}

// TestMapTable: deletes stay deletes, and old values are mapped where somebody wants them.
func TestMapTable(t *testing.T) {
	double := func(_, v string) (string, error) { return v + v, nil }
	k := tableTask(t, func(b *topology.Builder) {
		topology.MapTable(topology.TableFrom(b, leftTopic, leftTable), "double", double).Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 2 a -", "left 3 a -"), "a=xx@1", "a=-@2", "a=-@3")

	calls := 0
	k = tableTask(t, func(b *topology.Builder) {
		doubled := topology.MapTable(topology.TableFrom(b, leftTopic, leftTable), "double", func(key, v string) (string, error) {
			calls++
			return double(key, v)
		})
		showChanges(doubled.Filter("all", func(string, string) (bool, error) { return true, nil }))
	})
	wantLines(t, k.script("left 1 a x", "left 2 a y", "left 3 a -", "left 4 a -"),
		"a=->xx@1", "a=xx>yy@2", "a=yy>-@3", "")
	if calls != 4 {
		t.Errorf("the function was called %d times, want 4: for two new values and two old ones", calls)
	}
}

// TestTableStreamOrder: the streams of a table are used in the order of their declarations.
func TestTableStreamOrder(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftTable)
		table.Into(topology.Topic("first", schemas.String(), schemas.String()))
		topology.MapTable(table, "map", func(_, v string) (string, error) { return v, nil }).
			Into(topology.Topic("second", schemas.String(), schemas.String()))
		table.Into(topology.Topic("third", schemas.String(), schemas.String()))
	})
	v := want(t, k.send("left", 1, "a", "x"), graph.Accept)
	if got := lines(v.Outputs); got != `first "a"="x"; second "a"="x"; third "a"="x"` {
		t.Errorf("the outputs are %s", got)
	}
}

// TestFailedChangeLeavesNothing: the store is as it was, and so is the next old value.
func TestFailedChangeLeavesNothing(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftTable)
		showChanges(topology.MapTable(table, "refuse", func(_, v string) (string, error) {
			if v == "bad" {
				return "", topology.Fail(topology.Validation, schemas.Reason("bad"))
			}
			return v, nil
		}))
	})
	wantLines(t, k.script("left 1 a x"), "a=->x@1")
	v := want(t, k.send("left", 2, "a", "bad"), topology.DeadLetter)
	if v.Failure.Node != "refuse" {
		t.Errorf("node %s has failed", v.Failure.Node)
	}
	wantLines(t, k.script("left 3 a y"), "a=x>y@3")
}

// TestTableAfterBuild: what is declared after Build changes nothing.
func TestTableAfterBuild(t *testing.T) {
	b := topology.NewBuilder("tables")
	table := topology.TableFrom(b, leftTopic, leftTable)
	mapped := topology.MapTable(table, "map", func(_, v string) (string, error) {
		return v, nil
	})
	mapped.Into(resultTopic)
	top := mustBuild(t, b)
	before := top.Describe()
	mapped.Changes().Into(topology.Topic("late", schemas.String(), changeText{}))
	mapped.Filter("late", isLower)
	table.Stream()
	if after := top.Describe(); after != before {
		t.Errorf("the topology has become\n%s", after)
	}
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "declared after Build") {
		t.Errorf("Build returned %v", err)
	}
}

// changeText is a codec that is never used.
type changeText struct {
	schemas.Codec[topology.Change[string]]
}

func (changeText) Name() string { return "change" }
