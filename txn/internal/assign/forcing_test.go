package assign

import (
	"testing"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

func TestMemberForcesForItselfOnce(t *testing.T) {
	own := Entry{Member: "me", Fingerprint: [8]byte{2}}
	f := NewForcing(own, 30*time.Second)
	start := time.Unix(1000, 0)
	if _, _, ok := f.Due(); ok {
		t.Fatal("something is due before there is a plan")
	}
	f.Planned(start, Plan{ID: 1, Entries: []Entry{{Member: "other"}, own}}, false)
	if _, _, ok := f.Due(); ok {
		t.Fatal("a member that is described rightly forces")
	}
	wrong := []Entry{{Member: "me", Fingerprint: [8]byte{1}}, {Member: "other"}}
	f.Planned(start, Plan{ID: 2, Entries: wrong}, false)
	at, why, ok := f.Due()
	if !ok || !at.Equal(start) || why != Described {
		t.Fatalf("due %v %v %v, want now", at, why, ok)
	}
	f.Forced(start, why)
	for id := range uint64(100) {
		f.Planned(start.Add(time.Hour*time.Duration(id)), Plan{ID: 3 + id, Entries: wrong}, false)
		if _, _, ok := f.Due(); ok {
			t.Fatal("a second rebalance is forced for the same change")
		}
	}
	f.Left()
	f.Planned(start, Plan{ID: 200}, false)
	if _, _, ok := f.Due(); ok {
		t.Fatal("a new membership begins to count anew")
	}
}

// TestMemberForcesForOneThatIsGone: at once, once, and only while the plan has it.
func TestMemberForcesForOneThatIsGone(t *testing.T) {
	own, now := Entry{Member: "me"}, time.Unix(1000, 0)
	f := NewForcing(own, 30*time.Second)
	never := func(when string) {
		t.Helper()
		if at, why, ok := f.Due(); ok {
			t.Errorf("%s: due %v %v", when, at, why)
		}
	}
	f.Gone("other")
	never("without a plan")
	both := []Entry{own, {Member: "other"}}
	f.Planned(now, Plan{ID: 1, Entries: both}, true)
	never("before the plan")
	f.Gone("third")
	never("an instance that the plan does not have")
	f.Gone("other")
	at, why, ok := f.Due()
	if !ok || why != Gone || at.After(now) {
		t.Fatalf("due %v %v %v, want now", at, why, ok)
	}
	f.Forced(now, why)
	never("a second time")
	f.Gone("other")
	f.Planned(now, Plan{ID: 2, Entries: both[:1]}, true)
	never("the new plan is without it")
	f.Gone("other")
	never("after the new plan")
	f.Planned(now, Plan{ID: 3, Entries: both}, true)
	f.Gone("other")
	f.Left()
	never("without a membership")
}

// TestMemberForcesWhenThePlanIsOver: at once, once, only for the plan that it has, and not if it
// joins or has something to give up itself.
func TestMemberForcesWhenThePlanIsOver(t *testing.T) {
	own, now := Entry{Member: "me"}, time.Unix(1000, 0)
	f := NewForcing(own, 30*time.Second)
	due := func(want bool, when string) {
		t.Helper()
		if at, why, ok := f.Due(); ok != want || ok && (why != Over || at.After(now)) {
			t.Errorf("%s: due %v %q %t, want %t", when, at, why, ok, want)
		}
	}
	moves := func(id uint64, from string) Plan {
		return Plan{ID: id, Entries: []Entry{own, {Member: "other"}}, Pending: []Move{{Task: graph.TaskID{Subtopology: "a"}, From: from, To: "third"}}}
	}
	f.Over(0)
	f.Over(1)
	due(false, "without a plan")
	f.Planned(now, moves(1, "other"), false)
	f.Over(2)
	f.Over(0)
	due(false, "another plan is over")
	f.Over(1)
	due(true, "the plan is over")
	f.Forced(now, Over)
	due(false, "a second time")
	f.Over(1)
	f.Joining()
	f.Planned(now, moves(2, "other"), false)
	due(false, "with the next plan")
	f.Joining()
	f.Over(2)
	due(false, "while it joins")
	f.Planned(now, moves(3, "me"), false)
	f.Over(3)
	due(false, "it has something to give up")
	f.Planned(now, Plan{ID: 4, Entries: []Entry{own}}, false)
	f.Over(4)
	due(true, "a member has left")
	f.Forced(now, Over)
	f.Over(4)
	due(false, "another member says it of the same plan")
	f.Joining()
	f.Over(5)
	due(false, "while it joins, of the next plan")
	f.Planned(now, moves(5, "other"), false)
	due(true, "the plan was over before this member had it")
	f.Planned(now, moves(6, "other"), false)
	due(false, "with a plan after that")
	f.Joining()
	f.Over(7)
	f.Planned(now, moves(7, "me"), false)
	due(false, "the plan was over before this member had it, and it has something to give up")
	f.Over(7)
	f.Left()
	due(false, "without a membership")
}

// TestOverIsNewsOnce: Over returns true once for a plan of this member, also if this member forces no
// rebalance for it. Otherwise members would tell each other without an end.
func TestOverIsNewsOnce(t *testing.T) {
	f := NewForcing(Entry{Member: "me"}, 30*time.Second)
	over := func(plan uint64, want bool, when string) {
		t.Helper()
		if first := f.Over(plan); first != want {
			t.Errorf("%s: the first time is %t, want %t", when, first, want)
		}
	}
	over(1, false, "without a plan")
	f.Planned(time.Unix(1, 0), Plan{ID: 1, Pending: []Move{{From: "me"}}}, false)
	over(2, false, "of another plan")
	over(1, true, "of the plan")
	over(1, false, "of the plan again")
	f.Planned(time.Unix(2, 0), Plan{ID: 2}, false)
	f.Joining()
	over(2, true, "while it joins")
	over(2, false, "while it joins, again")
	over(3, false, "of the next plan")
	f.Planned(time.Unix(3, 0), Plan{ID: 3}, false)
	over(3, false, "of the plan, which was said before")
}

// TestMemberForcesNothingWhileItJoins: the next plan decides whether a removed member matters. A
// rebalance that is forced while another one is under way would follow it without need, and the
// other members would hear of it with their next heartbeats only.
func TestMemberForcesNothingWhileItJoins(t *testing.T) {
	own, now := Entry{Member: "me"}, time.Unix(1000, 0)
	both := []Entry{own, {Member: "other"}}
	due := func(f *Forcing, want bool, when string) {
		t.Helper()
		if at, why, ok := f.Due(); ok != want || ok && why != Gone {
			t.Errorf("%s: due %v %v %v, want %v", when, at, why, ok, want)
		}
	}
	f := NewForcing(own, 30*time.Second)
	f.Planned(now, Plan{ID: 1, Entries: both}, false)
	f.Joining()
	f.Gone("other")
	due(f, false, "removed while this member joins")
	f.Planned(now, Plan{ID: 2, Entries: both[:1]}, false)
	due(f, false, "the next plan is without it")

	f.Planned(now, Plan{ID: 3, Entries: both}, false)
	f.Joining()
	f.Gone("other")
	f.Planned(now, Plan{ID: 4, Entries: both}, false)
	due(f, true, "the next plan was made before the removal")
	f.Planned(now, Plan{ID: 5, Entries: both}, false)
	due(f, false, "one plan later")

	f.Gone("other")
	f.Joining()
	due(f, false, "this member joins after the removal")
	f.Gone("other")
	f.Left()
	f.Planned(now, Plan{ID: 6, Entries: both}, false)
	due(f, false, "in the next membership")
}

// TestMemberForcesForWorkingTasks: once they had the time to stop again, and once for each fall of
// their number.
func TestMemberForcesForWorkingTasks(t *testing.T) {
	own := Entry{Member: "me", Fingerprint: [8]byte{2}}
	f := NewForcing(own, 30*time.Second)
	now := time.Unix(1000, 0)
	planned := func(id uint64, entry Entry, stopped, really int32) {
		t.Helper()
		entry.Stopped = stopped
		f.Stopped(really)
		f.Planned(now, Plan{ID: id, Entries: []Entry{{Member: "other", Stopped: 9}, entry}}, false)
	}
	wants := func(what string, after time.Duration) {
		t.Helper()
		at, why, ok := f.Due()
		if ok != (after >= 0) || ok && (why != Working || !at.Equal(now.Add(after))) {
			t.Fatalf("%s: due after %s (%v, %v), want %s", what, at.Sub(now), why, ok, after)
		}
	}
	const never = -time.Second
	planned(1, own, 2, 2)
	wants("both are stopped", never)
	f.Stopped(3)
	wants("one more is stopped than the plan knows", never)
	f.Left()
	f.Stopped(0)
	wants("no membership", never)
	planned(1, own, 2, 0)
	wants("a new membership got the old assignment", workingFor)
	f.Stopped(2)
	wants("both stopped again", never)
	f.Stopped(1)
	wants("one of them works", workingFor)
	now = now.Add(workingFor)
	f.Forced(now, Working)
	wants("forced", never)
	for id := range uint64(100) { // of a leader that does not know better
		now = now.Add(time.Hour)
		planned(2+id, own, 2, 1)
		wants("forced before", never)
	}
	f.Stopped(0)
	wants("the other one works too", workingFor)
	f.Forced(now, Working)
	planned(200, own, 0, 0)
	wants("the plan has it right", never)
	planned(201, own, 1, 1)
	wants("one stopped meanwhile", never)
	f.Stopped(0)
	wants("and works again", workingFor)
	other := own
	other.Fingerprint = [8]byte{1}
	planned(202, other, 1, 0)
	if at, why, ok := f.Due(); !ok || why != Described || !at.Equal(now.Add(describedEvery)) {
		t.Errorf("due %v %v %v, want what is due first, and no second rebalance within %s", at, why, ok, describedEvery)
	}
}

func TestLeaderBacksOff(t *testing.T) {
	own := Entry{Member: "me"}
	f := NewForcing(own, 15*time.Second)
	now := time.Unix(1000, 0)
	pending := func(id uint64) Plan { return Plan{ID: id, Entries: []Entry{own}, Pending: []Move{{Task: in(0)}}} }
	f.Planned(now, pending(1), false)
	if _, _, ok := f.Due(); ok {
		t.Fatal("a member that does not lead forces for others")
	}
	// The first wait is as long as a revoke can take.
	for i, want := range []time.Duration{15, 20, 40, 80, 160, 300, 300, 300} {
		f.Planned(now, pending(uint64(1+i)), true)
		at, why, ok := f.Due()
		if got := at.Sub(now); !ok || why != PendingMoves || got != want*time.Second {
			t.Fatalf("force %d is due after %s (%v, %v), want %d s", i, got, why, ok, want)
		}
		now = at
		f.Forced(now, why)
	}
	f.Planned(now, Plan{ID: 100, Entries: []Entry{own}}, true)
	if _, _, ok := f.Due(); ok {
		t.Fatal("nothing is pending and something is due")
	}
	f.Planned(now, pending(101), true)
	if at, _, _ := f.Due(); at.Sub(now) != 15*time.Second {
		t.Errorf("due after %s, want a new start", at.Sub(now))
	}
	// The same plan again, as a rejoin gets it, does not prolong the wait.
	f.Planned(now.Add(10*time.Second), pending(101), true)
	if at, _, _ := f.Due(); at.Sub(now) != 15*time.Second {
		t.Errorf("due after %s, want the wait to go on", at.Sub(now))
	}
}
