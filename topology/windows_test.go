package topology_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

const ms = time.Millisecond

type windowKey = topology.Windowed[string]

// windowStore keeps windows of texts.
func windowStore(w topology.Windows) topology.Store[state.Window[string, string]] {
	return topology.WindowStore("windows", schemas.String(), schemas.String(), w.Retention())
}

// named turns windowed keys into texts.
func named[V any](s topology.Stream[windowKey, V], name string) topology.Stream[string, V] {
	return topology.SelectKey(s, name, func(r topology.Record[windowKey, V]) (string, error) {
		return fmt.Sprintf("%s[%d,%d)", r.Key.Key, r.Key.Start, r.Key.End), nil
	})
}

// joined aggregates the values of windows: it puts them one behind the other.
func joined(b *topology.Builder, w topology.Windows) topology.WindowedTable[string, string] {
	keyed := topology.From(b, leftTopic, topology.SkipNullKeys())
	return topology.ReduceWindows(keyed, w, windowStore(w), func(sofar string, r word) (string, error) {
		if r.Value == "remove" {
			return "", topology.ErrRemove
		}
		return sofar + r.Value, nil
	})
}

// updatesTask shows every update.
func updatesTask(tb testing.TB, w topology.Windows) *task {
	tb.Helper()
	nullable := topology.Topic("result", schemas.String(), topology.Nullable(schemas.String()))
	return tableTask(tb, func(b *topology.Builder) { named(joined(b, w).Stream(), "name").Into(nullable) })
}

// closedTask shows windows that have closed.
func closedTask(tb testing.TB, w topology.Windows) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) { named(joined(b, w).Closed(), "name").Into(resultTopic) })
}

// TestTumbling: updates in order and out of order, the boundaries of a window and of its grace.
func TestTumbling(t *testing.T) {
	k := updatesTask(t, topology.Tumbling(10*ms).Grace(5*ms))
	wantLines(t, k.script("left 0 a p", "left 9 a q", "left 10 a r", "left 3 a s", "left 14 b t", "left 0 a u",
		"left 15 b v", "left 9 a w", "left 10 a x", "left 40 a y", "left 34 a z", "left 35 a z"),
		"a[0,10)=p@0", "a[0,10)=pq@9", "a[10,20)=r@10", "a[0,10)=pqs@9", "b[10,20)=t@14", "a[0,10)=pqsu@9", "b[10,20)=tv@15", "",
		"a[10,20)=rx@10", "a[40,50)=y@40", "a[30,40)=z@34", "a[30,40)=zz@35")
	if got := countsOf(want(t, k.send("left", 29, "a", "late"), graph.Accept)); got != "windows.late=1" {
		t.Errorf("a late record is counted as %q", got)
	}
}

// TestHopping: a record is in all windows that its time is in, the oldest first, and late for some
// of them. No window begins before the epoch.
func TestHopping(t *testing.T) {
	k := updatesTask(t, topology.Hopping(10*ms, 4*ms).Grace(1*ms))
	wantLines(t, k.script("left 3 a p", "left 9 a q", "left 13 a r", "left 8 a s"),
		"a[0,10)=p@3", "a[0,10)=pq@9 a[4,14)=q@9 a[8,18)=q@9", "a[4,14)=qr@13 a[8,18)=qr@13 a[12,22)=r@13",
		"a[4,14)=qrs@13 a[8,18)=qrs@13")
	if got := countsOf(want(t, k.send("left", 8, "a", "late"), graph.Accept)); got != "windows.late=1" {
		t.Errorf("a record that is late for one window is counted as %q", got)
	}
}

// TestWindowRemove: a removed window begins anew while it is open.
func TestWindowRemove(t *testing.T) {
	k := updatesTask(t, topology.Tumbling(10*ms))
	wantLines(t, k.script("left 5 a p", "left 6 a remove", "left 7 a remove", "left 2 a q"),
		"a[0,10)=p@5", "a[0,10)=-@6", "a[0,10)=remove@7", "a[0,10)=removeq@7")
}

