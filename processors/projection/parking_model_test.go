package projection_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// parkingModel is what a projection with limits does with the records of one key.
type parkingModel struct {
	limits projection.Limits
	row    row
	has    bool
	waits  map[int64]string
	// asked is the highest version that came to wait since the queue was empty.
	asked      int64
	since, now int
	out        []string
}

func (m *parkingModel) emit(topic string, version int64) {
	m.out = append(m.out, fmt.Sprintf("%s %d", topic, version))
}

func (m *parkingModel) next() int64 {
	if m.has {
		return m.row.Version + 1
	}
	return 1
}

// send returns what one record does; it comes at that second.
func (m *parkingModel) send(version int64, text string, at int) string {
	m.out = nil
	before := m.now
	m.now = max(m.now, at)
	if !m.arrive(version, text) {
		m.now = before // a record that fails moves nothing
		return "dead"
	}
	second := int(m.limits.StreamTime/time.Second) / 8
	if before >= 0 && m.now/second != before/second && len(m.waits) > 0 &&
		m.now-m.since >= int(m.limits.StreamTime/time.Second) {
		m.giveUp()
	}
	slices.Sort(m.out)
	return strings.Join(m.out, ", ")
}

func (m *parkingModel) arrive(version int64, text string) bool {
	_, waits := m.waits[version]
	switch {
	case m.has && version <= m.row.Version:
		m.emit("stale", version)
	case version < 1:
		return false
	case version == m.next():
		if text == "fail" {
			return false
		}
		// Only a version that was abandoned before is both the next one and may be in the way of
		// one that waits.
		m.apply(version, text)
		m.release()
	case waits:
		m.emit("stale", version)
	case len(m.waits) >= m.limits.Records && m.limits.Then == projection.FailFast:
		return false
	default:
		m.wait(version, text)
	}
	return true
}

func (m *parkingModel) wait(version int64, text string) {
	m.emit("parked", version)
	from := m.asked + 1
	if len(m.waits) == 0 {
		m.since, from = m.now, m.next()
		m.asked = 0
	}
	if version > m.asked {
		if from < version {
			m.emit("repairs", from)
		}
		m.asked = version
	}
	m.waits[version] = text
	if len(m.waits) > m.limits.Records {
		m.accept()
	}
}

func (m *parkingModel) apply(version int64, text string) {
	if version != m.next() {
		m.emit("gaps", version)
	}
	if text == "-" {
		m.row = row{Version: version, Deleted: true}
	} else {
		m.row = row{Version: version, Value: append(slices.Clone(m.row.Value), text)}
	}
	m.has = true
	m.emit("changes", version)
}

// take applies a record that waits, unless fold refuses it.
func (m *parkingModel) take(version int64) bool {
	text := m.waits[version]
	delete(m.waits, version)
	if text == "fail" {
		m.emit("abandoned", version)
		return false
	}
	m.apply(version, text)
	return true
}

func (m *parkingModel) release() {
	m.since = m.now
	for {
		if _, ok := m.waits[m.next()]; !ok || !m.take(m.next()) {
			return
		}
	}
}

func (m *parkingModel) accept() {
	for _, version := range slices.Sorted(maps.Keys(m.waits)) {
		if m.take(version) {
			m.release()
			return
		}
	}
}

func (m *parkingModel) giveUp() {
	if m.limits.Then == projection.AcceptLatest {
		m.accept()
		return
	}
	for version := range m.waits {
		m.emit("abandoned", version)
	}
	clear(m.waits)
}

// timedDelivery is a delivery and how long after the one before it comes, in seconds.
type timedDelivery struct {
	delivery
	After int
}

var timedDeliveries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) timedDelivery {
	return timedDelivery{
		delivery: delivery{
			Version: rapid.Int64Range(0, 14).Draw(t, "version"),
			Text:    rapid.SampledFrom([]string{"a", "b", "c", "d", "-", "fail"}).Draw(t, "text"),
			Restart: rapid.IntRange(0, 7).Draw(t, "restart") == 0,
		},
		After: rapid.SampledFrom([]int{0, 0, 1, -1, 3}).Draw(t, "after"),
	}
}), 1, 60)

