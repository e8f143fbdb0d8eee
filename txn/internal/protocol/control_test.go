package protocol

import (
	"slices"
	"strings"
	"testing"
)

// control is a broken machine (mutant_test.go). The model and the walks must catch every one of
// them, else they prove nothing about the real one.
type control struct {
	name string
	// rules are those that it breaks: each of them catches it alone.
	rules []rule
	// unseen is why the damage does not show in what consumers read, in the offsets or in the
	// store. Where it is empty it does show, also when no rule is checked.
	unseen string
	// step makes a new machine; some need a memory of their own.
	step func() stepFunc
}

// controls begins with the ones that are easiest to get wrong.
var controls = []control{{
	name:  "an unanswered commit is applied",
	rules: []rule{ruleCommittedOnly},
	step:  pure(believer),
}, {
	name:   "the front round does not wait for the abort of the back round",
	rules:  []rule{ruleTopFirst},
	unseen: "the back round is dropped all the same, only later",
	step:   pure(impatient),
}, {
	name:  "the back round stays although the front round failed",
	rules: []rule{ruleTopFirst, ruleBase},
	step:  pure(keeper),
}, {
	name:  "the back round streams before the front round's flush",
	rules: []rule{ruleFlushedFirst},
	step:  pure(streamer),
}, {
	name:  "the front round runs again before the back round is put back",
	rules: []rule{ruleRerunOrder, ruleBase},
	step:  misordered,
}, {
	name:   "the log is asked before the producer is settled",
	rules:  []rule{ruleSettledFirst, ruleOneTransaction},
	unseen: "a stable fetch waits for pending offsets; the producer's next transaction fails, and settles",
	step:   swap(Doubting, Settle, Asking, Ask),
}, {
	name:  "an unanswered commit is followed by an abort",
	rules: []rule{ruleNoAbortAfter},
	step:  takenAs(Ending, CommitUnknown, Flushing, FlushFailed),
}, {
	name:  "a settled round in doubt counts as aborted",
	rules: []rule{ruleRerunAborted},
	step:  takenAs(Doubting, Settled, Settling, Settled),
}, {
	name:  "a round that is found aborted is applied",
	rules: []rule{ruleCommittedOnly},
	step:  takenAs(Asking, FoundPrevious, Asking, FoundOurs),
}, {
	name:  "a round that is found committed runs again",
	rules: []rule{ruleRerunAborted},
	step:  takenAs(Asking, FoundOurs, Asking, FoundPrevious),
}, {
	name:   "an unanswered abort counts as an abort",
	rules:  []rule{ruleOneTransaction},
	unseen: "a producer that waits for an answer takes no records: the next round on it fails, and settles",
	step:   takenAs(Aborting, AbortUnknown, Aborting, Aborted),
}, {
	name:  "a failed flush counts as clean",
	rules: []rule{ruleCleanFlush},
	step:  takenAs(Flushing, FlushFailed, Flushing, Flushed),
}, {
	name:  "refused offsets count as accepted",
	rules: []rule{ruleAcceptedFirst},
	step:  takenAs(Offsets, OffsetsRefused, Offsets, OffsetsAccepted),
}, {
	name:  "the commit is sent without offsets",
	rules: []rule{ruleAcceptedFirst},
	step:  swap(Offsets, SendOffsets, Ending, End),
}, {
	name:  "the commit is sent beside the offsets",
	rules: []rule{ruleOneAtATime},
	step:  pure(doubleSender),
}, {
	name:  "a committed round is not applied",
	rules: []rule{ruleRetireApplied},
	step:  pure(retirer),
}, {
	name:  "the next round is sealed before this one is applied",
	rules: []rule{ruleOneFront, ruleOlderApplied, ruleInOrder},
	step:  hasty,
}, {
	name:  "an aborted round does not run again",
	rules: []rule{ruleProgress, ruleSameRounds},
	step: without(func(s State, e Event, f Effect) bool {
		return f.Kind == Rerun && f.Round == s.FrontRound
	}),
}, {
	name:  "a front round that was held back is forgotten",
	rules: []rule{ruleProgress},
	step: without(func(s State, e Event, f Effect) bool {
		return endsBack(s, e) && f.Round == s.FrontRound
	}),
}, {
	name:  "a good round is aborted",
	rules: []rule{ruleNoNeed},
	step:  swap(Ending, End, Aborting, Abort),
}, {
	name:  "a round after a dropped one takes the other producer",
	rules: []rule{ruleOneTransaction},
	step:  renumber(1),
}, {
	name:   "a number is used again after a drop",
	rules:  []rule{ruleNumbersRise},
	unseen: "this broker tells two transactions of one number apart by itself",
	step:   renumber(0),
}, {
	name:  "records join while the back round is aborted",
	rules: []rule{ruleCompute},
	step:  pure(careless),
}, {
	name:   "a dropped task stays in the back round",
	rules:  []rule{ruleGivenUp},
	unseen: "ownership is compared again before the offsets are sent",
	step:   ignoring(Dropped),
}, {
	name:   "a Due that came too early is forgotten",
	rules:  []rule{ruleProgress},
	unseen: "the round commits at the next Due",
	step:   forgetting(func(s *State) { s.CommitDue = false }),
}, {
	name:   "a Full that came too early is forgotten",
	rules:  []rule{ruleProgress},
	unseen: "everything is produced at the latest by the flush",
	step:   forgetting(func(s *State) { s.WantStream = false }),
}}

// caught walks until a walk fails or the machine took that many events, and says how many it took.
// only names the rules that are checked; nil means all of them.
func caught(step func() stepFunc, only []rule, within int) (events int, err error) {
	for seed := uint64(1); events < within; seed++ {
		w := newWalker(step(), seed)
		w.m.only = only
		err := w.run(eventsPerWalk)
		events += w.m.steps
		if err != nil {
			return events, err
		}
	}
	return events, nil
}

// controlEvents is how many events the walks may take to catch a control.
const controlEvents = 40_000

// TestControls: every broken machine is caught by all rules together, by each rule that it is said
// to break alone, and where it does visible damage also without any rule.
func TestControls(t *testing.T) {
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			events, err := caught(c.step, nil, controlEvents)
			if err == nil {
				t.Fatalf("not caught within %d events", controlEvents)
			}
			t.Logf("after %5d events: %v", events, err)
			for _, r := range c.rules {
				events, err := caught(c.step, []rule{r}, controlEvents)
				if err == nil || !strings.Contains(err.Error(), string(r)) {
					t.Errorf("after %d events: %v; want it caught by: %s", events, err, r)
					continue
				}
				t.Logf("alone %5d events: %v", events, err)
			}
			events, err = caught(c.step, []rule{}, controlEvents)
			if (err == nil) != (c.unseen != "") {
				t.Errorf("without rules, after %d events: %v; want it unseen: %q", events, err, c.unseen)
			} else if err != nil {
				t.Logf("seen  %5d events: %v", events, err)
			}
		})
	}
}

func TestEveryRuleHasAControl(t *testing.T) {
	for _, r := range rules {
		if !slices.ContainsFunc(controls, func(c control) bool { return slices.Contains(c.rules, r) }) {
			t.Errorf("no control breaks the rule: %s", r)
		}
	}
}

// TestNoFalseAlarm: the real machine does no visible damage either, so that what is visible of a
// control is the control's.
func TestNoFalseAlarm(t *testing.T) {
	if _, err := caught(pure(Step), []rule{}, controlEvents); err != nil {
		t.Fatal(err)
	}
}
