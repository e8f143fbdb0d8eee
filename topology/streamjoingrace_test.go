package topology_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

func graceWords(b *topology.Builder, grace time.Duration, opts ...topology.NodeOption) words {
	return topology.LeftJoinStreamTableWithGrace(topology.From(b, leftTopic), topology.TableFrom(b, rightTopic, rightVersions), "join", grace,
		schemas.String(), schemas.String(), leftPlus, opts...)
}

// graceTask opens the task of a join with a grace of 10 ms.
func graceTask(tb testing.TB) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) { graceWords(b, 10*ms).Into(resultTopic) })
}

// TestJoinStreamTableWithGrace: a record waits for late changes of the table, several records of
// one key and time included. One that is later than the grace does not wait.
func TestJoinStreamTableWithGrace(t *testing.T) {
	k := graceTask(t)
	wantLines(t, k.script("right 10 a x", "left 20 b p", "left 20 a q", "left 20 a p", "right 15 a y", "left 29 c r", "right 16 a z", "left 30 d s",
		"left 19 a late", "left 20 a last", "right 28 c w", "left 15 b late", "left 1000 e t"),
		"", "", "", "", "", "", "", "a=q+z@20 a=p+z@20 b=p+?@20",
		"a=late+z@19", "a=last+z@20", "", "b=late+?@15", "c=r+w@29 d=s+?@30")
}

// TestInnerJoinWithGrace: a record without a row ends when it has waited. Nulls are left out and
// move no time.
func TestInnerJoinWithGrace(t *testing.T) {
	stream := topology.Topic("left", topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
	table := topology.Topic("right", topology.Nullable(schemas.String()), schemas.String())
	rows := topology.VersionedStore("rows", optionText{}, schemas.String(), 20*ms)
	k := tableTask(t, func(b *topology.Builder) {
		topology.JoinStreamTableWithGrace(topology.From(b, stream), topology.TableFrom(b, table, rows), "join", 10*ms, optionText{}, optionText{},
			func(_, v textOpt, row string) (string, error) { return v.Or("null") + "+" + row, nil }).Into(topology.Topic("result", optionText{}, schemas.String()))
	})
	wantLines(t, k.script("right 10 a x", "left 20 a p", "left 20 b q", "left 100 a -", "left 100 - q", "left 30 c r"),
		"", "", "", "", "", "a=p+x@20")
	if got := countsOf(k.send("left", 30, "a", "-")) + " " + countsOf(k.send("left", 30, "-", "x")); got != "join.null-value=1 join.null-key=1" {
		t.Errorf("counted are %q", got)
	}
}

// TestNullKeyDoesNotWait: it has no row, whatever comes.
func TestNullKeyDoesNotWait(t *testing.T) {
	stream := topology.Topic("left", topology.Nullable(schemas.String()), schemas.String())
	rows := topology.VersionedStore("rows", optionText{}, schemas.String(), 20*ms)
	k := tableTask(t, func(b *topology.Builder) {
		right := topology.Topic("right", topology.Nullable(schemas.String()), schemas.String())
		topology.LeftJoinStreamTableWithGrace(topology.From(b, stream), topology.TableFrom(b, right, rows), "join", 10*ms, optionText{}, schemas.String(),
			func(_ textOpt, v string, row textOpt) (string, error) { return v + "+" + row.Or("?"), nil }).
			Into(topology.Topic("result", topology.Nullable(schemas.String()), schemas.String()))
	})
	wantLines(t, k.script("left 20 - p", "left 20 a q", "left 30 b r"), "=p+?@20", "", "a=q+?@20")
}

// TestGraceKeepsHeaders: a record that has waited has its headers, nulls included, and its mode,
// which is requirement I1. It has no source.
func TestGraceKeepsHeaders(t *testing.T) {
	var sources []string
	k := tableTask(t, func(b *topology.Builder) {
		graceWords(b, 10*ms).Peek("look", func(r word) error {
			topic, _, _ := r.Source()
			sources = append(sources, topic)
			return nil
		}).Into(resultTopic)
	})
	in := k.input("left", []byte("a"), []byte("x"))
	in.Timestamp = 20
	in.Headers = []topology.Header{{Key: "trace", Value: []byte("t")}, {Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "trace", Value: []byte("u")}}
	want(t, k.graph.Process(in), graph.Accept)
	k.sendAs(t, "REPAIR", "left", 21, "b", "y")
	out := k.sendAs(t, "", "left", 31, "c", "z")
	if len(out) != 2 {
		t.Fatalf("%d records are written", len(out))
	}
	if got, wanted := fmt.Sprintf("%q", out[0].Headers), fmt.Sprintf("%q", in.Headers); got != wanted || out[0].Headers[1].Value != nil || out[0].Headers[2].Value == nil {
		t.Errorf("the headers are %s, want %s", got, wanted)
	}
	if modeOf(out[1].Headers) != "[REPAIR]" {
		t.Errorf("the mode is %s", modeOf(out[1].Headers))
	}
	if !slices.Equal(sources, []string{"", ""}) {
		t.Errorf("the sources are %q", sources)
	}
}

// TestFailedRecordEndsNoWait: the clock and the rows go back with a record that fails, and what was
// due comes with the next one.
func TestFailedRecordEndsNoWait(t *testing.T) {
	refuse := true
	k := tableTask(t, func(b *topology.Builder) {
		graceWords(b, 10*ms).Peek("refuse", func(word) error {
			if refuse {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return nil
		}).Into(resultTopic)
	})
	wantLines(t, k.script("left 20 a x", "left 21 b y"), "", "")
	want(t, k.send("left", 500, "c", "z"), topology.DeadLetter)
	refuse = false
	wantLines(t, k.script("left 30 d v", "left 31 e w"), "a=x+?@20", "b=y+?@21")
}

// TestGraceGoldenRows: the rows of the store, which a later version has to read.
func TestGraceGoldenRows(t *testing.T) {
	k := graceTask(t)
	in := k.input("left", []byte("a"), []byte("pq"))
	in.Timestamp, in.Headers = 20, []topology.Header{{Key: "id", Value: []byte("7")}, {Key: "n"}}
	want(t, k.graph.Process(in), graph.Accept)
	k.script("left 20 a r", "left 20 ab s")
	k.sendAs(t, "REPAIR", "left", 21, "b", "x")
	store := topology.KeyValueStore("join-buffer", schemas.Bytes(), schemas.Bytes())
	var got []string
	for e, err := range store.Open(k.state.Store("join-buffer")).All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, hex.EncodeToString(e.Key)+"="+hex.EncodeToString(e.Value))
	}
	repair := hex.EncodeToString([]byte(topology.HeaderMode)) + "07" + "524550414952"
	wantLines(t, strings.Join(got, "\n"),
		"0000000000000014"+"61"+"00000000"+"="+"01"+"00"+"02"+"02"+"6964"+"02"+"37"+"01"+"6e"+"00"+"7071",
		"0000000000000014"+"61"+"00000001"+"="+"01"+"00"+"00"+"72",
		"0000000000000014"+"6162"+"00000000"+"="+"01"+"00"+"00"+"73",
		"0000000000000015"+"62"+"00000000"+"="+"01"+"06524550414952"+"01"+fmt.Sprintf("%02x", len(topology.HeaderMode))+repair+"78")
}

