package transition_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// delivery is one step of a random history. Few ids, states and versions make many collisions.
type delivery struct {
	Key            string
	Ask            Ask
	Fails, Restart bool
}

func deliveriesOf(machine transition.Machine[State], versioned bool) *rapid.Generator[[]delivery] {
	states := append(slices.Sorted(maps.Keys(machine.Next)), "", "lost")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) delivery {
		step := delivery{
			Key: rapid.SampledFrom([]string{"k", "", "k\x00"}).Draw(t, "key"),
			Ask: Ask{
				ID:   rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "id"),
				From: rapid.SampledFrom(states).Draw(t, "from"),
				To:   rapid.SampledFrom(states).Draw(t, "to"),
			},
			Fails:   rapid.IntRange(0, 5).Draw(t, "fails") == 0,
			Restart: rapid.IntRange(0, 9).Draw(t, "restart") == 0,
		}
		if versioned {
			step.Ask.Version = rapid.Int64Range(1, 5).Draw(t, "version")
		}
		return step
	}), 1, 60)
}

// model is what was accepted, in order, by aggregate. Everything else is derived from it.
type model struct {
	machine   transition.Machine[State]
	versioned bool
	facts     map[string][]Ask
}

// judge returns the outcome of a step.
func (m *model) judge(step delivery) string {
	facts, a := m.facts[step.Key], step.Ask
	if a.To == "" {
		return "dead"
	}
	for _, f := range facts {
		if f.ID == a.ID {
			same := f.From == a.From && f.To == a.To && (!m.versioned || f.Version == a.Version)
			return map[bool]string{true: "duplicate", false: "corruption"}[same]
		}
	}
	allowed := m.machine.Next[a.From]
	if a.From == "" {
		allowed = m.machine.Initial
	}
	switch {
	case !slices.Contains(allowed, a.To):
		return "illegal"
	case len(facts) == 0 && a.From != "":
		return "missing-aggregate"
	case len(facts) == 0:
		return "accepted"
	}
	last := facts[len(facts)-1]
	switch {
	case m.versioned && a.Version < facts[0].Version:
		return "stale"
	case m.versioned && slices.ContainsFunc(facts, func(f Ask) bool { return f.Version == a.Version }):
		return "corruption"
	case m.versioned && a.Version > last.Version+1:
		return "out-of-order"
	case a.From == last.To:
		return "accepted"
	case m.versioned:
		return "corruption"
	case slices.ContainsFunc(facts, func(f Ask) bool { return f.From == a.From || f.To == a.From }):
		return "stale"
	case m.leads(last.To, a.From, map[State]bool{}):
		return "out-of-order"
	}
	return "illegal"
}

func (m *model) leads(from, to State, seen map[State]bool) bool {
	for _, s := range m.machine.Next[from] {
		if s == to || !seen[s] {
			seen[s] = true
			if s == to || m.leads(s, to, seen) {
				return true
			}
		}
	}
	return false
}

// checkHistory compares a guard with the model, step by step.
func checkHistory(
	tb testing.TB, history []delivery, m *model, declare func(b *topology.Builder) guarded,
) error {
	var g guarded
	d := processortest.New(tb, func(b *topology.Builder) { g = declare(b) })
	m.facts = map[string][]Ask{}
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		want := m.judge(step)
		if want == "accepted" {
			if step.Fails {
				want = "dead"
			} else {
				m.facts[step.Key] = append(m.facts[step.Key], step.Ask)
			}
		}
		if got := deliver(d, step); got != want {
			return fmt.Errorf("step %d of %+v is %q, want %q", i, history, got, want)
		}
	}
	return m.compare(d, g)
}

// pipe pipes the record of a step.
func pipe(d *processortest.Driver, step delivery) {
	var opts []topologytest.PipeOption
	if step.Fails {
		opts = append(opts, topologytest.Header("fail", ""))
	}
	sendTo(d, step.Key, step.Ask, opts...)
}