// checkWaiting compares a projection with the model, step by step.
func checkWaiting(tb testing.TB, history []timedDelivery, l, declared projection.Limits) error {
	var p texts
	d := processortest.New(tb, func(b *topology.Builder) { p = waiting(b, declared) })
	m := parkingModel{limits: l, waits: map[int64]string{}, now: -1}
	at := 10
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		at += step.After
		want := m.send(step.Version, step.Text, at)
		sendAt(d, at, fmt.Sprintf("%d:%s", step.Version, step.Text))
		got, err := outcomes(d, l.Then == projection.AcceptLatest)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("step %d of %+v is %q, want %q", i, history, got, want)
		}
		if err := (&model{row: m.row, has: m.has}).compare(d, p); err != nil {
			return fmt.Errorf("step %d of %+v: %w", i, history, err)
		}
		queues := len(d.Rows("texts-queues", 0))
		if n := len(d.Rows("texts-parked", 0)); n != len(m.waits) || queues != min(n, 1) {
			return fmt.Errorf("step %d of %+v: %d records wait in %d queues, want %d", i, history, n, queues, len(m.waits))
		}
	}
	return nil
}

// outcomes returns what topics got, as the model has it.
func outcomes(d *processortest.Driver, gaps bool) (string, error) {
	var all []string
	for topic, field := range map[string]string{
		"changes": "version", "stale": "version", "gaps": "actual", "parked": "actual", "abandoned": "actual",
		"repairs": "from", "dead": "",
	} {
		if topic == "gaps" && !gaps {
			continue
		}
		for _, r := range d.Take(topic) {
			if topic == "dead" {
				all = append(all, topic)
				continue
			}
			var v map[string]any
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return "", err
			}
			all = append(all, fmt.Sprintf("%s %v", topic, v[field]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", "), nil
}

// TestWaitingModel compares a projection that parks what comes behind a gap with the model, over
// random histories. Row of the failure matrix: gap.
func TestWaitingModel(t *testing.T) {
	for _, then := range []projection.GapPolicy{projection.FailFast, projection.AcceptLatest} {
		t.Run(then.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				l := limits(then)
				l.Records = rapid.IntRange(1, 4).Draw(rt, "records")
				if err := checkWaiting(t, timedDeliveries.Draw(rt, "history"), l, l); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// TestWaitingModelFindsBrokenProjection is the control: other limits than the model's are found.
func TestWaitingModelFindsBrokenProjection(t *testing.T) {
	for name, then := range map[string][2]projection.GapPolicy{
		"fails fast":         {projection.FailFast, projection.FailFast},
		"accepts the latest": {projection.AcceptLatest, projection.AcceptLatest},
	} {
		l, longer, wider := limits(then[0]), limits(then[1]), limits(then[1])
		l.Records, longer.Records, wider.Records = 3, 3, 4
		longer.StreamTime *= 2
		for what, other := range map[string]projection.Limits{"longer": longer, "wider": wider} {
			found := false
			for seed := range 100 {
				found = found || checkWaiting(t, timedDeliveries.Example(seed), l, other) != nil
			}
			if !found {
				t.Errorf("a projection that %s with %s limits passes", name, what)
			}
		}
	}
}

// TestAnyOrder: whatever the order of the records, however often they come, and whenever the task
// restarts, rows and changes are those of the clean sequence (D1, D3, D4), as long as no limit is
// reached.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		if err := checkAnyOrder(t, rt, n, wide); err != nil {
			rt.Fatal(err)
		}
	})
}

func checkAnyOrder(tb testing.TB, rt *rapid.T, n int, l projection.Limits) error {
	text := func(v int) string { return map[bool]string{true: "-", false: fmt.Sprint(v)}[v%5 == 4] }
	clean, d := newWaiting(tb, wide), newWaiting(tb, l)
	for v := 1; v <= n; v++ {
		sendAt(clean, v, fmt.Sprintf("%d:%s", v, text(v)))
	}
	order := rapid.Permutation(append(versions(n), versions(n)...)).Draw(rt, "order")
	order = append(order, rapid.SliceOf(rapid.IntRange(1, n)).Draw(rt, "again")...)
	for _, v := range order {
		if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
			d.Restart()
		}
		sendAt(d, v, fmt.Sprintf("%d:%s", v, text(v)))
	}
	for _, store := range []string{"texts", "texts-parked", "texts-queues"} {
		if got, want := d.Rows(store, 0), clean.Rows(store, 0); !maps.Equal(got, want) {
			return fmt.Errorf("store %s has %q, want %q, after %v", store, got, want, order)
		}
	}
	got, want := d.Take("changes"), clean.Take("changes")
	for i := range want {
		if len(got) != len(want) || string(got[i].Value) != string(want[i].Value) || got[i].Timestamp != want[i].Timestamp {
			return fmt.Errorf("change %d of %d is not that of the clean sequence, after %v", i, len(got), order)
		}
	}
	return nil
}

