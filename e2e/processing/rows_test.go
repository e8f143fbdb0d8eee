//go:build unix

package processing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// duplicated delivers every fact several times, in both partitions, and all of them once more at
// the end.
func duplicated(s *scene) {
	l := s.start(s.settings)
	for range 2 {
		facts := s.history.grow(6, accounts...)
		s.feed(s.history.disturb(facts, mischief{duplicate: 70})...)
		s.feed(clean(facts)...)
		s.finish(l.Alive)
	}
	s.wantLines(TopicAudit, "inbox duplicates ", 36)
	s.check(l)
	l.End()
	s.whole()
}

// wantLines wants so many lines of a place to begin with something, at least: else the row has
// shown nothing.
func (s *scene) wantLines(place, begin string, least int) {
	s.t.Helper()
	if err := s.lines(place, begin, least); err != nil {
		s.t.Fatalf("nothing is shown: %v", err)
	}
}

// lines returns an error unless so many lines of a place begin with something, at least.
func (s *scene) lines(place, begin string, least int) error {
	n := 0
	for _, line := range s.seen[place] {
		if strings.HasPrefix(line, begin) {
			n++
		}
	}
	if n < least {
		return fmt.Errorf("%d lines of %s begin with %q, want at least %d", n, place, begin, least)
	}
	return nil
}

// concurrent delivers the copies of each fact to two instances at once.
func concurrent(s *scene) {
	one, two := s.start(s.settings), s.start(s.second())
	for len(one.Status().Tasks) == 0 || len(two.Status().Tasks) == 0 {
		s.more(everything)
		s.finish(one.Alive)
	}
	before := [2]int64{one.Status().Totals.Records, two.Status().Totals.Records}
	for range 3 {
		var copies []delivery
		for _, d := range clean(s.history.grow(6, accounts...)) {
			for p := range int32(Partitions) {
				d.partition = p
				copies = append(copies, d)
			}
		}
		s.feed(copies...)
		s.finish(two.Alive)
	}
	if one.Status().Totals.Records == before[0] || two.Status().Totals.Records == before[1] {
		s.t.Error("one of the instances had nothing to do: nothing is shown")
	}
	s.check(one, two)
	two.End()
	one.End()
	s.whole()
}

// older delivers the facts of each account from the last one to the first, and then others under
// versions that were applied long ago.
func older(s *scene) {
	l := s.start(s.settings)
	facts := s.history.grow(8, accounts...)
	slices.Reverse(facts)
	s.feed(clean(facts)...)
	s.finish(l.Alive)
	for _, f := range facts[:9] {
		f.ID, f.Version, f.Amount = "older-"+f.ID, 2, f.Amount+1
		s.feed(deliver(f))
	}
	s.finish(l.Alive)
	s.until("what is older", l.Alive, func() error { return s.lines(placeAside, "stale ", 9) })
	s.wantLines(placeAside, "parked ", 9)
	s.check(l)
	l.End()
	s.whole()
}

// gap keeps a version of each account back: what follows waits, over a restart, the source is asked
// for it, and then all comes in order.
func gap(s *scene) {
	l := s.start(s.settings)
	var missing []delivery
	for _, f := range s.history.grow(10, accounts...) {
		if f.Version == 3 {
			missing = append(missing, deliver(f))
		} else {
			s.feed(deliver(f))
		}
	}
	s.finish(l.Alive)
	s.until("what waits", l.Alive, func() error { return s.lines(placeAside, "parked ", 7*len(accounts)) })
	s.until("what is asked for", l.Alive, func() error {
		asked := map[string]bool{}
		err := s.seen.asked(0, func(account string, first, last int64) {
			if first <= 3 && 3 <= last {
				asked[account] = true
			}
		})
		if err == nil && len(asked) < len(accounts) {
			err = fmt.Errorf("of %d accounts the third version is asked for", len(asked))
		}
		return err
	})
	for _, account := range accounts {
		if got := len(s.seen[TopicAccounts+"/"+account]); got != 2 {
			s.t.Errorf("%d facts of %s are applied before its gap", got, account)
		}
	}
	s.check(l)
	l.End()
	l = s.start(s.settings)
	s.feed(missing...)
	s.finish(l.Alive)
	s.check(l)
	l.End()
	s.whole()
}