// TestGraceRowsThatAreBroken stop the task.
func TestGraceRowsThatAreBroken(t *testing.T) {
	key := append(make([]byte, 8), 'a', 0, 0, 0, 0)
	for _, row := range [][2][]byte{
		{key, {}}, {key, {2, 0, 0}}, {key, {1}}, {key, {1, 9, 0}}, {key, {1, 0, 200, 1}}, {key, {1, 0, 1, 9}}, {key, {1, 0, 1, 1, 'k', 5}},
		{make([]byte, 11), {1, 0, 0}},
	} {
		k := graceTask(t)
		if err := k.state.Store("join-buffer").Put(row[0], row[1]); err != nil {
			t.Fatal(err)
		}
		if v := want(t, k.send("left", 500, "b", "x"), topology.Stop); v.Failure.Class != topology.Corruption {
			t.Errorf("%x: the failure is %v", row, v.Failure)
		}
	}
}

// TestGraceMayChange: what waits with one grace is passed on with another one.
func TestGraceMayChange(t *testing.T) {
	build := func(grace time.Duration) *topology.Topology {
		b := topology.NewBuilder("grace", topology.DeadLetters("dead"))
		graceWords(b, grace).Into(resultTopic)
		return mustBuild(t, b)
	}
	id := graph.TaskID{Subtopology: build(ms).Subtopologies()[0].Name}
	k := openTask(t, build(20*ms), id, baseConfig())
	reopen := func(grace time.Duration) {
		g, err := build(grace).NewGraph(id, k.state, baseConfig())
		if err != nil {
			t.Fatal(err)
		}
		k.graph = g
	}
	wantLines(t, k.script("left 100 a x", "left 110 b y", "left 115 c z"), "", "", "")
	reopen(5 * ms)
	wantLines(t, k.script("left 113 d w", "left 118 e v"), "a=x+?@100 b=y+?@110", "d=w+?@113")
	reopen(20 * ms)
	wantLines(t, k.script("left 119 f u", "left 135 g t"), "", "c=z+?@115")
}

// graceModel is a join with a grace made of lists.
type graceModel struct {
	grace, history int64
	inner          bool
	tableTime, now int64
	versions       map[string]map[int64]string
	waiting        []event
	outputs        []string
}

func (m *graceModel) newest(key string, at int64) (from int64, value string) {
	from = -1
	for ms := range maps.Keys(m.versions[key]) {
		if ms <= at && ms > from {
			from, value = ms, m.versions[key][ms]
		}
	}
	return from, value
}

