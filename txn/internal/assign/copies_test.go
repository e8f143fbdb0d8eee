package assign

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology/graph"
)

// withCopies lets all members ask for standbys, and makes all subtopologies but one stateful.
func withCopies(t *rapid.T, r Request, standbys int32) Request {
	racks := rapid.IntRange(0, 3).Draw(t, "racks")
	for i := range r.Members {
		m := &r.Members[i]
		m.Join.Standbys = standbys
		if racks > 0 {
			m.Join.Rack = fmt.Sprint("rack", i%racks)
		}
		m.Join.Subtopologies = slices.Clone(m.Join.Subtopologies)
		for j := range m.Join.Subtopologies {
			m.Join.Subtopologies[j].Stateful = j > 0
		}
	}
	return r
}

// warm makes every copy of the plan warm.
func warm(r Request, plan Plan) Request {
	r.Members = slices.Clone(r.Members)
	for i := range r.Members {
		m := &r.Members[i]
		m.Join.Warm = nil
		for _, c := range plan.CopiesOf(m.Key()) {
			m.Join.Warm = append(m.Join.Warm, c.Task)
		}
	}
	return r
}

// restWithCopies balances until no task moves or waits.
func restWithCopies(t *rapid.T, r Request) (Request, Result) {
	for range 10 {
		out := Balance(r)
		r = warm(hold(r, out), out.Plan)
		waits := slices.ContainsFunc(out.Plan.Copies, func(c Copy) bool { return c.Awaited })
		if len(out.Plan.Pending) == 0 && !waits {
			return r, out
		}
	}
	t.Fatal("tasks still move, or wait, after ten plans with warm copies")
	return r, Result{}
}

// TestCopies: at rest each task with state has its copies, at members of their own, evenly divided,
// and in racks of their own where that is possible.
func TestCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		standbys := rapid.Int32Range(1, 3).Draw(t, "standbys")
		r, out := restWithCopies(t, withCopies(t, drawRequest(t, 6), standbys))
		all := owners(t, r, out)
		checkEven(t, r, all)
		racks := map[string]string{}
		for _, m := range r.Members {
			racks[m.ID] = m.Join.Rack
		}
		copies, holders := map[string]int{}, map[graph.TaskID][]string{}
		for _, c := range out.Plan.Copies {
			i := slices.IndexFunc(r.Members, func(m Member) bool { return m.Key() == c.Member })
			id := r.Members[i].ID
			if all[c.Task] == id || slices.Contains(holders[c.Task], id) {
				t.Fatalf("%s keeps a copy of %s beside the task, or a second one", id, c.Task)
			}
			holders[c.Task] = append(holders[c.Task], id)
			copies[id]++
		}
		for id, at := range all {
			want := min(int(standbys), len(r.Members)-1)
			if id.Subtopology == r.Members[0].Join.Subtopologies[0].Name {
				want = 0 // it has no state
			}
			if len(holders[id]) != want {
				t.Fatalf("task %s has %d copies, want %d", id, len(holders[id]), want)
			}
			others := slices.DeleteFunc(slices.Clone(r.Members), func(m Member) bool { return m.ID == at || racks[m.ID] == racks[at] })
			if want == 1 && racks[at] != "" && len(others) > 0 && racks[holders[id][0]] == racks[at] {
				t.Fatalf("the copy of task %s is in its own rack %s, and there are others", id, racks[at])
			}
		}
		again := Balance(r)
		if !slices.Equal(again.Plan.Copies, out.Plan.Copies) {
			t.Fatalf("a plan without a change moves copies:\n%v\n%v", out.Plan.Copies, again.Plan.Copies)
		}
	})
}

// TestTasksWaitForWarmCopies: a member that joins gets no task with state before it has a warm
// copy, and all that it is to have after that. A member without a warm copy gets a task only if no
// member could go on with it at once.
func TestTasksWaitForWarmCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, out := restWithCopies(t, withCopies(t, drawRequest(t, 5), 1))
		before := owners(t, r, out)
		stateful := func(id graph.TaskID) bool { return id.Subtopology != r.Members[0].Join.Subtopologies[0].Name }
		r.Members = append(slices.Clone(r.Members), Member{ID: "new", Instance: "new", Generation: -1, Join: r.Members[0].Join})
		r.Members[len(r.Members)-1].Join.Warm = nil
		out = Balance(r)
		for _, m := range out.Plan.Pending {
			if stateful(m.Task) && m.To == "new" {
				t.Fatalf("task %s moves to a member without a copy", m.Task)
			}
		}
		if now := owners(t, r, out); len(now)+len(out.Plan.Pending) != len(before) {
			t.Fatalf("%d of %d tasks have an owner, and %d move", len(now), len(before), len(out.Plan.Pending))
		}
		r, out = restWithCopies(t, r)
		checkEven(t, r, owners(t, r, out))
	})
}

// TestWarmCopiesTakeOver: what a member leaves behind goes on at once where the copies are.
func TestWarmCopiesTakeOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, out := restWithCopies(t, withCopies(t, drawRequest(t, 6), 1))
		if len(r.Members) < 2 {
			return
		}
		before := owners(t, r, out)
		gone := rapid.IntRange(0, len(r.Members)-1).Draw(t, "gone")
		left := r.Members[gone]
		r.Members = slices.Delete(slices.Clone(r.Members), gone, gone+1)
		next := Balance(r)
		after := owners(t, r, next)
		for id, at := range before {
			if at != left.ID || id.Subtopology == r.Members[0].Join.Subtopologies[0].Name {
				continue
			}
			i := slices.IndexFunc(out.Plan.Copies, func(c Copy) bool { return c.Task == id && c.Member != left.Key() })
			j := slices.IndexFunc(r.Members, func(m Member) bool { return m.Key() == out.Plan.Copies[i].Member })
			if after[id] != r.Members[j].ID {
				t.Fatalf("task %s of %s goes to %q, and %s has the copy", id, left.ID, after[id], r.Members[j].ID)
			}
		}
		restWithCopies(t, r)
	})
}