// deliver returns what has become of the record: the outcomes, with a fact for each that was
// accepted.
func deliver(d *processortest.Driver, step delivery) string {
	pipe(d, step)
	var outcomes []string
	accepted, facts := len(d.Take("accepted")), len(d.Take("facts"))
	if accepted != facts {
		outcomes = append(outcomes, fmt.Sprintf("%d accepted with %d facts", accepted, facts))
	}
	for range facts {
		outcomes = append(outcomes, "accepted")
	}
	for _, r := range d.Take("refused") {
		var v refused
		if err := json.Unmarshal(r.Value, &v); err != nil {
			outcomes = append(outcomes, err.Error())
		}
		outcomes = append(outcomes, v.Refusal.String())
	}
	for range d.Take("dead") {
		outcomes = append(outcomes, "dead")
	}
	return strings.Join(outcomes, " ")
}

// compare compares the rows with the history that they stand for.
func (m *model) compare(d *processortest.Driver, g guarded) error {
	aggregates, err := topologytest.Store(d.Driver, g.AggregateStore(), 0)
	if err != nil {
		return err
	}
	facts, err := topologytest.Store(d.Driver, g.FactStore(), 0)
	if err != nil {
		return err
	}
	n := 0
	for key, asks := range m.facts {
		last := asks[len(asks)-1]
		at, ok, err := aggregates.Get(key)
		if err != nil {
			return err
		}
		if !ok || at.State != last.To || !m.versioned && at.Version != int64(len(asks)) ||
			m.versioned && at.Version != last.Version {
			return fmt.Errorf("the aggregate %q is %+v, want %+v", key, at, last)
		}
		for _, a := range asks {
			n++
			f, ok, err := facts.Get(transition.FactKey[string]{Aggregate: key, ID: a.ID})
			if err != nil {
				return err
			}
			if !ok || f.From != a.From || f.To != a.To {
				return fmt.Errorf("the fact %+v is %+v", a, f)
			}
		}
	}
	if got := len(d.Rows("orders-transitions", 0)); got != n {
		return fmt.Errorf("there are %d facts, want %d", got, n)
	}
	return nil
}

var machines = map[string]transition.Machine[State]{"orders": orders, "doors": doors}

func TestModel(t *testing.T) {
	for name, machine := range machines {
		for _, versions := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, versions %v", name, versions), func(t *testing.T) {
				var opts []transition.Option
				if versions {
					opts = versioned
				}
				histories := deliveriesOf(machine, versions)
				rapid.Check(t, func(rt *rapid.T) {
					m := &model{machine: machine, versioned: versions}
					declare := func(b *topology.Builder) guarded { return routed(b, machine, opts...) }
					if err := checkHistory(t, histories.Draw(rt, "history"), m, declare); err != nil {
						rt.Fatal(err)
					}
				})
			})
		}
	}
}

