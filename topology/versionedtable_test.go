package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// The stores of the tests of versioned tables have a history of 20 ms.
var (
	leftVersions  = topology.VersionedStore("left-table", schemas.String(), schemas.String(), 20*ms)
	rightVersions = topology.VersionedStore("right-table", schemas.String(), schemas.String(), 20*ms)
)

// showOrder shows changes and marks those that are out of order.
func showOrder[V any](t topology.Table[string, V]) {
	topology.MapValues(t.Changes(), "show", func(v topology.Change[V]) (string, error) {
		mark := ""
		if v.OutOfOrder {
			mark = "!"
		}
		return mark + show(v.Old) + ">" + show(v.New), nil
	}).Into(changesTopic)
}

// TestVersionedTable: a record that is older than the newest value of its key is history. It is
// passed on, and marked. One that is older than the history is late.
func TestVersionedTable(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftVersions)
		table.Into(resultTopic)
		showOrder(table)
	})
	wantLines(t, k.script("left 10 a x", "left 30 a y", "left 20 a z", "left 30 a w", "left 10 b v", "left 40 a -", "left 35 a u",
		"left 40 a t", "left 50 a -", "left 51 b -"),
		"a=x@10 a=->x@10",
		"a=y@30 a=x>y@30",
		"a=z@20 a=!y>z@20",
		"a=w@30 a=y>w@30",
		"b=v@10 b=->v@10",
		"a=-@40 a=w>-@40",
		"a=u@35 a=!->u@35",
		"a=t@40 a=->t@40",
		"a=-@50 a=t>-@50",
		"b=-@51 b=v>-@51")
	if v := want(t, k.send("left", 30, "c", "late"), graph.Accept); len(v.Outputs) > 0 || countsOf(v) != "left-table.late=1" {
		t.Errorf("a record before the history writes %s and counts %q", lines(v.Outputs), countsOf(v))
	}
	rows := leftVersions.Open(k.state.Store("left-table"))
	if v, from, ok, err := rows.GetAsOf("a", 36); v != "u" || from != 35 || !ok || err != nil {
		t.Errorf("as of 36: %q from %d, %t, %v", v, from, ok, err)
	}
}

// TestVersionedTableSteps: a table that is made of a versioned one is versioned.
func TestVersionedTableSteps(t *testing.T) {
	steps := func(b *topology.Builder, topic topology.TopicOf[string, string], store topology.Store[state.Versioned[string, string]]) textTable {
		return topology.MapTable(topology.TableFrom(b, topic, store), "double", func(_, v string) (string, error) { return v + v, nil }).
			Filter("lower", isLower)
	}
	k := tableTask(t, func(b *topology.Builder) { showOrder(steps(b, leftTopic, leftVersions)) })
	wantLines(t, k.script("left 10 a X", "left 20 a y", "left 15 a z", "left 12 a Z", "left 30 a Y"),
		"a=->-@10", "a=->yy@20", "a=!yy>zz@15", "a=!yy>-@12", "a=yy>-@30")

	k = tableTask(t, func(b *topology.Builder) {
		topology.LeftJoinStreamTable(topology.From(b, leftTopic), steps(b, rightTopic, rightVersions), "join", leftPlus).Into(resultTopic)
	})
	wantLines(t, k.script("right 10 a y", "right 20 a Z", "right 25 a z", "left 9 a p", "left 10 a p", "left 24 a p", "left 99 a p"),
		"", "", "", "a=p+?@9", "a=p+yy@10", "a=p+?@24", "a=p+zz@99")
}

// TestJoinStreamWithVersionedTable: a record meets the value of its time, as far as it has come.
func TestJoinStreamWithVersionedTable(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		topology.LeftJoinStreamTable(topology.From(b, leftTopic), topology.TableFrom(b, rightTopic, rightVersions), "join", leftPlus).
			Into(resultTopic)
	})
	wantLines(t, k.script("right 10 a x", "right 30 a y", "left 29 a p", "left 30 a p", "right 20 a z", "left 29 a p", "right 40 a -", "left 40 a p",
		"right 100 b v", "left 30 a p", "left 101 b p", "left 99 b p", "right 90 b w", "left 99 b p"),
		"", "", "a=p+x@29", "a=p+y@30", "", "a=p+z@29", "", "a=p+?@40",
		"", "a=p+?@30", "b=p+v@101", "b=p+?@99", "", "b=p+w@99")
}

