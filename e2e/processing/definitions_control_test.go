//go:build unix

package processing

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// TestChoiceInMemoryIsFound is the negative control: a choice that keeps in memory what belongs
// into the transaction has switched for as long as its application lives. The kill shows it.
func TestChoiceInMemoryIsFound(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, choosesInMemory)
}

func choosesInMemory(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	s := newDefinitionScene(t, c)
	s.settings.ChoosesInMemory = true
	l := s.start(s.settings)
	s.feed()
	s.finish(l.Alive)
	s.second = s.start(s.beside)
	s.verify(l, firstDefinition, secondDefinition)
	l.End()
	l, _ = s.switches("end-after", firstDefinition, secondDefinition)
	s.feed()
	s.finish(s.alive(l.Alive))
	l.End()
	s.second.End()
	err := s.judged(topicServed, firstDefinition, secondDefinition)
	if err == nil {
		t.Fatal("the check finds nothing")
	}
	t.Log(err)
}

// TestDamagedAnswersAreFound damages what was served in every way that has a name.
func TestDamagedAnswersAreFound(t *testing.T) {
	cluster.SkipWithout(t, cluster.KindVirtual)
	t.Parallel()
	f := amounts{"a": {2, 3, 4, 5, 6, 7}, "b": {7, 6, 5, 4, 3, 2}}
	at := func(definition uint16, key string, version int64) servedRow {
		sum, _ := f.sum(definition, key, version)
		return servedRow{key: key, version: version, sum: sum}
	}
	by := func(definition uint16, key string, version int64) servedRow {
		a := at(definition, key, version)
		a.command = true
		return a
	}
	// The switch is at version 2, where a has come further in the second definition, and the roll
	// back at 4.
	right := func() []servedRow {
		return []servedRow{
			at(1, "a", 1), at(1, "b", 1), at(1, "b", 2), at(1, "a", 2),
			by(2, "a", 3), by(2, "b", 2),
			at(2, "b", 3), at(2, "a", 4), at(2, "b", 4),
			by(1, "a", 4), by(1, "b", 4),
			at(1, "a", 5), at(1, "b", 5), at(1, "b", 6), at(1, "a", 6),
		}
	}
	check := func(rows []servedRow) error {
		return f.check([][]servedRow{rows}, firstDefinition, secondDefinition, firstDefinition)
	}
	if err := check(right()); err != nil {
		t.Fatalf("right answers: %v", err)
	}
	without := func(from, to int) func([]servedRow) []servedRow {
		return func(r []servedRow) []servedRow { return slices.Delete(r, from, to) }
	}
	with := func(i int, more servedRow) func([]servedRow) []servedRow {
		return func(r []servedRow) []servedRow { return slices.Insert(r, i, more) }
	}
	for name, damage := range map[string]struct {
		do   func([]servedRow) []servedRow
		says string
	}{
		"lost":                             {without(1, 2), "it follows version 0"},
		"lost behind the switch":           {without(6, 7), "it follows version 2"},
		"lost in the end":                  {without(14, 15), "was served up to version 5, want 6"},
		"twice":                            {with(3, at(1, "b", 2)), "it follows version 2"},
		"passed on twice":                  {with(6, by(2, "b", 2)), "it is no part of a switch"},
		"another sum":                      {func(r []servedRow) []servedRow { r[7].sum.Sum++; return r }, "want 54"},
		"of the other definition":          {func(r []servedRow) []servedRow { r[7] = at(1, "a", 4); return r }, "has not answered for 2 keys"},
		"a version from nowhere":           {with(15, servedRow{key: "a", version: 7, sum: definedSum{firstDefinition, 34}}), "want 0"},
		"the second before the switch":     {with(1, at(2, "a", 1)), "has not answered for 1 keys"},
		"the second from the beginning":    {with(0, at(2, "a", 1)), "definition 1 is the active one"},
		"the first after the switch":       {with(7, at(1, "a", 3)), "has not answered for 2 keys"},
		"the second after the roll back":   {with(12, at(2, "b", 5)), "definition 1 is the active one"},
		"a key that was not switched":      {without(5, 6), "has not answered for 1 keys"},
		"a key that was not rolled back":   {without(10, 11), "has not answered for 1 keys"},
		"a key that was switched later":    {func(r []servedRow) []servedRow { r[5], r[7] = r[7], r[5]; return r }, "has not answered for 1 keys"},
		"back to behind what was served":   {func(r []servedRow) []servedRow { r[9] = by(1, "a", 3); return r }, "version 4 was served before"},
		"never switched":                   {func([]servedRow) []servedRow { return rowsOfOne(f, firstDefinition) }, "0 of 2 switches"},
		"never rolled back":                {without(9, 15), "1 of 2 switches"},
		"a switch of which a half is lost": {without(5, 15), "1 of 2 switches were seen, and the last definition has not answered for 1 keys"},
	} {
		err := check(damage.do(right()))
		if err == nil || !strings.Contains(err.Error(), damage.says) {
			t.Errorf("%s: the check finds %v, want something with %q", name, err, damage.says)
		}
	}
	if err := f.check([][]servedRow{rowsOfOne(f, secondDefinition), nil}, secondDefinition); err != nil {
		t.Errorf("right rows of one definition: %v", err)
	}
	if f.check([][]servedRow{nil, nil}, secondDefinition) == nil {
		t.Error("that there are no rows was not found")
	}
}

// rowsOfOne are the rows of one definition.
func rowsOfOne(f amounts, definition uint16) (rows []servedRow) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		for i := range f[key] {
			sum, _ := f.sum(definition, key, int64(i)+1)
			rows = append(rows, servedRow{key: key, version: int64(i) + 1, sum: sum})
		}
	}
	return rows
}