// TestUndone: what crashes and aborts undo of a history comes again once.
// Row of the failure matrix: crash after processing before flush.
func TestUndone(t *testing.T) {
	for name, opts := range map[string][]transition.Option{"in order": nil, "versioned": versioned} {
		t.Run(name, func(t *testing.T) {
			histories := deliveriesOf(doors, opts != nil)
			rapid.Check(t, func(rt *rapid.T) {
				history := histories.Draw(rt, "history")
				err := processortest.CheckUndone(t, func(b *topology.Builder) { routed(b, doors, opts...) },
					processortest.Steps(len(history)).Draw(rt, "steps"),
					func(d *processortest.Driver, i int) { pipe(d, history[i]) })
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// TestModelFindsBrokenGuard is the control: guards that are told of other transitions than the
// records hold, or of another machine, are found.
func TestModelFindsBrokenGuard(t *testing.T) {
	broken := map[string]struct {
		machine transition.Machine[State]
		distort func(a *transition.Transition[State], r ask)
	}{
		"counts deliveries": {doors, func(a *transition.Transition[State], r ask) {
			_, _, offset := r.Source()
			a.ID += fmt.Sprint(offset)
		}},
		"ignores the state left": {doors, func(a *transition.Transition[State], _ ask) { a.From = "" }},
		"ignores ids":            {doors, func(a *transition.Transition[State], _ ask) { a.ID = "a" }},
		"has another machine":    {orders, func(*transition.Transition[State], ask) {}},
	}
	for name, control := range broken {
		found := false
		histories := deliveriesOf(doors, false)
		for seed := range 50 {
			m := &model{machine: doors}
			found = found || checkHistory(t, histories.Example(seed), m, func(b *topology.Builder) guarded {
				return routedFrom(b, control.machine, func(r ask) (transition.Transition[State], error) {
					a, err := read(r)
					control.distort(&a, r)
					return a, err
				})
			}) != nil
		}
		if !found {
			t.Errorf("a guard that %s passes", name)
		}
	}
}

// TestRedriveConverges is requirement G5: whatever the order in which the transitions of an
// aggregate come, and however often, rows and facts are those of the clean sequence once what was
// refused as early has come again.
func TestRedriveConverges(t *testing.T) {
	path := []State{"", "shut", "open", "open", "shut", "locked", "shut"}
	var clean []Ask
	for i := range len(path) - 1 {
		clean = append(clean, Ask{ID: fmt.Sprint(i), From: path[i], To: path[i+1], Version: int64(i + 1)})
	}
	newDoors := func() *processortest.Driver { return newRouted(t, doors, transition.Versioned()) }
	wanted := newDoors()
	send(wanted, clean...)
	want, wantFacts := rows(wanted), values(wanted.Take("facts"))
	rapid.Check(t, func(rt *rapid.T) {
		queue := rapid.Permutation(clean).Draw(rt, "order")
		queue = append(queue, rapid.SliceOf(rapid.SampledFrom(clean)).Draw(rt, "again")...)
		d := newDoors()
		for passes := 0; len(queue) > 0; passes++ {
			if passes > len(clean) {
				rt.Fatalf("after %d passes %v are left", passes, queue)
			}
			var early []Ask
			for _, a := range queue {
				switch got := deliver(d, delivery{Key: "k", Ask: a}); got {
				case "out-of-order", "missing-aggregate":
					early = append(early, a)
				case "duplicate", "accepted":
				default:
					rt.Fatalf("%+v is %s", a, got)
				}
			}
			queue = early
		}
		if got := rows(d); !sameRows(got, want) {
			rt.Fatalf("the rows are %q, want %q", got, want)
		}
		if n := d.Count("orders", "accepted"); n != int64(len(wantFacts)) {
			rt.Fatalf("%d transitions were accepted, want %d", n, len(wantFacts))
		}
	})
}

// sameRows compares rows without the timestamps of the records, which are the clock of each driver.
func sameRows(a, b map[string]string) bool {
	blank := func(row string) string { return row[:9] + row[17:] }
	return maps.EqualFunc(a, b, func(x, y string) bool { return blank(x) == blank(y) })
}

func values(records []topologytest.Raw) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

// TestI3Replay: the same records over empty stores have the same outcomes, and over the rows that
// they have led to no accepted one a second fact. Row of the failure matrix: replay from earliest.
func TestI3Replay(t *testing.T) {
	histories := deliveriesOf(doors, false)
	rapid.Check(t, func(rt *rapid.T) {
		history := histories.Draw(rt, "history")
		var first, again []string
		one, two := newRouted(t, doors), newRouted(t, doors)
		for _, step := range history {
			first = append(first, deliver(one, step))
			again = append(again, deliver(two, step))
		}
		if !slices.Equal(first, again) || !sameRows(rows(one), rows(two)) {
			rt.Fatalf("the outcomes are %q, and again %q", first, again)
		}
		for i, step := range history {
			if got := deliver(one, step); first[i] == "accepted" && got != "duplicate" {
				rt.Fatalf("step %d of %+v was accepted, and is %s in the replay", i, history, got)
			}
		}
	})
}
