package topology_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func suppressed(b *topology.Builder, until topology.Suppression) textTable {
	return topology.TableFrom(b, leftTopic, leftTable).Suppress("limit", schemas.String(), schemas.String(), until)
}

// suppressedTask shows the values and the changes of a table that is suppressed.
func suppressedTask(tb testing.TB, until topology.Suppression) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) {
		table := suppressed(b, until)
		table.Into(resultTopic)
		showChanges(table)
	})
}

// TestSuppress: changes of a key that come within the limit become one, which has the old value
// that was emitted last. The limit counts from the first of them. A late change is emitted at once.
func TestSuppress(t *testing.T) {
	k := suppressedTask(t, topology.UntilTimeLimit(10*ms))
	wantLines(t, k.script("left 20 b p", "left 22 a q", "left 25 b r", "left 29 a s", "left 30 c t", "left 32 b u", "left 41 c v", "left 60 a -",
		"left 10 d w", "left 61 d x", "left 80 e y"),
		"", "", "", "",
		"b=r@25 b=->r@25",
		"a=s@29 a=->s@29",
		"c=v@41 c=->v@41",
		"b=u@32 b=r>u@32",
		"d=w@10 d=->w@10",
		"",
		"a=-@60 a=s>-@60 d=x@61 d=w>x@61")
}

// TestSuppressDeletes: a key that was deleted while it waited is deleted by what is emitted, as in
// Kafka Streams.
func TestSuppressDeletes(t *testing.T) {
	k := suppressedTask(t, topology.UntilTimeLimit(10*ms))
	wantLines(t, k.script("left 20 a p", "left 21 a -", "left 30 b q"), "", "", "a=-@21 a=->-@21")
}

// TestSuppressMaxRecords: if too many keys wait, the oldest are emitted early.
func TestSuppressMaxRecords(t *testing.T) {
	k := suppressedTask(t, topology.UntilTimeLimit(time.Hour).MaxRecords(2))
	wantLines(t, k.script("left 20 b p", "left 20 a q", "left 21 b r", "left 22 c s", "left 5 d t", "left 23 b u"),
		"", "", "", "a=q@20 a=->q@20", "d=t@5 d=->t@5", "")
	wantLines(t, k.script("left 24 e v"), "b=u@23 b=->u@23")
}

// TestSuppressMaxBytes: so they are if too many bytes wait. A change that is larger than the bound
// does not wait.
func TestSuppressMaxBytes(t *testing.T) {
	k := suppressedTask(t, topology.UntilTimeLimit(time.Hour).MaxBytes(98))
	wantLines(t, k.script("left 20 a p", "left 21 b q", "left 22 c r", "left 23 d "+strings.Repeat("s", 200)),
		"", "", "a=p@20 a=->p@20",
		"b=q@21 b=->q@21 c=r@22 c=->r@22 d="+strings.Repeat("s", 200)+"@23 d=->"+strings.Repeat("s", 200)+"@23")
}

// TestSuppressedTableInAJoin: a join finds what was emitted last, and not what waits.
func TestSuppressedTableInAJoin(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := suppressed(b, topology.UntilTimeLimit(10*ms))
		topology.LeftJoinTables(topology.TableFrom(b, rightTopic, rightTable), table, "join",
			func(_, r string, l textOpt) (string, error) { return r + "+" + l.Or("?"), nil }).Into(resultTopic)
	})
	wantLines(t, k.script("right 1 a x", "left 2 a p", "right 3 a y", "left 12 b q", "left 13 a r", "right 14 a z", "left 30 b s", "right 31 a w"),
		"a=x+?@1", "", "a=y+?@3", "a=y+p@3", "", "a=z+p@14", "a=z+r@14", "a=w+r@31")
}

// TestSuppressGroups: an aggregation of a suppressed table subtracts what it has added.
func TestSuppressGroups(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		group := topology.GroupTable(suppressed(b, topology.UntilTimeLimit(10*ms)), "groups", schemas.String(), schemas.String(),
			func(_, v string) (string, string, error) { return v, v, nil })
		topology.CountTable(group, countTable).Into(countTopic)
	})
	for i, v := range []string{"x", "y", "z"} {
		d.pipe("left", int64(i), "a", v)
	}
	d.pipe("left", 50, "b", "z")
	d.pipe("left", 51, "a", "x")
	d.pipe("left", 52, "a", "y")
	d.pipe("left", 100, "c", "w")
	d.want("counted", "z=1@2", "z=2@50", "z=1@52", "y=1@52")
}

// TestSuppressMode is requirement I1: what is emitted is live if one of its changes was, and
// otherwise in the mode of the first.
func TestSuppressMode(t *testing.T) {
	for _, test := range []struct {
		modes []string
		want  string
	}{
		{[]string{"", "REPAIR"}, ""},
		{[]string{"REPAIR", ""}, ""},
		{[]string{"REPAIR", "BACKFILL"}, "[REPAIR]"},
	} {
		k := suppressedTask(t, topology.UntilTimeLimit(10*ms))
		for i, mode := range test.modes {
			k.sendAs(t, mode, "left", int64(i), "a", "x")
		}
		out := k.sendAs(t, "", "left", 50, "b", "y")
		if len(out) != 2 || modeOf(out[0].Headers) != test.want {
			t.Errorf("%v: %v is written, want the mode %q", test.modes, out, test.want)
		}
	}
}

