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

// event is a record of a random history.
type event struct {
	topic, key, value string
	ms                int64
}

// history draws records of some topics: few keys, times that go back and forth and jump, and nulls
// ("-") where they are wanted.
func history(nulls bool, topics ...string) *rapid.Generator[[]event] {
	values := []string{"x", "y", "z", "X", "Y"}
	if nulls {
		values = append(values, "-", "-")
	}
	return rapid.Custom(func(t *rapid.T) []event {
		at := int64(0)
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
			at = max(0, at+rapid.OneOf(rapid.Int64Range(-15, 15), rapid.Int64Range(0, 100)).Draw(t, "step"))
			return event{
				topic: rapid.SampledFrom(topics).Draw(t, "topic"), key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
				value: rapid.SampledFrom(values).Draw(t, "value"), ms: at,
			}
		}), 1, 40).Draw(t, "events")
	})
}

// replayed is what a changelog of texts adds up to.
type replayed map[string]string

func (r replayed) apply(outputs []graph.Output) {
	for _, out := range outputs {
		if out.Value == nil {
			delete(r, string(out.Key))
		} else {
			r[string(out.Key)] = shown(out.Value)
		}
	}
}

// TestTablesConverge: at each moment the changes of a join add up to what the join of both tables
// is, computed from nothing.
func TestTablesConverge(t *testing.T) {
	joins := map[string]struct {
		join func(left, right textTable) textTable
		of   func(l, r string, inLeft, inRight bool) (string, bool)
	}{
		"inner": {innerJoin, func(l, r string, inLeft, inRight bool) (string, bool) { return l + "+" + r, inLeft && inRight }},
		"left": {leftJoin, func(l, r string, inLeft, inRight bool) (string, bool) {
			if !inRight {
				r = "?"
			}
			return l + "+" + r, inLeft
		}},
		"outer": {outerJoin, func(l, r string, inLeft, inRight bool) (string, bool) {
			if !inLeft {
				l = "?"
			}
			if !inRight {
				r = "?"
			}
			return l + "+" + r, inLeft || inRight
		}},
	}
	for name, j := range joins {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				k := tableTask(t, func(b *topology.Builder) {
					lower := topology.TableFrom(b, leftTopic, leftTable).Filter("lower", isLower)
					j.join(lower, topology.TableFrom(b, rightTopic, rightTable)).Into(resultTopic)
				})
				sides := map[string]map[string]string{"left": {}, "right": {}}
				got := replayed{}
				for _, e := range history(true, "left", "right").Draw(rt, "history") {
					got.apply(want(t, k.send(e.topic, e.ms, e.key, e.value), graph.Accept).Outputs)
					if e.value == "-" || e.topic == "left" && e.value != strings.ToLower(e.value) {
						delete(sides[e.topic], e.key)
					} else {
						sides[e.topic][e.key] = e.value
					}
					wanted := replayed{}
					for _, key := range []string{"a", "b", "c"} {
						l, inLeft := sides["left"][key]
						r, inRight := sides["right"][key]
						if v, ok := j.of(l, r, inLeft, inRight); ok {
							wanted[key] = v
						}
					}
					if !maps.Equal(got, wanted) {
						rt.Fatalf("after %v the changes add up to %v, want %v", e, got, wanted)
					}
				}
			})
		})
	}
}

// TestGroupsConverge: the groups of a table have as many entries as a count of the table shows.
func TestGroupsConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriven(t, func(b *topology.Builder) {
			group := topology.GroupTable(topology.TableFrom(b, leftTopic, leftTable), "groups", schemas.String(), schemas.String(),
				func(key, v string) (string, string, error) { return strings.ToLower(v), key, nil })
			topology.CountTable(group, countTable).Into(countTopic)
		})
		table, got := map[string]string{}, replayed{}
		for _, e := range history(true, "left").Draw(rt, "history") {
			d.pipe("left", e.ms, e.key, e.value)
			raw, err := d.OutputRaw("counted")
			if err != nil {
				rt.Fatal(err)
			}
			got.apply(raw)
			if delete(table, e.key); e.value != "-" {
				table[e.key] = strings.ToLower(e.value)
			}
			wanted := replayed{}
			for group := range got {
				wanted[group] = "0"
			}
			for _, group := range table {
				var n int
				_, _ = fmt.Sscan(wanted[group], &n)
				wanted[group] = fmt.Sprint(n + 1)
			}
			if !maps.Equal(got, wanted) {
				rt.Fatalf("after %v the groups are %v, want %v", e, got, wanted)
			}
		}
	})
}

