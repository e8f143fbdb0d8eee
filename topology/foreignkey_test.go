package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// byInitial makes the first character of a value its foreign key. A value that begins with n has
// none.
func byInitial(_, v string) (textOpt, error) {
	switch {
	case v == "bad":
		return textOpt{}, topology.Fail(topology.Validation, schemas.Reason("the foreign key is unreadable"))
	case strings.HasPrefix(v, "n"):
		return textOpt{}, nil
	}
	return topology.Some(v[:1]), nil
}

func innerForeign(left, right textTable, opts ...topology.RepartitionOption) textTable {
	return topology.JoinForeignKey(left, right, "join", byInitial, plus, opts...)
}

func leftForeign(left, right textTable, opts ...topology.RepartitionOption) textTable {
	return topology.LeftJoinForeignKey(left, right, "join", byInitial, leftPlus, opts...)
}

type foreignJoin func(left, right textTable, opts ...topology.RepartitionOption) textTable

func declareForeign(join foreignJoin) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		join(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable)).Into(resultTopic)
	}
}

// steps sends records, each written as "topic time key value", and compares what is written to the
// topic result after each.
func (d *driven) steps(steps ...[2]string) {
	d.tb.Helper()
	for _, s := range steps {
		var topic, key, value string
		var ms int64
		if _, err := fmt.Sscan(s[0], &topic, &ms, &key, &value); err != nil {
			d.tb.Fatalf("%q: %v", s[0], err)
		}
		d.pipe(topic, ms, key, value)
		if raw := d.results(); raw != s[1] {
			d.tb.Errorf("after %q there are %q, want %q", s[0], raw, s[1])
		}
	}
}

// results returns what was written to the topic result since the last time.
func (d *driven) results() string {
	d.tb.Helper()
	raw, err := d.OutputRaw("result")
	if err != nil {
		d.tb.Fatal(err)
	}
	got := make([]string, len(raw))
	for i, r := range raw {
		got[i] = fmt.Sprintf("%s=%s@%d", r.Key, shown(r.Value), r.Timestamp)
	}
	return strings.Join(got, " ")
}

// TestJoinForeignKey: changes and deletes of both sides, foreign keys that change, come and go, and
// the times of results.
func TestJoinForeignKey(t *testing.T) {
	d := newDriven(t, declareForeign(innerForeign))
	d.steps([][2]string{
		{"left 1 a x1", ""},
		{"right 5 x R", "a=x1+R@5"},
		{"left 3 b x2", "b=x2+R@5"},
		{"left 9 a x3", "a=x3+R@9"},
		{"right 2 x S", "a=x3+S@2 b=x2+S@2"},
		{"left 10 a y1", "a=-@10"},
		{"left 11 a y2", ""},
		{"right 12 y T", "a=y2+T@12"},
		{"left 13 a x4", "a=x4+S@13"},
		{"right 14 y U", ""},
		{"left 13 a n1", "a=-@13"},
		{"left 14 a n2", ""},
		{"left 15 b -", "b=-@15"},
		{"left 16 c -", ""},
		{"right 17 x -", ""},
		{"left 18 d x1", ""},
		{"right 19 x -", "d=-@19"},
		{"right 4 z Z", ""},
		{"left 2 e z1", "e=z1+Z@4"},
		{"left 1 e n", "e=-@4"},
		{"left 3 e z", "e=z+Z@4"},
		{"left 1 e -", "e=-@4"},
	}...)
	if n := d.Count("join", "null-foreign-key"); n != 3 {
		t.Errorf("%d rows without a foreign key are counted, want 3", n)
	}
	if n := d.Count("join", "late-answer"); n != 0 {
		t.Errorf("%d answers are late", n)
	}
}

