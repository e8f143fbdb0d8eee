package topology_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// streamJoinTask opens a task of a join of the left topic, as a stream, with the right one, as a
// table.
func streamJoinTask(tb testing.TB, join func(s topology.Stream[string, string], t textTable) topology.Stream[string, string]) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) {
		join(topology.From(b, leftTopic), topology.TableFrom(b, rightTopic, rightTable)).Into(resultTopic)
	})
}

// TestJoinStreamTable: a record meets the row that the table has then, a change of the table emits
// nothing, and the timestamp is that of the record, whatever that of the row.
func TestJoinStreamTable(t *testing.T) {
	k := streamJoinTask(t, func(s topology.Stream[string, string], table textTable) topology.Stream[string, string] {
		return topology.JoinStreamTable(s, table, "join", plus)
	})
	wantLines(t, k.script("left 1 a x", "right 9 a y", "left 2 a x", "left 3 b x", "right 4 a Y", "left 5 a z", "right 6 a -",
		"left 7 a z"),
		"", "", "a=x+y@2", "", "", "a=z+Y@5", "", "")
}

func TestLeftJoinStreamTable(t *testing.T) {
	k := streamJoinTask(t, func(s topology.Stream[string, string], table textTable) topology.Stream[string, string] {
		return topology.LeftJoinStreamTable(s, table, "join", leftPlus)
	})
	wantLines(t, k.script("left 1 a x", "right 9 a y", "left 2 a x", "left 3 b x", "right 6 a -", "left 7 a z"),
		"a=x+?@1", "", "a=x+y@2", "b=x+?@3", "", "a=z+?@7")
}

// TestJoinStreamTableNulls: a null value ends in either join, and a null key in the inner one; both
// are counted.
func TestJoinStreamTableNulls(t *testing.T) {
	stream := topology.Topic("left", topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
	table := topology.Topic("right", topology.Nullable(schemas.String()), schemas.String())
	rows := topology.TimestampedStore("rows", optionText{}, schemas.String())
	result := topology.Topic("result", topology.Nullable(schemas.String()), schemas.String())
	type (
		texts  = topology.Stream[textOpt, textOpt]
		lookup = topology.Table[textOpt, string]
		joined = topology.Stream[textOpt, string]
	)
	for name, test := range map[string]struct {
		join   func(s texts, t lookup) joined
		want   []string
		counts string
	}{
		"inner": {func(s texts, t lookup) joined {
			return topology.JoinStreamTable(s, t, "join", func(_, v textOpt, row string) (string, error) { return v.Or("null") + "+" + row, nil })
		}, []string{"", "a=x+y@2", "", ""}, "join.null-key=1 join.null-key=1 join.null-value=1"},
		"left": {func(s texts, t lookup) joined {
			return topology.LeftJoinStreamTable(s, t, "join", func(_, v, row textOpt) (string, error) { return v.Or("null") + "+" + row.Or("?"), nil })
		}, []string{"", "a=x+y@2", "=x+?@3", ""}, " join.null-value=1 join.null-value=1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				test.join(topology.From(b, stream), topology.TableFrom(b, table, rows)).Into(result)
			})
			wantLines(t, k.script("right 1 a y", "left 2 a x", "left 3 - x", "left 4 a -"), test.want...)
			got := countsOf(k.send("left", 5, "-", "x")) + " " + countsOf(k.send("left", 6, "-", "-")) + " " + countsOf(k.send("left", 7, "a", "-"))
			if got != test.counts {
				t.Errorf("counted are %q, want %q", got, test.counts)
			}
		})
	}
}

// TestJoinStreamWithItsTable: a table that is declared before the join has the record already.
func TestJoinStreamWithItsTable(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		s := topology.From(b, leftTopic)
		joined := topology.JoinStreamTable(s, topology.ToTable(s, leftTable), "join", plus)
		joined.Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 2 a y"), "a=x+x@1", "a=y+y@2")
}

// TestJoinStreamWithComputedTable: a table that keeps nothing is computed from those that do.
func TestJoinStreamWithComputedTable(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		double := topology.MapTable(topology.TableFrom(b, rightTopic, rightTable), "double",
			func(_, v string) (string, error) { return v + v, nil }).Filter("lower", isLower)
		topology.JoinStreamTable(topology.From(b, leftTopic), double, "join", plus).Into(resultTopic)
	})
	wantLines(t, k.script("right 1 a y", "left 2 a x", "right 3 a Y", "left 4 a x"), "", "a=x+yy@2", "", "")
}

// TestJoinStreamTableMistakes: what is wrong with a join.
func TestJoinStreamTableMistakes(t *testing.T) {
	b, other := topology.NewBuilder("one"), topology.NewBuilder("other")
	stream, table := topology.From(b, leftTopic), topology.TableFrom(b, rightTopic, rightTable)
	topology.JoinStreamTable(stream, topology.TableFrom(other, rightTopic, rightTable), "foreign", plus)
	topology.JoinStreamTable[string, string, string, string](stream, table, "nil", nil)
	topology.LeftJoinStreamTable[string, string, string, string](stream, table, "nil-left", nil)
	rekeyed := topology.SelectKey(stream, "by-value", func(r word) (string, error) { return r.Value, nil })
	topology.JoinStreamTable(rekeyed, table, "rekeyed", plus)
	topology.JoinStreamTable(rekeyed.Copartitioned(), table, "copartitioned", plus)
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a table cannot be joined: it belongs to another Builder",
		"nil: the function is nil",
		"nil-left: the function is nil",
		"rekeyed: the key may have been changed by node by-value")
}

// TestJoinStreamTableFailure: an error of the function fails the record and leaves the table as it
// is.
func TestJoinStreamTableFailure(t *testing.T) {
	k := streamJoinTask(t, func(s topology.Stream[string, string], table textTable) topology.Stream[string, string] {
		return topology.JoinStreamTable(s, table, "join", func(_, v, row string) (string, error) {
			if v == "bad" {
				return "", errors.New("bad")
			}
			return v + "+" + row, nil
		})
	})
	wantLines(t, k.script("right 1 a y"), "")
	if v := want(t, k.send("left", 2, "a", "bad"), topology.DeadLetter); v.Failure.Node != "join" {
		t.Errorf("the node of the failure is %q", v.Failure.Node)
	}
	wantLines(t, k.script("left 3 a x"), "a=x+y@3")
}