// TestVersionedTablesMeetAsTheyAre: joins of tables and groups leave out changes that are out of
// order, and a join counts them.
func TestVersionedTablesMeetAsTheyAre(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		intoResult(outerJoin(topology.TableFrom(b, leftTopic, leftVersions), topology.TableFrom(b, rightTopic, rightTable)))
	})
	wantLines(t, k.script("left 30 a x", "right 40 a y", "left 20 a z", "left 30 a w", "right 5 a v"),
		"a=x+?@30", "a=x+y@40", "", "a=w+y@40", "a=w+v@30")
	if v := k.send("left", 25, "a", "u"); countsOf(v) != "join.out-of-order=1" {
		t.Errorf("counted is %q", countsOf(v))
	}

	d := newDriven(t, func(b *topology.Builder) {
		g := topology.GroupTable(topology.TableFrom(b, leftTopic, leftVersions), "groups", schemas.String(), schemas.String(),
			func(_, v string) (string, string, error) { return v, v, nil })
		topology.CountTable(g, countTable).Into(countTopic)
	})
	for _, e := range []event{{ms: 30, value: "x"}, {ms: 20, value: "y"}, {ms: 31, value: "z"}} {
		d.pipe("left", e.ms, "a", e.value)
	}
	d.want("counted", "x=1@30", "x=0@31", "z=1@31")
}

// TestVersionedForeignKeys: so does a join by a foreign key, on both sides.
func TestVersionedForeignKeys(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		topology.JoinForeignKey(topology.TableFrom(b, leftTopic, leftVersions), topology.TableFrom(b, rightTopic, rightVersions), "join",
			func(_, v string) (topology.Option[string], error) { return topology.Some(v[:1]), nil },
			plus).Into(resultTopic)
	})
	d.pipe("right", 30, "x", "one")
	d.pipe("left", 30, "a", "xa")
	d.pipe("left", 20, "a", "xb")
	d.pipe("right", 20, "x", "two")
	d.pipe("right", 31, "x", "three")
	d.want("result", "a=xa+one@30", "a=xa+three@31")
	outOfOrder := map[string]int64{}
	for _, c := range d.Counts() {
		if c.Outcome == "out-of-order" {
			outOfOrder[c.Node] += c.N
		}
	}
	if fmt.Sprint(outOfOrder) != "map[join:1 join-subscriptions:1]" {
		t.Errorf("counted are %v", outOfOrder)
	}
}

// TestVersionedAggregate: an aggregate has a history of its own. Its time is the largest one of its
// records, so that only a record after a removal can be out of order.
func TestVersionedAggregate(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		showOrder(topology.Reduce(topology.From(b, leftTopic), leftVersions, func(sofar string, r word) (string, error) {
			if r.Value == "X" {
				return "", topology.ErrRemove
			}
			return sofar + r.Value, nil
		}))
	})
	wantLines(t, k.script("left 10 a x", "left 20 a y", "left 15 a z", "left 30 a X", "left 25 a y", "left 31 a z"),
		"a=->x@10", "a=x>xy@20", "a=xy>xyz@20", "a=xyz>-@30", "a=!->y@25", "a=->z@31")
	if v := k.send("left", 10, "b", "late"); countsOf(v) != "left-table.late=1" || len(v.Outputs) > 0 {
		t.Errorf("counted is %q", countsOf(v))
	}
	rows := leftVersions.Open(k.state.Store("left-table"))
	for ms, want := range map[int64]string{11: "x", 20: "xyz", 26: "y", 30: "", 31: "z"} {
		if v, _, _, err := rows.GetAsOf("a", ms); v != want || err != nil {
			t.Errorf("as of %d: %q, want %q, %v", ms, v, want, err)
		}
	}
}

// TestVersionedTableAfterACrash: the history is that of the committed records.
func TestVersionedTableAfterACrash(t *testing.T) {
	b := topology.NewBuilder("versions", topology.DeadLetters("dead"))
	topology.TableFrom(b, leftTopic, leftVersions).Into(resultTopic)
	d, err := topologytest.New(mustBuild(t, b), topologytest.CommitByHand())
	if err != nil {
		t.Fatal(err)
	}
	for i, then := range []func() error{d.Commit, d.Crash, d.Abort, d.Commit} {
		if err := d.PipeRaw("left", []byte("a"), []byte{'0' + byte(i)}, topologytest.At(time.UnixMilli(int64(30-i)))); err != nil {
			t.Fatal(err)
		}
		if err := then(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := topologytest.Store(d, leftVersions, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for v, err := range rows.History("a", 0, 100) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(v.Value, "@", v.From))
	}
	if text := strings.Join(got, " "); text != "3@27 2@28 1@29 0@30" {
		t.Errorf("the history is %s", text)
	}
}

func TestVersionedTableMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	text := schemas.String()
	table := topology.TableFrom(b, leftTopic, leftVersions)
	table.Filter("lower", isLower).Suppress("limit", text, text, topology.UntilTimeLimit(time.Second))
	topology.TableFrom(b, rightTopic, rightVersions, topology.RestoreFromTopic())
	_, err := b.Build()
	wantMistakes(t, err,
		"limit: a versioned table cannot be suppressed",
		"right-table: RestoreFromTopic: a versioned table has a changelog of its own")
}