func TestLeftJoinForeignKey(t *testing.T) {
	d := newDriven(t, declareForeign(leftForeign))
	d.steps([][2]string{
		{"left 1 a x1", "a=x1+?@1"},
		{"right 5 x R", "a=x1+R@5"},
		{"left 2 a n1", "a=n1+?@2"},
		{"right 6 x S", ""},
		{"left 3 a -", "a=-@3"},
		{"left 4 a -", ""},
		{"left 5 b x1", "b=x1+S@6"},
		{"left 7 b y1", "b=y1+?@7"},
		{"right 8 x -", ""},
		{"left 9 c x1", "c=x1+?@9"},
		{"right 10 x -", "c=x1+?@10"},
		{"left 11 c -", "c=-@11"},
		{"left 12 d n", "d=n+?@12"},
		{"left 13 d -", "d=-@13"},
	}...)
	if n := d.Count("join", "null-foreign-key"); n != 0 {
		t.Errorf("%d rows without a foreign key are counted, and the left join has a result for each", n)
	}
}

// TestForeignKeyHeaders: a result has the headers of the record that made it, of either side.
func TestForeignKeyHeaders(t *testing.T) {
	d := newDriven(t, declareForeign(innerForeign))
	for _, r := range []struct{ topic, key, value string }{{"left", "a", "x1"}, {"right", "x", "R"}, {"left", "a", "x2"}} {
		if err := d.PipeRaw(r.topic, []byte(r.key), []byte(r.value), topologytest.Header("id", r.topic+r.value)); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := d.OutputRaw("result")
	if err != nil || len(raw) != 2 {
		t.Fatalf("the results are %v, %v", raw, err)
	}
	for i, want := range []string{"rightR", "leftx2"} {
		if h := raw[i].Headers; len(h) != 1 || string(h[0].Value) != want {
			t.Errorf("result %d has the headers %v, want %s", i, h, want)
		}
	}
}

// TestForeignKeyToItself: a table that is joined with itself has results of both sides.
func TestForeignKeyToItself(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		table := topology.TableFrom(b, leftTopic, leftTable)
		innerForeign(table, table).Into(resultTopic)
	})
	d.pipe("left", 1, "x", "root")
	d.pipe("left", 2, "b", "x1")
	if got := d.results(); got != "b=x1+root@2" {
		t.Errorf("the results are %q", got)
	}
	d.pipe("left", 3, "x", "x2")
	if got := d.results(); !strings.Contains(got, "x=x2+x2@3") || !strings.Contains(got, "b=x1+x2@3") {
		t.Errorf("the results are %q", got)
	}
}

// TestForeignKeyPartitions: the subscriptions have the partitions of the right table, the answers
// those of the left one.
func TestForeignKeyPartitions(t *testing.T) {
	b := topology.NewBuilder("tables")
	declareForeign(innerForeign)(b)
	counts, err := mustBuild(t, b).ResolvePartitions(map[string]int32{"left": 3, "right": 5})
	if want := "map[tables-join-answers-repartition:3 tables-join-subscriptions-repartition:5]"; fmt.Sprint(counts) != want || err != nil {
		t.Errorf("the partitions are %v, %v, want %s", counts, err, want)
	}
}

// byHand runs the join with commits by hand.
func byHand(tb testing.TB, join foreignJoin) *driven {
	tb.Helper()
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	declareForeign(join)(b)
	d, err := topologytest.New(mustBuild(tb, b), topologytest.CommitByHand(), topologytest.TopicPartitions("left", 3),
		topologytest.TopicPartitions("right", 2))
	if err != nil {
		tb.Fatal(err)
	}
	return &driven{tb, d}
}

// commit commits once, and all does so until nothing is left to do.
func (d *driven) commit() {
	d.tb.Helper()
	if err := d.Commit(); err != nil {
		d.tb.Fatal(err)
	}
}

func (d *driven) all() {
	d.tb.Helper()
	for d.Uncommitted() > 0 {
		d.commit()
	}
}