// TestFailedRecordEmitsNothing: the clock and the rows of the buffer go back, and all that waits is
// emitted later.
func TestFailedRecordEmitsNothing(t *testing.T) {
	refuse := true
	k := tableTask(t, func(b *topology.Builder) {
		table := suppressed(b, topology.UntilTimeLimit(10*ms))
		table.Stream().Peek("refuse", func(topology.Record[string, textOpt]) error {
			if refuse {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return nil
		})
		table.Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 5 b y"), "", "")
	want(t, k.send("left", 50, "c", "z"), topology.DeadLetter)
	refuse = false
	wantLines(t, k.script("left 14 d w", "left 15 d v"), "a=x@1", "b=y@5")
}

// TestSuppressGoldenRows: the rows of the store, which a later version has to read.
func TestSuppressGoldenRows(t *testing.T) {
	k := suppressedTask(t, topology.UntilTimeLimit(10*ms))
	k.script("left 1 a p", "left 20 a q", "left 21 a r")
	k.sendAs(t, "REPAIR", "left", 22, "b", "x")
	store := topology.KeyValueStore("limit", schemas.Bytes(), schemas.Bytes())
	var got []string
	for e, err := range store.Open(k.state.Store("limit")).All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, hex.EncodeToString(e.Key)+"="+hex.EncodeToString(e.Value))
	}
	wantLines(t, strings.Join(got, "\n"),
		"6b61=01"+"0000000000000015"+"0000000000000015"+"00"+"0271"+"0272",
		"6b62=01"+"0000000000000016"+"0000000000000016"+"06524550414952"+"00"+"0278",
		"6e="+"0000000000000002"+"0000000000000049",
		"740000000000000015"+"61=",
		"740000000000000016"+"62=")
}

// suppressModel is a suppression as simple as can be.
type suppressModel struct {
	limit, records int64
	clock          int64
	waiting        []suppressedEvent
	emitted        map[string]string
}

type suppressedEvent struct {
	since int64
	event
}

// add returns what is emitted with an event, as the outputs show it.
func (m *suppressModel) add(e event) (emitted []string) {
	m.clock = max(m.clock, e.ms)
	if i := slices.IndexFunc(m.waiting, func(w suppressedEvent) bool { return w.key == e.key }); i >= 0 {
		m.waiting[i].event = e
	} else {
		m.waiting = append(m.waiting, suppressedEvent{e.ms, e})
	}
	slices.SortFunc(m.waiting, func(x, y suppressedEvent) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.key, y.key))
	})
	for len(m.waiting) > 0 && (m.waiting[0].since <= m.clock-m.limit || m.records > 0 && int64(len(m.waiting)) > m.records) {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		old := cmp.Or(m.emitted[w.key], "-")
		emitted = append(emitted, fmt.Sprintf("%s=%s>%s@%d", w.key, old, w.value, w.ms))
		m.emitted[w.key] = w.value
	}
	return emitted
}

// TestSuppressModel compares what is emitted with the model, also with restarts and a limit that
// changes.
func TestSuppressModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(1, 40).Draw(rt, "limit")
		records := rapid.Int64Range(0, 2).Draw(rt, "records")
		build := func() *topology.Topology {
			b := topology.NewBuilder("suppressed", topology.DeadLetters("dead"))
			table := suppressed(b, topology.UntilTimeLimit(time.Duration(limit)*ms).MaxRecords(records))
			showChanges(table)
			return mustBuild(t, b)
		}
		top := build()
		id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
		k := openTask(t, top, id, baseConfig())
		model := &suppressModel{limit: limit, records: records, emitted: map[string]string{}}
		for _, e := range history(true, "left").Draw(rt, "history") {
			if rapid.IntRange(0, 4).Draw(rt, "restart") == 0 {
				limit = rapid.Int64Range(1, 40).Draw(rt, "another limit")
				model.limit = limit
				g, err := build().NewGraph(id, k.state, baseConfig())
				if err != nil {
					rt.Fatal(err)
				}
				k.graph = g
			}
			var got []string
			for _, out := range want(t, k.send("left", e.ms, e.key, e.value), graph.Accept).Outputs {
				got = append(got, fmt.Sprintf("%s=%s@%d", out.Key, out.Value, out.Timestamp))
			}
			if wanted := model.add(e); !slices.Equal(got, wanted) {
				rt.Fatalf("after %v emitted are %v, want %v", e, got, wanted)
			}
		}
	})
}

func TestSuppressMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	table := topology.TableFrom(b, leftTopic, leftTable)
	text := schemas.String()
	table.Suppress("none", text, text, topology.Suppression{})
	table.Suppress("short", text, text, topology.UntilTimeLimit(time.Microsecond))
	table.Suppress("bound", text, text, topology.UntilTimeLimit(time.Second).MaxBytes(-1))
	table.Suppress("codec", text, nil, topology.UntilTimeLimit(time.Second))
	_, err := b.Build()
	wantMistakes(t, err,
		"none: the suppression has no limit; UntilTimeLimit makes one",
		"short: the time limit is whole milliseconds, from 1 ms to 100 years, not 1µs",
		"bound: the bounds of a suppression are not negative",
		"codec: the value codec is nil")
}