// windowModel is an aggregation in windows as simple as can be: it keeps all records, and computes
// a window anew.
type windowModel struct {
	size, advance, grace int64
	clock                int64
	records              map[windowKey][]event
	closed               map[windowKey]bool
	late                 int64
}

// add returns the windows that close with an event, and those that it changes, as the outputs show
// them.
func (m *windowModel) add(e event) (closed, updated []string) {
	m.clock = max(m.clock, e.ms)
	for w, records := range m.records {
		if w.End <= m.clock-m.grace && !m.closed[w] {
			m.closed[w] = true
			closed = append(closed, fmt.Sprintf("%06d ", w.End)+m.show(w, records))
		}
	}
	slices.Sort(closed)
	for i := range closed {
		closed[i] = closed[i][len("000000 "):]
	}
	for start := int64(0); start <= e.ms; start += m.advance {
		w := windowKey{Key: e.key, Start: start, End: start + m.size}
		switch {
		case e.ms >= w.End:
		case w.End <= m.clock-m.grace:
			m.late++
		default:
			m.records[w] = append(m.records[w], e)
			updated = append(updated, m.show(w, m.records[w]))
		}
	}
	return closed, updated
}

func (m *windowModel) show(w windowKey, records []event) string {
	value, at := "", int64(0)
	for _, e := range records {
		value += e.value
		at = max(at, e.ms)
	}
	return fmt.Sprintf("%s[%d,%d)=%s@%d", w.Key, w.Start, w.End, value, at)
}

// TestWindowsModel compares updates, closed windows, their times and their order, and what is late,
// with the model.
func TestWindowsModel(t *testing.T) {
	updates := topology.Topic("updates", schemas.String(), schemas.String())
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, 30).Draw(rt, "size")
		advance := rapid.Int64Range(1, size).Draw(rt, "advance")
		grace := rapid.Int64Range(0, 20).Draw(rt, "grace")
		w := topology.Hopping(time.Duration(size)*ms, time.Duration(advance)*ms).Grace(time.Duration(grace) * ms)
		k := tableTask(t, func(b *topology.Builder) {
			table := joined(b, w)
			topology.MapValues(named(table.Stream(), "name"), "value", func(v textOpt) (string, error) {
				return v.Or("-"), nil
			}).Into(updates)
			named(table.Closed(), "closed").Into(resultTopic)
		})
		model := &windowModel{
			size: size, advance: advance, grace: grace,
			records: map[windowKey][]event{}, closed: map[windowKey]bool{},
		}
		var late int64
		for _, e := range history(false, "left").Draw(rt, "history") {
			v := want(t, k.send("left", e.ms, e.key, e.value), graph.Accept)
			for _, c := range v.Counts {
				late += c.N
			}
			got := map[string][]string{}
			for _, out := range v.Outputs {
				got[out.Topic] = append(got[out.Topic], fmt.Sprintf("%s=%s@%d", out.Key, out.Value, out.Timestamp))
			}
			closed, updated := model.add(e)
			if !slices.Equal(got["result"], closed) || !slices.Equal(got["updates"], updated) || late != model.late {
				rt.Fatalf("after %v: closed are %v, want %v; updated are %v, want %v; late are %d, want %d", e,
					got["result"], closed, got["updates"], updated, late, model.late)
			}
		}
	})
}
