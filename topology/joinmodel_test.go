package topology_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// modelRecord is a record of a joinModel.
type modelRecord struct {
	key, value string
	at         int64
	// waits says that it has met none and is to be passed on alone.
	waits bool
}

// joinModel is a join of two streams made of two lists. The left one is the first.
type joinModel struct {
	before, after, grace, retention int64
	outer                           [2]bool
	records                         [2][]*modelRecord
	times                           [2]int64
	outputs                         []string
}

// span returns which records of the other side meet one.
func (m *joinModel) span(side int, at int64) (from, to int64) {
	if side == 0 {
		return at - m.before, at + m.after
	}
	return at - m.after, at + m.before
}

func (m *joinModel) emit(side int, key, own, other string, at int64) {
	if side == 1 {
		own, other = other, own
	}
	m.outputs = append(m.outputs, fmt.Sprintf("%s=%s+%s@%d", key, own, other, at))
}

// close passes on what is closed at a time.
func (m *joinModel) close(now int64) {
	type due struct {
		*modelRecord
		side int
	}
	var all []due
	for side, records := range m.records {
		for _, r := range records {
			if _, to := m.span(side, r.at); r.waits && to+m.grace < now {
				r.waits = false
				all = append(all, due{r, side})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.side, a.side), strings.Compare(a.key, b.key))
	})
	for _, d := range all {
		m.emit(d.side, d.key, d.value, "?", d.at)
	}
}

func (m *joinModel) process(side int, at int64, key, value string) {
	if at > max(m.times[0], m.times[1]) {
		m.close(at)
	}
	m.times[side] = max(m.times[side], at)
	now := max(m.times[0], m.times[1])
	from, to := m.span(side, at)
	other := slices.Clone(m.records[1-side])
	slices.SortStableFunc(other, func(a, b *modelRecord) int { return cmp.Compare(a.at, b.at) })
	met := false
	for _, r := range other {
		if r.key == key && r.at >= from && r.at <= to && r.at > m.times[1-side]-m.retention {
			met, r.waits = true, false
			m.emit(side, key, value, r.value, max(at, r.at))
		}
	}
	own := &modelRecord{key: key, value: value, at: at, waits: m.outer[side] && !met && to >= now}
	m.records[side] = append(m.records[side], own)
	if m.outer[side] && !met && !own.waits {
		m.emit(side, key, value, "?", at)
	}
}

// TestJoinStreamsAreTheModel: whatever comes, and wherever the application is killed, restarted, or
// has a transaction aborted, the results are those of two lists that are never lost.
func TestJoinStreamsAreTheModel(t *testing.T) {
	kinds := map[string]struct {
		join  joinWords
		outer [2]bool
	}{"inner": {innerWords, [2]bool{}}, "left": {leftWords, [2]bool{true, false}}, "outer": {outerWords, [2]bool{true, true}}}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				limit := rapid.SampledFrom([]int64{0, 1, 5, 10, 20})
				before, after := limit.Draw(rt, "before"), limit.Draw(rt, "after")
				if rapid.IntRange(0, 5).Draw(rt, "shifted") == 0 {
					before = -rapid.Int64Range(0, after).Draw(rt, "by")
				}
				grace := rapid.SampledFrom([]int64{0, 0, 3, 15}).Draw(rt, "grace")
				of := func(n int64) time.Duration { return time.Duration(n) * ms }
				w := topology.Within(0).Before(of(before)).After(of(after)).Grace(of(grace))
				m := &joinModel{
					before: before, after: after, grace: grace, outer: kind.outer,
					retention: max(before+after, before+1, after+1) + grace,
				}
				b := topology.NewBuilder("model", topology.DeadLetters("dead"))
				kind.join(b, topology.From(b, leftTopic), topology.From(b, rightTopic), w).Into(resultTopic)
				built, err := b.Build()
				if err != nil {
					rt.Fatal(err)
				}
				d, err := topologytest.New(built, topologytest.CommitByHand())
				if err != nil {
					rt.Fatal(err)
				}
				for _, e := range history(false, "left", "right").Draw(rt, "history") {
					if err := d.PipeRaw(e.topic, []byte(e.key), []byte(e.value), topologytest.At(time.UnixMilli(e.ms))); err != nil {
						rt.Fatal(err)
					}
					m.process(map[string]int{"left": 0, "right": 1}[e.topic], e.ms, e.key, e.value)
					endOrGoOn(rt, d)
				}
				got := committedResults(rt, d)
				if !slices.Equal(got, m.outputs) {
					rt.Fatalf("%s: the results are %q, want %q", w, got, m.outputs)
				}
			})
		})
	}
}

// endOrGoOn commits, crashes or aborts the transaction of d, or goes on with it.
func endOrGoOn(rt *rapid.T, d *topologytest.Driver) {
	then := map[string]func() error{
		"": func() error { return nil }, "commit": d.Commit, "crash": d.Crash, "abort": d.Abort,
	}[rapid.SampledFrom([]string{"", "", "commit", "crash", "abort"}).Draw(rt, "then")]
	if err := then(); err != nil {
		rt.Fatal(err)
	}
}

// committedResults commits, and returns the records of the topic of results.
func committedResults(rt *rapid.T, d *topologytest.Driver) (got []string) {
	if err := d.Commit(); err != nil {
		rt.Fatal(err)
	}
	raw, err := d.OutputRaw("result")
	if err != nil {
		rt.Fatal(err)
	}
	for _, r := range raw {
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Timestamp))
	}
	return got
}