// TestMembersWithoutStandbys: a member whose build or settings have no standbys keeps no copy, and
// a task moves to it as before.
func TestMembersWithoutStandbys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := restWithCopies(t, withCopies(t, drawRequest(t, 4), 1))
		r.Members = append(slices.Clone(r.Members), Member{ID: "old", Instance: "old", Generation: -1, Join: r.Members[0].Join})
		old := &r.Members[len(r.Members)-1]
		old.Join.Standbys, old.Join.Warm = 0, nil
		r, out := restWithCopies(t, r)
		if copies := out.Plan.CopiesOf("old"); len(copies) > 0 {
			t.Fatalf("it keeps copies: %v", copies)
		}
		checkEven(t, r, owners(t, r, out))
	})
}

// TestMemberForcesForWarmCopies: once if all copies that tasks wait for are warm, later if some
// are, and rarely again for the same ones.
func TestMemberForcesForWarmCopies(t *testing.T) {
	now := time.Unix(1000, 0)
	one, two := in(1), in(2)
	plan := Plan{ID: 1, Entries: []Entry{{Member: "a"}}, Copies: []Copy{
		{Task: one, Member: "a", Awaited: true}, {Task: two, Member: "a", Awaited: true}, {Task: in(3), Member: "a"}, {Task: in(4), Member: "b", Awaited: true},
	}}
	f := NewForcing(Entry{Member: "a", Subscription: 0}, time.Minute)
	f.Planned(now, plan, false)
	due := func(what string, wanted bool, want time.Time) {
		t.Helper()
		if at, why, ok := f.Due(); ok != wanted || ok && (why != Warm || !at.Equal(want)) {
			t.Errorf("%s: due %t at %s because of %q, want %t at %s", what, ok, at, why, wanted, want)
		}
	}
	due("no copy is warm", false, now)
	f.Warm([]graph.TaskID{in(3), in(4)})
	due("copies are warm for which no task waits", false, now)
	f.Warm([]graph.TaskID{one})
	due("one of two is warm", true, now.Add(pendingFirst))
	f.Warm([]graph.TaskID{one, two})
	due("all are warm", true, now)
	f.Forced(now, Warm)
	f.Planned(now, plan, false)
	due("the plan lets them wait all the same", true, now.Add(2*pendingFirst))
	plan.Pending = []Move{{Task: one, From: "b", To: "a"}, {Task: two, From: "b", To: "a"}}
	f.Planned(now, plan, false)
	due("they are on the way", false, now)
}

// TestFirstMemberWithStandbys: while members get their standbys one after the other, none has many
// more than its share of the copies of all. Copies that are awaited, or replaced, come on top.
func TestFirstMemberWithStandbys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := withCopies(t, drawRequest(t, 6), 0)
		for i := range r.Members {
			r.Members[i].Join.Standbys = 1
			out := Balance(r)
			stateful := 0
			for id := range owners(t, r, out) {
				if id.Subtopology != r.Members[0].Join.Subtopologies[0].Name {
					stateful++
				}
			}
			for _, m := range r.Members {
				if n, most := len(out.Plan.CopiesOf(m.Key())), ceil(stateful, len(r.Members)); i < len(r.Members)-1 && n > 2*most+len(out.Plan.Pending) {
					t.Fatalf("with %d of %d members, %s keeps %d copies of %d tasks", i+1, len(r.Members), m.Key(), n, stateful)
				}
			}
			r = warm(hold(r, out), out.Plan)
		}
	})
}

// TestWarmCopiesStay: a task that has a warm copy has one in each plan that follows while members
// join, unless the member with the copy has got the task.
func TestWarmCopiesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, out := restWithCopies(t, withCopies(t, drawRequest(t, 6), 1))
		for range rapid.IntRange(1, 4).Draw(t, "members that join") {
			key := fmt.Sprint("new", len(r.Members))
			join := r.Members[0].Join
			join.Warm, join.Rack = nil, rapid.SampledFrom([]string{"", "rack0", "rack1", "rack9"}).Draw(t, "rack")
			r.Members = append(slices.Clone(r.Members), Member{ID: key, Instance: key, Generation: -1, Join: join})
			for range 6 {
				next := Balance(r)
				after := owners(t, r, next)
				for _, c := range out.Plan.Copies {
					i := slices.IndexFunc(r.Members, func(m Member) bool { return m.Key() == c.Member })
					isWarm := slices.Contains(r.Members[i].Join.Warm, c.Task)
					still := slices.ContainsFunc(next.Plan.Copies, func(o Copy) bool {
						j := slices.IndexFunc(r.Members, func(m Member) bool { return m.Key() == o.Member })
						return o.Task == c.Task && slices.Contains(r.Members[j].Join.Warm, c.Task)
					})
					if isWarm && !still && after[c.Task] != r.Members[i].ID {
						t.Fatalf("task %s had a warm copy at %s, and the next plan has none: %v", c.Task, c.Member, next.Plan.Copies)
					}
				}
				r, out = warm(hold(r, next), next.Plan), next
			}
		}
		restWithCopies(t, r)
	})
}
