package topology_test

import (
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func plus(_, l, r string) (string, error) { return l + "+" + r, nil }

func leftPlus(_, l string, r textOpt) (string, error) { return l + "+" + r.Or("?"), nil }

func outerPlus(_ string, l, r textOpt) (string, error) { return l.Or("?") + "+" + r.Or("?"), nil }

// joinTask opens a task of a join of the two tables.
func joinTask(tb testing.TB, join func(left, right textTable) textTable, use func(joined textTable)) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) {
		use(join(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable)))
	})
}

func intoResult(t textTable) { t.Into(resultTopic) }

func innerJoin(left, right textTable) textTable {
	return topology.JoinTables(left, right, "join", plus)
}

func leftJoin(left, right textTable) textTable {
	return topology.LeftJoinTables(left, right, "join", leftPlus)
}

func outerJoin(left, right textTable) textTable {
	return topology.OuterJoinTables(left, right, "join", outerPlus)
}

// TestJoinTables: a change of either side, its time and its delete, also of a key that was never
// there.
func TestJoinTables(t *testing.T) {
	k := joinTask(t, innerJoin, intoResult)
	wantLines(t, k.script("left 1 a x", "right 2 a y", "left 5 a X", "right 3 a Y", "right 6 a -", "left 7 a z", "left 8 a -",
		"right 9 a y", "left 10 a -", "right 11 - y"),
		"", "a=x+y@2", "a=X+y@5", "a=X+Y@5", "a=-@6", "", "", "", "a=-@10", "")
}

func TestLeftJoinTables(t *testing.T) {
	k := joinTask(t, leftJoin, intoResult)
	wantLines(t, k.script("left 1 a x", "right 2 a y", "right 3 a -", "left 4 a -", "left 5 a -", "right 6 a y", "left 3 a z",
		"left 7 a -", "left 8 a -"),
		"a=x+?@1", "a=x+y@2", "a=x+?@3", "a=-@4", "", "", "a=z+y@6", "a=-@7", "a=-@8")
}

func TestOuterJoinTables(t *testing.T) {
	k := joinTask(t, outerJoin, intoResult)
	wantLines(t, k.script("left 1 a x", "left 2 a -", "left 3 a -", "right 4 a y", "left 2 a x", "right 5 a -", "left 6 a -",
		"right 7 a -"),
		"a=x+?@1", "a=-@2", "", "a=?+y@4", "a=x+y@4", "a=x+?@5", "a=-@6", "")
}

// TestJoinOldValues: the joined table says what was before, on both sides.
func TestJoinOldValues(t *testing.T) {
	changes := func(joined textTable) { showChanges(joined) }
	for name, test := range map[string]struct {
		join func(left, right textTable) textTable
		want []string
	}{
		"inner": {innerJoin, []string{"", "a=->x+y@2", "a=x+y>X+y@3", "a=X+y>X+Y@4", "a=X+Y>-@5", ""}},
		"left":  {leftJoin, []string{"a=->x+?@1", "a=x+?>x+y@2", "a=x+y>X+y@3", "a=X+y>X+Y@4", "a=X+Y>-@5", ""}},
		"outer": {outerJoin, []string{"a=->x+?@1", "a=x+?>x+y@2", "a=x+y>X+y@3", "a=X+y>X+Y@4", "a=X+Y>?+Y@5", "a=?+Y>-@6"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := joinTask(t, test.join, changes)
			wantLines(t, k.script("left 1 a x", "right 2 a y", "left 3 a X", "right 4 a Y", "left 5 a -", "right 6 a -"),
				test.want...)
		})
	}
}

// TestJoinOfJoins: a table that keeps nothing is computed from those that do, when the third table
// changes.
func TestJoinOfJoins(t *testing.T) {
	third := topology.Topic("third", schemas.String(), schemas.String())
	thirdTable := topology.TimestampedStore("third-table", schemas.String(), schemas.String())
	k := tableTask(t, func(b *topology.Builder) {
		lower := topology.TableFrom(b, leftTopic, leftTable).Filter("lower", isLower)
		double := topology.MapTable(topology.TableFrom(b, rightTopic, rightTable), "double",
			func(_, v string) (string, error) { return v + v, nil })
		inner := topology.OuterJoinTables(lower, double, "first", outerPlus)
		topology.JoinTables(inner, topology.TableFrom(b, third, thirdTable), "second", plus).Into(resultTopic)
	})
	wantLines(t, k.script("left 7 a x", "right 2 a y", "third 3 a z", "left 4 a X", "third 5 a w", "right 6 a -", "third 8 a v"),
		"", "", "a=x+yy+z@7", "a=?+yy+z@4", "a=?+yy+w@5", "a=-@6", "")
}

// TestSelfJoin: both sides see the change, one after the other.
func TestSelfJoin(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftTable)
		topology.JoinTables(table, table, "join", plus).Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 2 a y"), "a=x+x@1 a=x+x@1", "a=y+y@2 a=y+y@2")
}

// TestJoinMistakes: what is wrong with a join.
func TestJoinMistakes(t *testing.T) {
	b, other := topology.NewBuilder("one"), topology.NewBuilder("other")
	left, right := topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(other, rightTopic, rightTable)
	topology.JoinTables(left, right, "foreign", plus)
	topology.JoinTables[string, string, string, string](left, left, "nil", nil)
	topology.LeftJoinTables[string, string, string, string](left, left, "nil-left", nil)
	topology.OuterJoinTables[string, string, string, string](left, left, "nil-outer", nil)
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a table cannot be joined: it belongs to another Builder",
		"nil: the function is nil",
		"nil-left: the function is nil",
		"nil-outer: the function is nil")
}