// poisoned puts something that is no fact beside every fact.
func poisoned(s *scene) {
	l := s.start(s.settings)
	s.more(mischief{poison: 100})
	s.finish(l.Alive)
	s.wantLines(TopicDead, "poison ", 5)
	s.wantLines(TopicDead, "validation ", 1)
	s.check(l)
	l.End()
	s.whole()
}

// sturdy says whether a place is of an account that nothing is wrong with, or of none.
func sturdy(place string) bool { return !strings.Contains(place, "/"+frail) }

// finishSturdy waits for what the accounts come to that nothing is wrong with, and reports whether
// the other ones have come to nothing.
func (s *scene) finishSturdy(lives alive) {
	s.t.Helper()
	s.until("the sturdy accounts", lives, func() error {
		want, got := outcome{}, outcome{}
		for place, lines := range s.want().outputs {
			if strings.Contains(place, "/") && sturdy(place) {
				want[place] = lines
			}
		}
		for place, lines := range s.seen.known() {
			if strings.Contains(place, "/") && sturdy(place) {
				got[place] = lines
			}
		}
		return want.difference(got)
	})
}

// wantNothingFrail wants nothing to have come of the frail accounts.
func (s *scene) wantNothingFrail() {
	s.t.Helper()
	for place, lines := range s.seen {
		if !sturdy(place) {
			s.t.Errorf("%s has %q while the world is not as it should be", place, lines)
		}
	}
}

// failing takes away what the frail account depends on: it waits, and the others go on.
func failing(s *scene) {
	s.be(worldDown)
	l := s.start(s.settings)
	s.more(everything)
	s.finishSturdy(l.Alive)
	s.wantNothingFrail()
	l.End()
	l = s.start(s.settings) // what waits does so over a restart
	s.more(everything)
	s.finishSturdy(l.Alive)
	s.wantNothingFrail()
	s.be(worldFine)
	s.finish(l.Alive)
	s.check(l)
	l.End()
	s.wantDelayed()
	s.whole()
}

// wantDelayed wants events to have waited at the door, once and twice.
func (s *scene) wantDelayed() {
	s.t.Helper()
	source := graph.Source{Topic: s.settings.Prefix + TopicEvents}
	for _, delay := range delays {
		topic := source.RetryTopic(s.settings.Application, delay)
		ends, err := s.cluster.EndOffsets(s.t.Context(), topic)
		if err != nil {
			s.t.Fatal(err)
		}
		if slices.Max(ends) == 0 {
			s.t.Errorf("nothing was delayed in %s: nothing is shown", topic)
		}
	}
}

