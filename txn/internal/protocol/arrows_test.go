package protocol

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// takenArrow returns the arrow that a step took. It looks at the states, not at how Step got there.
// A Due or a Full that is only remembered takes none.
func takenArrow(before State, e Event, after State) (Arrow, bool) {
	sealed := after.Front == Flushing && after.FrontRound == before.BackRound
	for _, a := range Arrows {
		if a.Event != e.Kind {
			continue
		}
		switch {
		case !a.Back && before.Front == a.From && e.Round == before.FrontRound:
			// The end of a round may seal the next one in the same step.
			if !sealed && after.Front == a.To || sealed && a.To == None {
				return a, true
			}
		case a.Back && before.Back == a.From && (e.Kind <= Dropped || e.Round == before.BackRound):
			if !sealed && after.Back == a.To || sealed && a.To == Flushing {
				return a, true
			}
		}
	}
	return Arrow{}, false
}

// TestArrowsAreTold fails when an arrow is taken by no transcript.
func TestArrowsAreTold(t *testing.T) {
	taken := map[Arrow]bool{}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		ts := newTranscript(func(before State, e Event, after State, _ []Effect) {
			if a, ok := takenArrow(before, e, after); ok {
				taken[a] = true
			}
		})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return ts.run(t, d) })
	})
	for _, a := range Arrows {
		if !taken[a] {
			t.Errorf("no transcript takes %s --%s--> %s (back round: %v)", a.From, a.Event, a.To, a.Back)
		}
	}
}

// TestArrowsAreUnambiguous: a phase and an event name at most one arrow, and a phase belongs to the
// round that the arrow is of.
func TestArrowsAreUnambiguous(t *testing.T) {
	seen := map[string]bool{}
	frontPhases := []Phase{None, Flushing, Offsets, Ending, Applying, Aborting, Settling, Doubting, Asking}
	backPhases := []Phase{Idle, Open, Streaming, Aborting, Settling}
	for _, a := range Arrows {
		key := fmt.Sprint(a.From, a.Event, a.Back)
		if seen[key] {
			t.Errorf("two arrows leave %s by %s", a.From, a.Event)
		}
		seen[key] = true
		phases := frontPhases
		if a.Back {
			phases = backPhases
		}
		if !slices.Contains(phases, a.From) {
			t.Errorf("an arrow leaves %s of a round that is never there", a.From)
		}
		sealed := a.Back && a.Event == Due && a.To == Flushing
		if !slices.Contains(phases, a.To) && !sealed && (a.Back || a.To != Broken) {
			t.Errorf("an arrow leads to %s of a round that is never there", a.To)
		}
	}
}

// TestEveryEventInEveryState gives every event to every combination of phases and flags, also to
// those that are never reached: the machine takes an arrow, ignores what it documents as ignored,
// or is broken with a reason. It never panics and never guesses.
func TestEveryEventInEveryState(t *testing.T) {
	const frontRound, backRound, noRound = 7, 8, 99
	count := map[string]int{}
	for front := None; front <= Broken+1; front++ {
		for back := None; back <= Broken+1; back++ {
			for flags := range 4 {
				s := State{Front: front, Back: back, FrontRound: frontRound, BackRound: backRound,
					CommitDue: flags&1 != 0, WantStream: flags&2 != 0}
				for kind := Joined; kind <= ApplyFailed+1; kind++ {
					for _, n := range []uint64{frontRound, backRound, noRound} {
						count[checkEvent(t, s, Event{Kind: kind, Round: n})]++
					}
				}
			}
		}
	}
	for _, verdict := range []string{"taken", "held back", "ignored", "guarded", "broken", "stopped"} {
		if count[verdict] == 0 {
			t.Errorf("no event was %s", verdict)
		}
	}
	t.Log(count)
}

// checkEvent checks one step against the table and says what it was.
func checkEvent(t *testing.T, s State, e Event) string {
	t.Helper()
	to, effects := Step(s, e)
	if again, same := Step(s, e); again != to || !reflect.DeepEqual(same, effects) {
		t.Errorf("[%s] %s %d: two steps differ", s, e.Kind, e.Round)
	}
	want := expect(s, e)
	got := "none of them"
	about := e.Round
	if e.Kind <= Dropped {
		about = s.BackRound
	}
	reason := fmt.Sprintf("broken invariant: event %s of round %d in state [%s]: ", e.Kind, about, s)
	isBroken := to.Front == Broken && len(effects) == 1 && effects[0].Kind == Fail &&
		effects[0].Round == about && strings.HasPrefix(effects[0].Reason, reason)
	_, taken := takenArrow(s, e, to)
	unchanged := to
	unchanged.Front = s.Front
	switch {
	case want == "stopped" || want == "ignored":
		if to == s && len(effects) == 0 {
			got = want
		}
	case want == "broken" || want == "guarded":
		if isBroken && unchanged == s {
			got = want
		}
	case want == "held back":
		if len(effects) == 0 && to.Front == s.Front && to.Back == s.Back && (to.CommitDue || to.WantStream) {
			got = want
		}
	case taken && !isBroken:
		got = "taken"
	}
	if got != want {
		t.Errorf("[%s] %s %d: -> [%s] %s: want it %s", s, e.Kind, e.Round, to, drawEffects(effects), want)
	}
	return want
}

// expect says what must become of an event, from the table and the documented exceptions.
func expect(s State, e Event) string {
	of := func(from Phase, back bool) bool {
		return slices.ContainsFunc(Arrows, func(a Arrow) bool {
			return a.From == from && a.Event == e.Kind && a.Back == back
		})
	}
	workers := e.Kind <= Dropped
	answersBack := e.Kind == Aborted || e.Kind == AbortUnknown || e.Kind == Settled
	backs := workers || answersBack && e.Round == s.BackRound
	healthy := s.Front <= Applying
	switch {
	case s.Front == Broken:
		return "stopped"
	case !backs && (s.Front == None || e.Round != s.FrontRound || !of(s.Front, false)):
		return "broken"
	case !backs:
		return "taken"
	case workers && e.Kind != Joined && slices.Contains([]Phase{Idle, Aborting, Settling}, s.Back):
		return "ignored"
	case !of(s.Back, true):
		return "broken"
	case e.Kind == Joined && !healthy:
		return "guarded"
	case e.Kind == Due && s.Front != None:
		return "held back"
	case e.Kind == Full && (!healthy || s.Front == Flushing):
		return "held back"
	default:
		return "taken"
	}
}

func TestNames(t *testing.T) {
	for k := Joined; k <= ApplyFailed; k++ {
		if got, err := ParseEvent(k.String()); err != nil || got != k {
			t.Errorf("ParseEvent(%q) = %v, %v", k, got, err)
		}
	}
	if _, err := ParseEvent("applied "); err == nil || !strings.Contains(err.Error(), `"applied "`) {
		t.Errorf("ParseEvent of an unknown name: %v", err)
	}
	names := map[string]bool{}
	for p := None; p <= Broken; p++ {
		names[p.String()] = true
	}
	for k := Stream; k <= Fail; k++ {
		names[k.String()] = true
	}
	if want := int(Broken) + 1 + int(Fail) + 1; len(names) != want || names[""] {
		t.Errorf("%d different names, want %d", len(names), want)
	}
	for _, got := range []string{(Broken + 1).String(), (ApplyFailed + 1).String(), (Fail + 1).String()} {
		if !strings.Contains(got, "(") {
			t.Errorf("a value without a name prints as %q", got)
		}
	}
}