func (m *graceModel) join(e event) {
	from, value := m.newest(e.key, e.ms)
	if latest, _ := m.newest(e.key, 1<<62); e.ms < m.tableTime-m.history && latest != from {
		value = "" // the history does not go back so far
	}
	switch {
	case value != "" && value != "-":
		m.outputs = append(m.outputs, fmt.Sprintf("%s=%s+%s@%d", e.key, e.value, value, e.ms))
	case !m.inner:
		m.outputs = append(m.outputs, fmt.Sprintf("%s=%s+?@%d", e.key, e.value, e.ms))
	}
}

func (m *graceModel) process(e event) {
	if e.topic == "right" {
		if e.ms < m.tableTime-m.history {
			return
		}
		m.tableTime = max(m.tableTime, e.ms)
		if m.versions[e.key] == nil {
			m.versions[e.key] = map[int64]string{}
		}
		m.versions[e.key][e.ms] = e.value
		return
	}
	if e.ms < m.now-m.grace {
		m.join(e)
		return
	}
	m.now = max(m.now, e.ms)
	m.waiting = append(m.waiting, e)
	slices.SortStableFunc(m.waiting, func(a, b event) int { return cmp.Or(cmp.Compare(a.ms, b.ms), strings.Compare(a.key, b.key)) })
	for len(m.waiting) > 0 && m.waiting[0].ms <= m.now-m.grace {
		m.join(m.waiting[0])
		m.waiting = m.waiting[1:]
	}
}

// TestJoinStreamTableWithGraceIsTheModel: whatever comes, and wherever the application is killed or
// has a transaction aborted, the results are those of lists that are never lost.
func TestJoinStreamTableWithGraceIsTheModel(t *testing.T) {
	text := schemas.String()
	rapid.Check(t, func(rt *rapid.T) {
		m := &graceModel{versions: map[string]map[int64]string{}, inner: rapid.Bool().Draw(rt, "inner")}
		m.grace = rapid.SampledFrom([]int64{1, 5, 20, 100}).Draw(rt, "grace")
		m.history = m.grace + rapid.SampledFrom([]int64{0, 1, 30}).Draw(rt, "history beyond the grace")
		b := topology.NewBuilder("model", topology.DeadLetters("dead"))
		stream := topology.From(b, leftTopic)
		store := topology.VersionedStore("right-table", text, text, time.Duration(m.history)*ms)
		table := topology.TableFrom(b, rightTopic, store)
		if grace := time.Duration(m.grace) * ms; m.inner {
			topology.JoinStreamTableWithGrace(stream, table, "join", grace, text, text, plus).Into(resultTopic)
		} else {
			topology.LeftJoinStreamTableWithGrace(stream, table, "join", grace, text, text, leftPlus).Into(resultTopic)
		}
		d, err := topologytest.New(mustBuild(t, b), topologytest.CommitByHand())
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range history(true, "left", "right").Draw(rt, "records") {
			value := []byte(e.value)
			if e.value == "-" {
				if value = nil; e.topic == "left" {
					continue
				}
			}
			if err := d.PipeRaw(e.topic, []byte(e.key), value, topologytest.At(time.UnixMilli(e.ms))); err != nil {
				rt.Fatal(err)
			}
			m.process(e)
			endOrGoOn(rt, d)
		}
		got := committedResults(rt, d)
		if !slices.Equal(got, m.outputs) {
			rt.Fatalf("grace %d, history %d: the results are %q, want %q", m.grace, m.history, got, m.outputs)
		}
	})
}

func TestJoinStreamTableWithGraceMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	text := schemas.String()
	stream, plain := topology.From(b, leftTopic), topology.TableFrom(b, rightTopic, rightTable)
	table := topology.TableFrom(b, otherTopic, leftVersions)
	join := func(t textTable, name string, grace time.Duration, value schemas.Codec[string]) {
		topology.JoinStreamTableWithGrace(stream, t, name, grace, text, value, plus)
	}
	join(plain, "plain", 10*ms, text)
	join(table, "long", 21*ms, text)
	join(table, "all-of-it", 20*ms, text)
	join(table, "none", 0, text)
	join(table, "uneven", 1500*time.Microsecond, text)
	join(table, "codec", 10*ms, nil)
	joined := topology.JoinTables(table, plain, "joined", plus)
	join(joined, "of-a-join", 10*ms, text)
	topology.LeftJoinStreamTableWithGrace[string, string, string, string](stream, table, "nil", 10*ms, text, text, nil)
	_, err := b.Build()
	wantMistakes(t, err,
		"plain: the table is not versioned",
		"long: store left-table keeps the history of the table for 20 ms, which is less than the grace, 21ms",
		"none: the grace is whole milliseconds, from 1 ms, not 0s",
		"uneven: the grace is whole milliseconds, from 1 ms, not 1.5ms",
		"codec: the value codec is nil",
		"of-a-join: the table is not versioned",
		"nil: the function is nil")
}