// TestClosed: one record for each window, in the order of ends and keys, when the clock has passed
// the grace; also when it jumps.
func TestClosed(t *testing.T) {
	k := closedTask(t, topology.Tumbling(10*ms).Grace(5*ms))
	wantLines(t, k.script("left 1 b p", "left 3 a q", "left 12 a r", "left 4 a s", "left 14 c t", "left 15 c u",
		"left 15 c v", "left 500 a w", "left 515 - x", "left 515 a y"),
		"", "", "", "", "", "a[0,10)=qs@4 b[0,10)=p@1", "", "a[10,20)=r@12 c[10,20)=tuv@15", "", "a[500,510)=w@500")
	in := k.input("left", []byte("a"), []byte("x"))
	in.Timestamp, in.Headers = 1000, []topology.Header{{Key: "trace", Value: []byte("1")}}
	v := want(t, k.graph.Process(in), graph.Accept)
	if len(v.Outputs) != 1 || len(v.Outputs[0].Headers) != 0 {
		t.Errorf("the outputs are %v, want one without the headers of the record that has closed the window", v.Outputs)
	}
}

// TestClosedHopping: windows that overlap close one after the other.
func TestClosedHopping(t *testing.T) {
	k := closedTask(t, topology.Hopping(10*ms, 5*ms))
	wantLines(t, k.script("left 7 b p", "left 7 a q", "left 9 a r", "left 10 c s", "left 14 c t", "left 30 c u"),
		"", "", "", "a[0,10)=qr@9 b[0,10)=p@7", "", "a[5,15)=qr@9 b[5,15)=p@7 c[5,15)=st@14 c[10,20)=st@14")
}

// TestClosedRemoved: a window that is empty in the end has no record, and one that was empty for a
// time has one.
func TestClosedRemoved(t *testing.T) {
	k := closedTask(t, topology.Tumbling(10*ms))
	wantLines(t, k.script("left 1 a p", "left 2 a remove", "left 1 b p", "left 2 b remove", "left 3 b q", "left 20 c r"),
		"", "", "", "", "", "b[0,10)=q@3")
	// What was closed is not in the index any more.
	wantLines(t, k.script("left 30 c s"), "c[20,30)=r@20")
}

