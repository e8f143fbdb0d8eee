package topology_test

import (
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
)

// TestSliding: a record changes the windows that it is in, the newest first. Then come the window
// behind the record before, the one that ends with it, and the one behind it. Both ends are part of
// a window.
func TestSliding(t *testing.T) {
	k := updatesTask(t, topology.Sliding(10*ms).Grace(50*ms))
	wantLines(t, k.script("left 20 a p", "left 30 a q", "left 31 a r", "left 25 a s", "left 25 a t", "left 25 b u", "left 100 a v"),
		"a[10,20)=p@20",
		"a[21,31)=q@30 a[20,30)=pq@30",
		"a[21,31)=qr@31 a[31,41)=r@31",
		"a[21,31)=qrs@31 a[20,30)=pqs@30 a[15,25)=ps@25 a[26,36)=qr@31",
		"a[21,31)=qrst@31 a[20,30)=pqst@30 a[15,25)=pst@25",
		"b[15,25)=u@25",
		"a[90,100)=v@100")
}

// TestSlidingEarly: one window at the epoch has all records whose windows would begin before it.
func TestSlidingEarly(t *testing.T) {
	k := updatesTask(t, topology.Sliding(10*ms))
	wantLines(t, k.script("left 4 a p", "left 7 a q", "left 2 a r", "left 7 a s", "left 10 a t", "left 11 a u", "left 0 a v"),
		"a[0,10)=p@4",
		"a[5,15)=q@7 a[0,10)=pq@7",
		"a[3,13)=pq@7 a[0,10)=pqr@7",
		"a[3,13)=pqs@7 a[5,15)=qs@7 a[0,10)=pqrs@7",
		"a[5,15)=qst@10 a[3,13)=pqst@10 a[0,10)=pqrst@10 a[8,18)=t@10",
		"a[8,18)=tu@11 a[5,15)=qstu@11 a[3,13)=pqstu@11 a[11,21)=u@11 a[1,11)=pqrstu@11",
		"")
}

// TestSlidingLate: the boundary of the grace, for a record and for each of its windows.
func TestSlidingLate(t *testing.T) {
	k := updatesTask(t, topology.Sliding(10*ms).Grace(5*ms))
	for _, test := range []struct {
		record, want string
		late         string
	}{
		{record: "left 50 a p", want: "a[40,50)=p@50"},
		{record: "left 45 b q", want: "b[35,45)=q@45"},
		{record: "left 44 b r", want: "b[35,45)=qr@45 b[45,55)=q@45", late: "windows.late=1"},
		{record: "left 35 c s", late: "windows.late=1"},
		{record: "left 34 c t", late: "windows.late=1"},
		{record: "left 65 c u", want: "c[55,65)=u@65"},
		{record: "left 50 a v", want: "", late: "windows.late=1"},
		{record: "left 60 a w", want: "a[51,61)=w@60 a[50,60)=pw@60"},
		{record: "left 51 a x", want: "a[51,61)=wx@60 a[50,60)=pwx@60 a[52,62)=w@60", late: "windows.late=1"},
	} {
		var key, value string
		var at int64
		if _, err := fmt.Sscanf(test.record, "left %d %s %s", &at, &key, &value); err != nil {
			t.Fatal(err)
		}
		v := want(t, k.send("left", at, key, value), graph.Accept)
		var written []string
		for _, out := range v.Outputs {
			written = append(written, fmt.Sprintf("%s=%s@%d", out.Key, out.Value, out.Timestamp))
		}
		if got := strings.Join(written, " "); got != test.want || countsOf(v) != test.late {
			t.Errorf("%s: written is %q and counted %q, want %q and %q", test.record, got, countsOf(v), test.want, test.late)
		}
	}
}

// TestSlidingRemoved: a window that was removed is as if it never was there.
func TestSlidingRemoved(t *testing.T) {
	k := updatesTask(t, topology.Sliding(10*ms))
	wantLines(t, k.script("left 20 a p", "left 20 a remove", "left 21 a q", "left 22 a remove"),
		"a[10,20)=p@20", "a[10,20)=-@20", "a[11,21)=q@21", "a[22,32)=remove@22 a[12,22)=-@22")
}

