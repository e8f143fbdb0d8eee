//go:build unix

package verifysmoke

import (
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/instance"
)

// form is how much of the scenario is run.
type form struct {
	load   load
	rounds int
	// most is what a run takes at most that passes: windows of days must not end meanwhile.
	most time.Duration
	args []string
}

var (
	// shortForm leaves the generator half a minute. The instances have the shortest session that brokers allow by default, so that the
	// others take over from a dead one before it is over.
	shortForm = form{load: load{keys: 20, values: 400, seconds: 30}, rounds: 1, most: 3 * time.Minute, args: []string{"--session-timeout", "6s"}}
	fullForm  = form{rounds: 3, most: 15 * time.Minute}
	// broken is enough for a mistake that is made every hundred inputs of a partition.
	broken = form{load: load{keys: 20, values: 100, seconds: 4}, most: 10 * time.Minute}
)

func build(t *testing.T) (binary string) {
	return instance.Build(t, "github.com/onceward/onceward/e2e/clients/smoke", "")
}

// awaitMidnight waits until the day, UTC, that a run begins in is the one that it ends in.
func awaitMidnight(t *testing.T, most time.Duration) {
	t.Helper()
	now := time.Now().UTC()
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	left := midnight.Sub(now)
	if left > most {
		return
	}
	t.Logf("waiting %s for midnight, UTC", left)
	timer := time.NewTimer(left + time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// judged runs the scenario and returns what the verifier has printed and what is wrong by that, nil if nothing is.
func (s *scenario) judged(t *testing.T, f form) (output string, wrong error) {
	t.Helper()
	if err := s.run(t.Context(), f.load, f.rounds); err != nil {
		t.Fatal(err)
	}
	output, err := s.judge.wait(t.Context())
	if err != nil {
		t.Fatalf("%v; it has printed:\n%s", err, output)
	}
	s.logf("the verifier has ended")
	if err := s.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return output, verdict(output)
}

// TestVerify lets instances of the application join, die and leave while Kafka's generator writes, and lets Kafka's verifier judge.
func TestVerify(t *testing.T) {
	if testing.Short() {
		t.Skip("this is one of the long scenarios, which -short leaves out")
	}
	f := shortForm
	if *full {
		f = fullForm
	}
	s := newScenario(t, []string{"p1", "p2", "p3"}, f.args...)
	awaitMidnight(t, f.most)
	if output, wrong := s.judged(t, f); wrong != nil {
		t.Fatalf("%v:\n%s", wrong, output)
	}
	if err := s.checkWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.logf("%d joins, %d kills that met %d open transactions, %d leaves", s.joins, s.kills.all, s.kills.open, s.leaves)
}

// TestControls: the verifier finds out applications that make a mistake. It waits minutes for what is right to come, but for what is twice.
func TestControls(t *testing.T) {
	if testing.Short() {
		t.Skip("this is one of the long scenarios, which -short leaves out")
	}
	mistakes := []string{"duplicate"}
	if *full {
		mistakes = append(mistakes, "forget", "early")
	}
	for _, mistake := range mistakes {
		t.Run(mistake, func(t *testing.T) {
			s := newScenario(t, []string{"broken"}, "--broken", mistake)
			awaitMidnight(t, broken.most)
			output, wrong := s.judged(t, broken)
			if wrong == nil {
				t.Fatalf("the verifier finds nothing wrong:\n%s", output)
			}
			t.Logf("found: %v", wrong)
		})
	}
}
