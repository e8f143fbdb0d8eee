package projection_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// delivery is one step of a random history of one key. Few versions make many collisions, in any
// order.
type delivery struct {
	Version int64
	// Text is "-" for a delete and "fail" for a fold that fails.
	Text    string
	Restart bool
}

var deliveries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) delivery {
	return delivery{
		Version: rapid.Int64Range(-2, 8).Draw(t, "version"),
		Text:    rapid.SampledFrom([]string{"a", "b", "c", "-", "fail"}).Draw(t, "text"),
		Restart: rapid.IntRange(0, 7).Draw(t, "restart") == 0,
	}
}), 1, 60)

// mode is a way to treat gaps.
type mode struct {
	opts         []projection.Option
	sparse, fast bool
}

var modes = map[string]mode{
	"fail fast":     {fast: true},
	"accept latest": {opts: []projection.Option{projection.OnGap(projection.AcceptLatest)}},
	"sparse":        {opts: []projection.Option{projection.Sparse()}, sparse: true},
}

// model is what the row of the key should be.
type model struct {
	row row
	has bool
}

// apply returns the topics that the delivery goes to, in the order of [topics].
func (m *model) apply(step delivery, how mode) string {
	gap := false
	if m.has {
		switch next := m.row.Version + 1; {
		case step.Version <= m.row.Version:
			return "stale "
		case step.Version > next && !how.sparse:
			gap = true
		}
	}
	if gap && how.fast || step.Text == "fail" {
		return "dead "
	}
	m.has = true
	if step.Text == "-" {
		m.row = row{Version: step.Version, Deleted: true}
	} else {
		m.row = row{Version: step.Version, Value: append(slices.Clone(m.row.Value), step.Text)}
	}
	if gap {
		return "changes gaps "
	}
	return "changes "
}

var topics = []string{"changes", "stale", "gaps", "dead"}

// checkHistory compares a projection with the model, step by step.
func checkHistory(
	tb testing.TB, history []delivery, how mode, declare func(b *topology.Builder) texts,
) error {
	var p texts
	d := processortest.New(tb, func(b *topology.Builder) { p = declare(b) })
	var m model
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		want := m.apply(step, how)
		send(d, fmt.Sprintf("%d:%s", step.Version, step.Text))
		got := ""
		for _, topic := range topics {
			if topic == "gaps" && how.gapless() {
				continue
			}
			for _, r := range d.Take(topic) {
				got += topic + " "
				form, err := json.Marshal(m.row)
				if topic == "changes" && (err != nil || string(form) != string(r.Value)) {
					return fmt.Errorf("step %d of %+v gave %s, want %s", i, history, r.Value, form)
				}
			}
		}
		if got != want {
			return fmt.Errorf("step %d of %+v went to %q, want %q", i, history, got, want)
		}
		if err := m.compare(d, p); err != nil {
			return fmt.Errorf("step %d of %+v: %w", i, history, err)
		}
	}
	return nil
}

func (m mode) gapless() bool { return m.fast || m.sparse }

func (m *model) compare(d *processortest.Driver, p texts) error {
	store, err := topologytest.Store(d.Driver, p.Store(), 0)
	if err != nil {
		return err
	}
	got, has, err := store.Get("k")
	if err != nil || has != m.has || fmt.Sprintf("%q", got.Value) != fmt.Sprintf("%q", m.row.Value) ||
		got.Version != m.row.Version || got.Deleted != m.row.Deleted {
		return fmt.Errorf("the store has %+v, %v, %w, want %+v, %v", got, has, err, m.row, m.has)
	}
	return nil
}