// TestFailedRecordClosesNothing: the clock of the node goes back, and the windows are still open.
func TestFailedRecordClosesNothing(t *testing.T) {
	w := topology.Tumbling(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		s := topology.From(b, leftTopic)
		table := topology.AggregateWindows(s, w, windowStore(w), nil, func(sofar string, r word) (string, error) {
			if r.Value == "fail" {
				return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return sofar + r.Value, nil
		})
		named(table.Closed(), "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a p"), "")
	want(t, k.send("left", 20, "a", "fail"), topology.DeadLetter)
	wantLines(t, k.script("left 2 a q", "left 10 b r"), "", "a[0,10)=pq@2")
}

// TestWindowClock: the clock of a node is that of the records it gets, and of no others.
func TestWindowClock(t *testing.T) {
	w := topology.Tumbling(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		kept := topology.From(b, leftTopic).Filter("keep", func(r word) (bool, error) { return r.Value != "ignored", nil })
		table := topology.CountWindows(kept, w, topology.WindowStore("windows", schemas.String(), schemas.Int64(), w.Retention()))
		topology.MapValues(named(table.Stream(), "name"), "value",
			func(v topology.Option[int64]) (int64, error) { return v.Or(-1), nil }).Into(countTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 100 a ignored", "left 2 a x", "left 100 a x", "left 3 a x"),
		"a[0,10)=1@1", "", "a[0,10)=2@2", "a[100,110)=1@100", "")
}

// TestWindowClockSurvivesRestart: the clock is in the state, so that what was late stays late, and
// what is open closes.
func TestWindowClockSurvivesRestart(t *testing.T) {
	b := topology.NewBuilder("windows", topology.DeadLetters("dead"))
	table := joined(b, topology.Tumbling(10*ms))
	named(table.Closed(), "name").Into(resultTopic)
	top := mustBuild(t, b)
	id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
	k := openTask(t, top, id, baseConfig())
	wantLines(t, k.script("left 1 a p", "left 10 a q"), "", "a[0,10)=p@1")
	g, err := top.NewGraph(id, k.state, baseConfig())
	if err != nil {
		t.Fatal(err)
	}
	k.graph = g
	if got := countsOf(want(t, k.send("left", 9, "a", "late"), graph.Accept)); got != "windows.late=1" {
		t.Errorf("after a restart a late record is counted as %q", got)
	}
	wantLines(t, k.script("left 20 a r"), "a[10,20)=q@10")
}

// TestUpdatesAndClosed: both may be used of one aggregation, and joins look into it.
func TestUpdatesAndClosed(t *testing.T) {
	w := topology.Tumbling(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		table := joined(b, w)
		if !strings.Contains(fmt.Sprint(w), "size 10ms, advance 10ms, grace 0s") {
			t.Errorf("the windows are %s", w)
		}
		text := topology.Topic("updates", schemas.String(), schemas.String())
		upper := topology.MapTable(table.Table, "upper", func(_ windowKey, v string) (string, error) { return strings.ToUpper(v), nil })
		pairs := topology.JoinTables(table.Table, upper, "pairs", func(_ windowKey, l, r string) (string, error) { return l + r, nil })
		topology.MapValues(named(pairs.Stream(), "name"), "value", func(v textOpt) (string, error) {
			return v.Or("-"), nil
		}).Into(text)
		named(table.Closed(), "closed").Into(resultTopic)
		table.Closed()
	})
	wantLines(t, k.script("left 1 a x", "left 10 a y"), "a[0,10)=xX@1 a[0,10)=xX@1", "a[0,10)=x@1 a[10,20)=yY@10 a[10,20)=yY@10")
}

// TestWindowsInTheFingerprint: other windows are another topology.
func TestWindowsInTheFingerprint(t *testing.T) {
	fingerprint := func(w topology.Windows) string {
		b := topology.NewBuilder("windows")
		topology.CountWindows(topology.From(b, leftTopic), w,
			topology.WindowStore("windows", schemas.String(), schemas.Int64(), time.Hour))
		return mustBuild(t, b).Fingerprint()
	}
	seen := map[string]bool{}
	for _, w := range []topology.Windows{
		topology.Tumbling(time.Minute), topology.Hopping(time.Minute, time.Second), topology.Tumbling(time.Minute).Grace(time.Second),
	} {
		seen[fingerprint(w)] = true
	}
	if len(seen) != 3 || fingerprint(topology.Hopping(time.Minute, time.Minute)) != fingerprint(topology.Tumbling(time.Minute)) {
		t.Errorf("the fingerprints are %v", seen)
	}
}

// TestWindowedCodec: the bytes are those of Kafka Streams' TimeWindowedSerializer.
func TestWindowedCodec(t *testing.T) {
	codec := topology.WindowedCodec(schemas.String(), time.Minute)
	if codec.Name() != "windowed:string/60000" {
		t.Errorf("the name is %s", codec.Name())
	}
	b, err := codec.Append(nil, windowKey{Key: "ab", Start: 0x0102, End: 0x0102 + 60000})
	if string(b) != "ab\x00\x00\x00\x00\x00\x00\x01\x02" || err != nil {
		t.Errorf("the bytes are %q, %v", b, err)
	}
	if w, err := codec.Decode(b); w != (windowKey{Key: "ab", Start: 0x0102, End: 0x0102 + 60000}) || err != nil {
		t.Errorf("they are decoded as %v, %v", w, err)
	}
	codectest.Run(t, codec, windowKey{End: 60000}, windowKey{Key: codectest.Canary, Start: 60001, End: 120001},
		windowKey{Key: "\x00", Start: math.MaxInt64 - 60000, End: math.MaxInt64})
	codectest.Refuses(t, codec, windowKey{Key: codectest.Canary, End: 59999}, windowKey{Key: codectest.Canary, Start: -1, End: 59999})
	for _, b := range []string{"", "short", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x7f\xff\xff\xff\xff\xff\xff\xff"} {
		if w, err := codec.Decode([]byte(b)); err == nil || w != (windowKey{}) {
			t.Errorf("%q is decoded as %v", b, w)
		}
	}
	if topology.WindowedCodec[string](nil, time.Minute) != nil {
		t.Error("there is a codec without one for the key")
	}
}
