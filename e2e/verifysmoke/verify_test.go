//go:build unix

package verifysmoke

import (
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/clients/process"
)

// runTime is what a run takes at most: windows of days must not end meanwhile.
const runTime = 15 * time.Minute

// awaitMidnight waits until the day, UTC, that a run begins in is the one that it ends in.
func awaitMidnight(t *testing.T) {
	t.Helper()
	now := time.Now().UTC()
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	left := midnight.Sub(now)
	if left > runTime {
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

// TestVerify lets instances of the application join, die and leave while Kafka's generator writes, and lets Kafka's verifier judge.
func TestVerify(t *testing.T) {
	if testing.Short() {
		t.Skip("this is one of the long scenarios, which -short leaves out")
	}
	rounds := 1
	if *full {
		rounds = 3
	}
	binary := process.Build(t, "smoke")
	awaitMidnight(t)
	s := newScenario(t, binary, []string{"p1", "p2", "p3"})
	if err := s.run(t.Context(), rounds); err != nil {
		t.Fatal(err)
	}
	output, err := s.judge.wait(t.Context())
	if err != nil {
		t.Fatalf("%v; it has printed:\n%s", err, output)
	}
	if err := verdict(output); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	if err := s.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.logf("%d joins, %d kills that met %d open transactions, %d leaves", s.joins, s.kills.all, s.kills.open, s.leaves)
}

// TestControls: the verifier fails for applications that make a mistake.
func TestControls(t *testing.T) {
	if !*full {
		t.Skip("the negative controls wait for the verifier to give up; make verify-smoke runs them")
	}
	binary := process.Build(t, "smoke")
	for _, mistake := range []string{"duplicate", "forget", "early"} {
		t.Run(mistake, func(t *testing.T) {
			awaitMidnight(t)
			s := newScenario(t, binary, []string{"broken"}, "--broken", mistake)
			if err := s.run(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			output, err := s.judge.wait(t.Context())
			if err != nil {
				t.Fatalf("%v; it has printed:\n%s", err, output)
			}
			err = verdict(output)
			if err == nil {
				t.Fatalf("the verifier finds nothing wrong:\n%s", output)
			}
			t.Logf("found: %v", err)
			if err := s.stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