// redriven lets facts die, puts the world right and redrives them: what was dead, and what has
// waited behind it, comes in order.
func redriven(s *scene) {
	s.be(worldClosed)
	l := s.start(s.settings)
	s.more(mischief{late: 25, duplicate: 30})
	s.finishSturdy(l.Alive)
	s.until("a dead letter", l.Alive, func() error { return s.lines(placeWorld, "", 1) })
	s.wantNothingFrail()
	s.be(worldFine)
	client := connect(s.t, s.cluster)
	letters := client.DeadLetters(s.settings.Prefix + TopicDead)
	for range 2 { // a second redrive finds nothing
		if _, err := letters.Redrive(s.t.Context(), admin.RedriveOptions{Filter: admin.DeadLetterFilter{Nodes: []string{nodeWorld}}}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.finish(l.Alive)
	s.check(l)
	l.End()
	s.whole()
}

// outOfOrder: later records of a partition are done, and committed, while earlier ones are not. A
// kill then loses none of them.
func outOfOrder(s *scene) {
	s.be(worldDown)
	log := instance.NewLog(s.t, "the life to be killed")
	p := instance.StartVictim(s.t, s.cluster, pipelineProgram, s.hostName(s.settings), s.settings, instance.ArmNothing, log)
	s.more(everything)
	s.finishSturdy(p.Alive)
	s.wantNothingFrail()
	p.Kill()
	s.settings.StateDir = p.Killed()
	s.be(worldFine)
	s.whole()
}

// redelivered delivers everything again, over the state that is kept.
func redelivered(s *scene) {
	l := s.start(s.settings)
	for range 2 {
		s.more(everything)
		s.finish(l.Alive)
	}
	before := len(s.seen[TopicFacts+"/"+accounts[0]])
	s.feed(s.fed...)
	s.finish(l.Alive)
	if after := len(s.seen[TopicFacts+"/"+accounts[0]]); after != before {
		s.t.Errorf("%d facts became %d", before, after)
	}
	s.check(l)
	l.End()
	s.whole()
}

// replayed reads the inputs again, from the beginning, with a pipeline beside the first one: it
// comes to the same, and pays nothing.
func replayed(s *scene) {
	l := s.start(s.settings)
	for range 2 {
		s.more(everything)
		s.finish(l.Alive)
	}
	l.End()
	s.converges()

	replay := *s
	replay.settings = s.second()
	replay.settings.Application += "-replay"
	replay.settings.Inputs, replay.settings.Mode = s.settings.Prefix, "REPLAY"
	replay.settings.Prefix += "replay-"
	replay.seen, replay.answered, replay.expected = outcome{}, 0, expected{}
	s.cluster.CreateTopics(s.t, Partitions, replay.settings.Prefix+TopicFindings)
	replay.reader = s.readerOf(replay.settings.Prefix)
	replay.findings = nil
	want := replay.want()
	replay.expected = expected{of: replay.inputs(), outputs: suppressed(want.outputs), stores: suppressed(want.stores)}
	r := replay.start(replay.settings)
	replay.finish(r.Alive)
	replay.check(r)
	r.End()
	replay.lose()
	s.whole()
}

// converges reads the inputs from the beginning in a forensic run, and compares its state with that
// of the first instance, row by row. Two parts differ: the effects, because a replay makes no
// calls, and parts that depend on the order of several partitions. The latter are the order in
// which ids are archived, and how many rows a command has found.
func (s *scene) converges() {
	s.t.Helper()
	t, err := s.settings.Topology()
	if err == nil {
		t, err = t.WithApplication(s.settings.Application)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	client := connect(s.t, s.cluster)
	local, err := admin.OpenState(s.t.Context(), s.settings.StateDir)
	if err != nil {
		s.t.Fatal(err)
	}
	report, err := client.Forensic(s.t.Context(), t, admin.ForensicOptions{State: local})
	if err = errors.Join(err, local.Close()); err != nil {
		s.t.Fatal(err)
	}
	rows := int64(0)
	for _, store := range report.Stores {
		if strings.HasPrefix(store.Store, nodePayouts) || strings.HasPrefix(store.Store, nodeNotices) ||
			store.Store == archiveStore.Name() || store.Store == nodeChoice+"-answers" {
			continue
		}
		if rows += store.Rows; store.Differences > 0 {
			s.t.Errorf("store %s of task %s has %d rows that differ from a replay", store.Store, store.Task, store.Differences)
		}
	}
	if len(report.Stopped) > 0 || rows == 0 {
		s.t.Errorf("%d rows are compared, and stopped are %v", rows, report.Stopped)
	}
}

// expired delivers everything again after it has expired in the inbox: it is late, and has no
// second effect.
func expired(s *scene) {
	l := s.start(s.settings)
	for range 2 {
		s.more(everything)
		s.finish(l.Alive)
	}
	old := slices.Clone(s.fed)
	s.age(l.Alive)
	ticks := slices.Clone(s.fed[len(old):])
	s.feed(old...)
	s.finish(l.Alive)
	s.wantLines(TopicLate, "", len(old)/2)
	s.check(l)
	l.End()
	s.lose()
	l = s.start(s.settings)
	s.feed(old...)
	s.feed(ticks...)
	s.finish(l.Alive)
	s.check(l)
	l.End()
	s.judge()
}