// TestSlidingNullValues: records with a null value are left out and counted.
func TestSlidingNullValues(t *testing.T) {
	w := topology.Sliding(10 * ms)
	nullable := topology.Topic("left", schemas.String(), topology.Nullable(schemas.String()))
	k := tableTask(t, func(b *topology.Builder) {
		counts := topology.CountWindows(topology.From(b, nullable), w,
			topology.WindowStore("windows", schemas.String(), schemas.Int64(), w.Retention()))
		named(counts.Stream(), "name").Into(topology.Topic("result", schemas.String(), topology.Nullable(schemas.Int64())))
	})
	wantLines(t, k.script("left 20 a -", "left 20 a p"), "", "a[10,20)=1@20")
	if got := countsOf(want(t, k.send("left", 20, "a", "-"), graph.Accept)); got != "windows.null-value=1" {
		t.Errorf("a null is counted as %q", got)
	}
}

// TestSlidingStepsOwnTheirValues: a step that changes what it gets changes neither another window
// nor what was emitted as the value before.
func TestSlidingStepsOwnTheirValues(t *testing.T) {
	w := topology.Sliding(10 * ms).Grace(time.Second)
	store := topology.WindowStore("sets", schemas.String(), schemas.JSON[map[string]int](), w.Retention())
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.AggregateWindows(topology.From(b, leftTopic), w, store, func() map[string]int { return map[string]int{} },
			func(sofar map[string]int, r word) (map[string]int, error) {
				sofar[r.Value]++
				return sofar, nil
			})
		shown := topology.MapValuesWithRecord(table.Changes(), "show",
			func(r topology.Record[windowKey, topology.Change[map[string]int]]) (string, error) {
				return show(r.Value.Old) + ">" + show(r.Value.New), nil
			})
		named(shown, "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 20 a p", "left 15 a q", "left 5 a r", "left 3 a s"),
		"a[10,20)=->map[p:1]@20",
		"a[10,20)=map[p:1]>map[p:1 q:1]@20 a[5,15)=->map[q:1]@15 a[16,26)=->map[p:1]@20",
		"a[5,15)=map[q:1]>map[q:1 r:1]@15 a[6,16)=->map[q:1]@15 a[0,10)=->map[r:1]@5",
		"a[4,14)=->map[r:1]@5 a[0,10)=map[r:1]>map[r:1 s:1]@5")
}

// TestClosedSliding: a window closes when the stream time has passed its end and the grace, once,
// by beginnings and keys.
func TestClosedSliding(t *testing.T) {
	k := closedTask(t, topology.Sliding(10*ms).Grace(5*ms))
	wantLines(t, k.script("left 20 b p", "left 20 a q", "left 22 a r", "left 25 c s", "left 26 c t", "left 18 a u", "left 500 a v", "left 515 a w",
		"left 516 a x"),
		"", "", "", "", "a[10,20)=q@20 b[10,20)=p@20", "",
		"a[12,22)=qru@22 c[15,25)=s@25 c[16,26)=st@26 a[19,29)=qr@22 a[21,31)=r@22 c[26,36)=t@26", "a[490,500)=v@500", "")
}

// TestClosedSlidingSurvivesRestart: what is open closes, and what was late stays late.
func TestClosedSlidingSurvivesRestart(t *testing.T) {
	b := topology.NewBuilder("windows", topology.DeadLetters("dead"))
	named(joined(b, topology.Sliding(10*ms)).Closed(), "name").Into(resultTopic)
	top := mustBuild(t, b)
	id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
	k := openTask(t, top, id, baseConfig())
	wantLines(t, k.script("left 20 a p", "left 30 a q"), "", "a[10,20)=p@20")
	var err error
	if k.graph, err = top.NewGraph(id, k.state, baseConfig()); err != nil {
		t.Fatal(err)
	}
	if got := countsOf(want(t, k.send("left", 19, "a", "late"), graph.Accept)); got != "windows.late=1" {
		t.Errorf("after a restart a late record is counted as %q", got)
	}
	wantLines(t, k.script("left 45 a r"), "a[20,30)=pq@30 a[21,31)=q@30")
}