// TestLateAnswer: an answer for a value that the row has no more leaves no result, and is counted.
func TestLateAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		join         foreignJoin
		meanwhile    string
		want         string
		lateAtTheEnd int64
	}{
		"another value":       {innerForeign, "x2", "a=x2+R@2", 1},
		"another foreign key": {innerForeign, "y2", "a=y2+S@2", 1},
		"no foreign key":      {innerForeign, "n2", "a=-@2", 1},
		"deleted":             {innerForeign, "-", "a=-@2", 1},
		"left, deleted":       {leftForeign, "-", "a=-@2", 1},
		// The delete comes twice: it is the answer to the last value, and to the question that the
		// late answer leads to.
		"no row":         {innerForeign, "z2", "a=-@2 a=-@2", 1},
		"left, no key":   {leftForeign, "n2", "a=n2+?@2", 1},
		"the same value": {innerForeign, "x1", "a=x1+R@1 a=x1+R@2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := byHand(t, test.join)
			d.pipe("right", 0, "x", "R")
			d.pipe("right", 0, "y", "S")
			d.all()
			d.pipe("left", 1, "a", "x1")
			d.commit() // the right side has answered, and the answer is not committed
			d.pipe("left", 2, "a", test.meanwhile)
			d.all()
			if got := d.results(); got != test.want {
				t.Errorf("the results are %q, want %q", got, test.want)
			}
			if n := d.Count("join", "late-answer"); n != test.lateAtTheEnd {
				t.Errorf("%d answers are late, want %d", n, test.lateAtTheEnd)
			}
		})
	}
}

// TestForeignKeyInterrupted: whatever ends the program at whichever step of an exchange, each
// result comes once.
func TestForeignKeyInterrupted(t *testing.T) {
	interruptions := map[string]func(d *driven) error{
		"crash": func(d *driven) error { return d.Crash() }, "abort": func(d *driven) error { return d.Abort() },
		"restart": func(d *driven) error { return d.Restart() },
	}
	for name, interrupt := range interruptions {
		for at := range 12 {
			t.Run(fmt.Sprint(name, " at step ", at), func(t *testing.T) {
				d := byHand(t, innerForeign)
				step := 0
				next := func() {
					if step == at {
						if err := interrupt(d); err != nil {
							t.Fatal(err)
						}
					}
					step++
				}
				settle := func() {
					next()
					for d.Uncommitted() > 0 {
						d.commit()
						next()
					}
				}
				d.pipe("right", 1, "x", "R")
				settle()
				d.pipe("left", 2, "a", "x1")
				settle()
				d.pipe("left", 3, "a", "y1")
				settle()
				d.pipe("right", 4, "y", "S")
				settle()
				if got := d.results(); got != "a=x1+R@2 a=-@3 a=y1+S@4" {
					t.Errorf("the results are %q", got)
				}
				if step < at {
					t.Errorf("there are only %d steps", step)
				}
			})
		}
	}
}

// picky is a codec that refuses to write a key.
type picky struct{ schemas.Codec[string] }

func (c picky) Append(dst []byte, v string) ([]byte, error) {
	if v == "q" {
		return dst, &schemas.Error{Codec: c.Name(), Op: schemas.OpAppend, Offset: -1, Reason: "q is refused"}
	}
	return c.Codec.Append(dst, v)
}

