package assign

import (
	"testing"
	"time"
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

func TestLeaderBacksOff(t *testing.T) {
	own := Entry{Member: "me"}
	f := NewForcing(own, 15*time.Second)
	now := time.Unix(1000, 0)
	owed := func(id uint64) Plan { return Plan{ID: id, Entries: []Entry{own}, Owed: []Move{{Task: in(0)}}} }
	f.Planned(now, owed(1), false)
	if _, _, ok := f.Due(); ok {
		t.Fatal("a member that does not lead forces for others")
	}
	// The first wait is as long as a revoke can take.
	for i, want := range []time.Duration{15, 20, 40, 80, 160, 300, 300, 300} {
		f.Planned(now, owed(uint64(1+i)), true)
		at, why, ok := f.Due()
		if got := at.Sub(now); !ok || why != OwedMoves || got != want*time.Second {
			t.Fatalf("force %d is due after %s (%v, %v), want %d s", i, got, why, ok, want)
		}
		now = at
		f.Forced(now, why)
	}
	f.Planned(now, Plan{ID: 100, Entries: []Entry{own}}, true)
	if _, _, ok := f.Due(); ok {
		t.Fatal("nothing is owed and something is due")
	}
	f.Planned(now, owed(101), true)
	if at, _, _ := f.Due(); at.Sub(now) != 15*time.Second {
		t.Errorf("due after %s, want a new start", at.Sub(now))
	}
	// The same plan again, as a rejoin gets it, does not prolong the wait.
	f.Planned(now.Add(10*time.Second), owed(101), true)
	if at, _, _ := f.Due(); at.Sub(now) != 15*time.Second {
		t.Errorf("due after %s, want the wait to go on", at.Sub(now))
	}
}