// TestClosedSlidingMode is requirement I1: a window that takes over what another one has is live if
// the other one may be, or if a live record joins it.
func TestClosedSlidingMode(t *testing.T) {
	for name, test := range map[string]struct {
		modes []string // of records at 20, 25 and 22
		want  string   // of the windows at 10, 12, 15, 21 and 23
	}{
		"live":          {[]string{"", "", ""}, ",,,,"},
		"repairs":       {[]string{"REPAIR", "REPAIR", "REPAIR"}, "[REPAIR],[REPAIR],[REPAIR],[REPAIR],[REPAIR]"},
		"live in front": {[]string{"", "REPAIR", "REPAIR"}, ",,,[REPAIR],[REPAIR]"},
		"live behind":   {[]string{"REPAIR", "", "REPAIR"}, "[REPAIR],[REPAIR],,,"},
		"live between":  {[]string{"REPAIR", "REPAIR", ""}, "[REPAIR],,,,[REPAIR]"},
	} {
		t.Run(name, func(t *testing.T) {
			k := closedTask(t, topology.Sliding(10*ms).Grace(time.Second))
			for i, ms := range []int64{20, 25, 22} {
				k.sendAs(t, test.modes[i], "left", ms, "a", "x")
			}
			var got []string
			for _, out := range k.sendAs(t, "", "left", 5000, "b", "x") {
				got = append(got, modeOf(out.Headers))
			}
			if strings.Join(got, ",") != test.want {
				t.Errorf("the modes are %q, want %q", got, test.want)
			}
		})
	}
}

// slidingModel is what sliding windows are by their definition, computed from all records.
func slidingModel(records []event, size int64) map[string]string {
	windows := map[string]string{}
	for _, r := range records {
		for _, start := range []int64{max(0, r.ms-size), r.ms + 1} {
			value := ""
			for _, other := range records {
				if other.key == r.key && start <= other.ms && other.ms <= start+size {
					value += other.value
				}
			}
			if value != "" {
				windows[fmt.Sprintf("%s[%d,%d)", r.key, start, start+size)] = value
			}
		}
	}
	return windows
}

// TestSlidingModel: after each record the table has the windows that the definition has, also with
// restarts. Each window closes once, with the value that the updates have left, in the order of the
// beginnings.
func TestSlidingModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, 30).Draw(rt, "size")
		grace := rapid.SampledFrom([]int64{0, 7, 100_000}).Draw(rt, "grace")
		w := topology.Sliding(time.Duration(size) * ms).Grace(time.Duration(grace) * ms)
		b := topology.NewBuilder("sliding", topology.DeadLetters("dead"))
		table := joined(b, w)
		named(table.Stream(), "name").Into(topology.Topic("updates", schemas.String(), topology.Nullable(schemas.String())))
		named(table.Closed(), "closed").Into(resultTopic)
		top := mustBuild(t, b)
		id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
		k := openTask(t, top, id, baseConfig())
		updates, closed := replayed{}, replayed{}
		var records []event
		lastStart := int64(0)
		send := func(e event) {
			v := want(t, k.send("left", e.ms, e.key, e.value), graph.Accept)
			for _, out := range v.Outputs {
				if out.Topic == "updates" {
					updates.apply([]graph.Output{out})
					continue
				}
				var start int64
				_, _ = fmt.Sscanf(string(out.Key[1:]), "[%d,", &start)
				if _, again := closed[string(out.Key)]; again || start < lastStart {
					rt.Fatalf("%s closes again, or after one that began at %d", out.Key, lastStart)
				}
				closed.apply([]graph.Output{out})
				lastStart = start
			}
			if len(v.Counts) == 0 {
				records = append(records, e)
			}
		}
		late := 0
		for _, e := range history(false, "left").Draw(rt, "history") {
			if rapid.IntRange(0, 4).Draw(rt, "restart") == 0 {
				g, err := top.NewGraph(id, k.state, baseConfig())
				if err != nil {
					rt.Fatal(err)
				}
				k.graph = g
			}
			before := len(records)
			send(e)
			late += 1 - (len(records) - before)
			if wanted := slidingModel(records, size); late == 0 && !maps.Equal(updates, wanted) {
				rt.Fatalf("after %v the table is %v, want %v", e, updates, wanted)
			}
		}
		send(event{key: "z", value: "z", ms: 1_000_000})
		delete(updates, fmt.Sprintf("z[%d,%d)", 1_000_000-size, 1_000_000))
		if !maps.Equal(updates, closed) {
			rt.Fatalf("the updates leave %v, closed are %v", updates, slices.Sorted(maps.Keys(closed)))
		}
	})
}