// TestForeignKeyFailures: what cannot be read, written or joined costs its record, which leaves
// nothing behind.
func TestForeignKeyFailures(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		right := topology.Topic("right", schemas.Codec[string](picky{schemas.String()}), schemas.String())
		topology.JoinForeignKey(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, right, rightTable), "join", byInitial,
			func(_, l, r string) (string, error) {
				if r == "explode" {
					return "", errors.New("bad")
				}
				return l + "+" + r, nil
			}).Into(resultTopic)
	})
	d.steps([][2]string{
		{"right 1 x R", ""}, {"left 2 a x1", "a=x1+R@2"}, {"left 3 a bad", ""}, {"left 4 a q1", ""}, {"left 5 a x2", "a=x2+R@5"},
		{"right 6 x explode", ""}, {"left 7 b x3", ""}, {"right 8 x S", "a=x2+S@8 b=x3+S@8"},
	}...)
	letters, err := d.DeadLetters()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(letters))
	for i, l := range letters {
		got[i] = fmt.Sprintf("%s %s %s: %s", l.Info.Origin.Topic, l.Info.Node, l.Info.Class, l.Info.Message)
	}
	want := []string{
		"left join validation: the foreign key is unreadable",
		"left join poison: foreign key: schemas: append string: q is refused",
		"tables-join-answers-repartition join poison: error of type *errors.errorString",
		"tables-join-answers-repartition join poison: error of type *errors.errorString",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the dead letters are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestForeignKeyDamage: a row or a record that this build cannot have written stops the task.
func TestForeignKeyDamage(t *testing.T) {
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	declareForeign(innerForeign)(b)
	built := mustBuild(t, b)
	open := func(subtopology string) *task {
		config := baseConfig()
		return openTask(t, built, graph.TaskID{Subtopology: subtopology}, config)
	}
	right := open("join-subscriptions")
	for _, row := range []struct{ key, value string }{
		{"\x01\x00\x00\x00\x01xa", "short"}, {"\x01\x00\x00\x00\x01xa", strings.Repeat("h", 16) + "\x00\x00\x00\x09"},
	} {
		if err := right.state.Store("join-subscriptions").Put([]byte(row.key), []byte(row.value)); err != nil {
			t.Fatal(err)
		}
		v := want(t, right.graph.Process(right.input("right", []byte("x"), []byte("R"))), topology.Stop)
		if v.Failure.Class != topology.Corruption {
			t.Errorf("the row %q is a failure %v", row, v.Failure)
		}
	}
	v := want(t, right.graph.Process(right.input("tables-join-subscriptions-repartition", []byte("x"), []byte("\x02"))), topology.Stop)
	if v.Failure.Class != topology.Config || !strings.Contains(v.Failure.Err.Error(), "version 2 is not known") {
		t.Errorf("another version is a failure %v", v.Failure)
	}
}

// TestForeignKeyMistakes: what is wrong with a join.
func TestForeignKeyMistakes(t *testing.T) {
	b, other := topology.NewBuilder("one"), topology.NewBuilder("other")
	left, right := topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable)
	topology.JoinForeignKey(left, topology.TableFrom(other, rightTopic, rightTable), "foreign", byInitial, plus)
	topology.JoinForeignKey[string, string, string, string, string](left, right, "nil", byInitial, nil)
	topology.LeftJoinForeignKey(left, right, "nil-key", nil, leftPlus)
	topology.JoinForeignKey(left, right, "fixed", byInitial, plus, topology.Partitions(3))
	lengths := topology.MapTable(right, "length", func(_, v string) (int64, error) { return int64(len(v)), nil })
	topology.JoinForeignKey(left, lengths, "mapped", byInitial, func(_, l string, n int64) (string, error) { return l + fmt.Sprint(n), nil })
	topology.JoinForeignKey(lengths, right, "mapped-left", func(_ string, _ int64) (textOpt, error) { return textOpt{}, nil },
		func(_ string, _ int64, r string) (string, error) { return r, nil })
	counts := topology.CountWindows(topology.From(b, wordsTopic), hourly, hourStore("hours")).Table
	topology.JoinForeignKey(left, counts, "windows", func(_, _ string) (topology.Option[topology.Windowed[string]], error) {
		return topology.None[topology.Windowed[string]](), nil
	}, func(_, l string, _ int64) (string, error) { return l, nil })
	joined := topology.JoinForeignKey(left, right, "kept-nowhere", byInitial, plus)
	joined.Filter("of-nothing", isLower)
	joined.Changes()
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a table cannot be joined: it belongs to another Builder",
		"nil: the function is nil",
		"nil-key: the function is nil",
		"fixed: Partitions: the topics of a join have as many partitions as the tables",
		"mapped: the codec of the values of the right table is not known",
		"mapped-left: the codec of the values of the left table is not known",
		"windows: the codec of the values of the right table is not known",
		"kept-nowhere: the results of this join are in no store")
}

// TestForeignKeyKept: the results of a join can be kept, looked into and joined again.
func TestForeignKeyKept(t *testing.T) {
	kept := topology.TimestampedStore("kept", schemas.String(), schemas.String())
	third := topology.Topic("third", schemas.String(), schemas.String())
	thirdTable := topology.TimestampedStore("third-table", schemas.String(), schemas.String())
	d := newDriven(t, func(b *topology.Builder) {
		first := innerForeign(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable))
		table := topology.ToTableWithDeletes(first.Stream(), kept)
		topology.LeftJoinForeignKey(table, topology.TableFrom(b, third, thirdTable), "second",
			func(_, v string) (textOpt, error) { return topology.Some(v[len(v)-1:]), nil }, leftPlus).Into(resultTopic)
	})
	d.steps([][2]string{
		{"left 1 a x1", ""}, {"right 2 x R", "a=x1+R+?@2"}, {"third 3 R T", "a=x1+R+T@3"}, {"right 4 x S", "a=x1+S+?@4"}, {"left 5 a -", "a=-@5"},
	}...)
}