// TestModel compares a projection with the model, over random histories, for each way to treat
// gaps. Row of the failure matrix: older version after newer.
func TestModel(t *testing.T) {
	for name, how := range modes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				declare := func(b *topology.Builder) texts { return routed(b, !how.gapless(), how.opts...) }
				if err := checkHistory(t, deliveries.Draw(rt, "history"), how, declare); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// TestUndone: what crashes and aborts undo of a history comes again once, for each way to treat
// gaps. Row of the failure matrix: crash after processing before flush.
func TestUndone(t *testing.T) {
	check := func(t *testing.T, declare func(b *topology.Builder)) {
		rapid.Check(t, func(rt *rapid.T) {
			history := timedDeliveries.Draw(rt, "history")
			at := 10
			var seconds []int
			for _, step := range history {
				at += step.After
				seconds = append(seconds, at)
			}
			err := processortest.CheckUndone(t, declare, processortest.Steps(len(history)).Draw(rt, "steps"),
				func(d *processortest.Driver, i int) {
					sendAt(d, seconds[i], fmt.Sprintf("%d:%s", history[i].Version, history[i].Text))
				})
			if err != nil {
				rt.Fatal(err)
			}
		})
	}
	for name, how := range modes {
		t.Run(name, func(t *testing.T) { check(t, func(b *topology.Builder) { routed(b, !how.gapless(), how.opts...) }) })
	}
	for _, then := range []projection.GapPolicy{projection.FailFast, projection.AcceptLatest} {
		few := limits(then)
		few.Records = 3
		t.Run("wait, then "+then.String(), func(t *testing.T) { check(t, func(b *topology.Builder) { waiting(b, few) }) })
	}
}

// TestModelFindsBrokenProjection is the control: a projection that is given the wrong gap policy is
// found, and so is one whose versions are offsets, which always go forward.
func TestModelFindsBrokenProjection(t *testing.T) {
	broken := map[string]struct {
		how     mode
		declare func(b *topology.Builder) texts
	}{
		"sees no gap": {modes["fail fast"], func(b *topology.Builder) texts {
			return routed(b, false, projection.Sparse())
		}},
		"sees gaps in sparse": {modes["sparse"], func(b *topology.Builder) texts { return routed(b, false) }},
		"takes all records": {modes["sparse"], func(b *topology.Builder) texts {
			offset := func(r event) (int64, error) {
				_, _, offset := r.Source()
				return offset, nil
			}
			p := projection.Latest(topology.From(b, eventsTopic), "texts", offset, appendText, listCodec)
			p.Changes().Into(changesTopic)
			topology.MapValues(p.Stale(), "plain-stale",
				func(projection.Skipped[text]) (s projection.Skipped[string], err error) {
					return s, nil
				}).Into(staleTopic)
			return p
		}},
	}
	for name, control := range broken {
		found := false
		for seed := range 50 {
			found = found || checkHistory(t, deliveries.Example(seed), control.how, control.declare) != nil
		}
		if !found {
			t.Errorf("a projection that %s passes", name)
		}
	}
}

// TestRedriveConverges is requirement G5: under FailFast, whatever the order and however often
// records come, the state is that of the versions in their order once what failed was redriven.
func TestRedriveConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "n")
		d := newRouted(t, false)
		send(d, "0:0")
		queue := rapid.Permutation(versions(n)).Draw(rt, "order")
		queue = append(queue, rapid.SliceOf(rapid.IntRange(0, n)).Draw(rt, "again")...)
		for passes := 0; len(queue) > 0; passes++ {
			if passes > n {
				rt.Fatalf("after %d passes %v are left", passes, queue)
			}
			var failed []int
			for _, v := range queue {
				send(d, fmt.Sprintf("%d:%d", v, v))
				if len(d.Take("dead")) > 0 {
					failed = append(failed, v)
				}
			}
			queue = failed
		}
		changes := d.Take("changes")
		var last row
		if err := json.Unmarshal(changes[len(changes)-1].Value, &last); err != nil {
			rt.Fatal(err)
		}
		want := fmt.Sprint(append([]int{0}, versions(n)...))
		if fmt.Sprint(last.Value) != want || last.Version != int64(n) || len(changes) != n+1 {
			rt.Fatalf("the last of %d changes is %+v, want version %d and %s", len(changes), last, n, want)
		}
	})
}

// versions returns 1 to n.
func versions(n int) []int {
	var all []int
	for v := 1; v <= n; v++ {
		all = append(all, v)
	}
	return all
}