// TestAnyOrderNeedsRoom is the control: limits that are too narrow are found.
func TestAnyOrderNeedsRoom(t *testing.T) {
	narrow := wide
	narrow.Records, narrow.Then = 1, projection.AcceptLatest
	found := false
	for seed := range 50 {
		found = found || rapid.Custom(func(rt *rapid.T) bool {
			return checkAnyOrder(t, rt, 8, narrow) != nil
		}).Example(seed)
	}
	if !found {
		t.Error("a queue with room for one record passes")
	}
}

// TestD1VersionsMoveForward: a row has the version that was applied last, and never an earlier
// position than before, whatever the reaction to gaps is.
func TestD1VersionsMoveForward(t *testing.T) {
	few := limits(projection.AcceptLatest)
	few.Records = 2
	for name, declare := range map[string]func(b *topology.Builder) texts{
		"fail fast":     func(b *topology.Builder) texts { return routed(b, false) },
		"accept latest": func(b *topology.Builder) texts { return routed(b, true, projection.OnGap(projection.AcceptLatest)) },
		"sparse":        func(b *topology.Builder) texts { return routed(b, false, projection.Sparse()) },
		"wait":          func(b *topology.Builder) texts { return waiting(b, few) },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				var p texts
				d := processortest.New(t, func(b *topology.Builder) { p = declare(b) })
				store, err := topologytest.Store(d.Driver, p.Store(), 0)
				if err != nil {
					rt.Fatal(err)
				}
				last := row{Version: -100}
				for _, step := range deliveries.Draw(rt, "history") {
					send(d, fmt.Sprintf("%d:%s", step.Version, step.Text))
					var applied row
					for _, r := range d.Take("changes") {
						if err := json.Unmarshal(r.Value, &applied); err != nil {
							rt.Fatal(err)
						}
						if applied.Version <= last.Version {
							rt.Fatalf("version %d is applied behind version %d", applied.Version, last.Version)
						}
						last = applied
					}
					if now, has, err := store.Get("k"); err != nil || has && now.Version != last.Version {
						rt.Fatalf("the row is %+v, %v, and version %d was applied last", now, err, last.Version)
					}
				}
			})
		})
	}
}

// TestI3Replay: the same records again, over the rows that they have led to, change nothing.
// Row of the failure matrix: replay from earliest.
func TestI3Replay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		order := rapid.Permutation(versions(rapid.IntRange(1, 10).Draw(rt, "n"))).Draw(rt, "order")
		d := newWaiting(t, wide)
		var before map[string]string
		for pass := range 2 {
			for _, v := range order {
				send(d, fmt.Sprintf("%d:%d", v, v))
			}
			if rows := d.Rows("texts", 0); pass == 0 {
				before = rows
				d.Take("changes")
			} else if !maps.Equal(rows, before) {
				rt.Fatalf("the rows are %q, and were %q", rows, before)
			}
		}
		d.Want("changes")
		noneWaits(t, d)
	})
}