// TestForeignKeyOfTables: a join takes tables that are computed, aggregated or restored from their
// topics.
func TestForeignKeyOfTables(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		lower := topology.TableFrom(b, leftTopic, leftTable, topology.RestoreFromTopic()).Filter("lower", isLower)
		double := topology.MapTable(topology.TableFrom(b, rightTopic, rightTable, topology.RestoreFromTopic()), "double",
			func(_, v string) (string, error) { return v + v, nil })
		innerForeign(lower, double, topology.KeepOrigin(), topology.ParkKeys()).Into(resultTopic)
	})
	d.steps([][2]string{
		{"left 1 a x1", ""}, {"right 2 x R", "a=x1+RR@2"}, {"left 3 a X2", "a=-@3"}, {"left 4 a Y3", ""}, {"left 5 a x4", "a=x4+RR@5"},
	}...)
}

// TestForeignKeyStore: the store has a row for each subscription, and none for one that has ended.
func TestForeignKeyStore(t *testing.T) {
	d := newDriven(t, declareForeign(innerForeign))
	for _, r := range []struct{ key, value string }{{"a", "x1"}, {"b", "x1"}, {"c", "y1"}, {"a", "y2"}, {"b", "n"}, {"d", "z"}, {"d", "-"}} {
		d.pipe("left", 1, r.key, r.value)
	}
	rows, err := topologytest.Store(d.Driver, topology.KeyValueStore("join-subscriptions", schemas.Bytes(), schemas.Bytes()), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for p, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q", p.Key))
	}
	if want := `"\x01\x00\x00\x00\x01ya" "\x01\x00\x00\x00\x01yc"`; strings.Join(got, " ") != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
}

// TestForeignKeyAfterBuild: what is declared after Build changes nothing.
func TestForeignKeyAfterBuild(t *testing.T) {
	b := topology.NewBuilder("tables")
	left, right := topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable)
	top := mustBuild(t, b)
	before := top.Describe()
	innerForeign(left, right)
	if after := top.Describe(); after != before {
		t.Errorf("the topology has become\n%s", after)
	}
}

// TestForeignKeyNull: where a key can be null, a foreign key that is null is none.
func TestForeignKeyNull(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		right := topology.Topic("right", topology.Nullable(schemas.String()), schemas.String())
		rows := topology.TimestampedStore("rows", optionText{}, schemas.String())
		topology.JoinForeignKey(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, right, rows), "join",
			func(key, v string) (topology.Option[textOpt], error) {
				foreign, err := byInitial(key, v)
				return topology.Some(foreign), err
			}, plus).Into(resultTopic)
	})
	d.steps([][2]string{
		{"left 1 a x1", ""}, {"right 2 x R", "a=x1+R@2"}, {"left 3 a n", "a=-@3"}, {"left 4 a x2", "a=x2+R@4"},
	}...)
	if n := d.Count("join", "null-foreign-key"); n != 1 {
		t.Errorf("%d rows without a foreign key are counted, want 1", n)
	}
}

// TestForeignKeyOrigin: with KeepOrigin the dead letter of an answer names the record that has led
// to it.
func TestForeignKeyOrigin(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		topology.JoinForeignKey(topology.TableFrom(b, leftTopic, leftTable), topology.TableFrom(b, rightTopic, rightTable), "join", byInitial,
			func(_, _, _ string) (string, error) { return "", errors.New("bad") }, topology.KeepOrigin()).Into(resultTopic)
	})
	d.pipe("left", 1, "a", "x1")
	d.pipe("right", 2, "x", "R")
	d.pipe("left", 3, "a", "x2")
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 2 {
		t.Fatalf("the dead letters are %v, %v", letters, err)
	}
	for i, want := range []string{"right 0", "left 1"} {
		if s := letters[i].Info.Source; fmt.Sprint(s.Topic, " ", s.Offset) != want {
			t.Errorf("dead letter %d names %s %d, want %s", i, s.Topic, s.Offset, want)
		}
	}
}
