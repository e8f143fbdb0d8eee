package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// smokeForm is how much of the scenario is run.
type smokeForm struct {
	load   smokeLoad
	rounds int
	// session is the session timeout of the instances.
	session time.Duration
	// most is what a run takes at most that passes: windows of days must not end meanwhile.
	most time.Duration
}

var (
	// shortSmoke leaves the generator half a minute. The instances have the shortest session that
	// brokers allow by default, so that the others take over from a dead one before it is over.
	shortSmoke = smokeForm{load: smokeLoad{keys: 20, values: 400, seconds: 30}, rounds: 1, session: 6 * time.Second, most: 3 * time.Minute}
	fullSmoke  = smokeForm{rounds: 3, session: 10 * time.Second, most: 15 * time.Minute}
	// brokenSmoke is enough for a mistake that is made every hundred inputs of a partition.
	brokenSmoke = smokeForm{load: smokeLoad{keys: 20, values: 100, seconds: 4}, session: 10 * time.Second, most: 10 * time.Minute}
)

// TestSmokeVerifierAccepts lets instances of the application join, die and leave while the
// generator of StreamsSmokeTest writes, and lets its verifier judge.
func TestSmokeVerifierAccepts(t *testing.T) {
	if testing.Short() {
		t.Skip("this is one of the long scenarios, which -short leaves out")
	}
	t.Parallel()
	f := shortSmoke
	if *full {
		f = fullSmoke
	}
	s := newSmokeScene(t, f, "", "p1", "p2", "p3")
	if output, wrong := s.judged(t.Context()); wrong != nil {
		t.Fatalf("%v:\n%s", wrong, output)
	}
	if err := s.checkWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.logf("%d kills, %d of them met open transactions, %d altogether", s.kills.all, s.kills.met, s.kills.open)
}

// TestSmokeVerifierFindsMistakes: the verifier finds out applications that make a mistake. It waits
// minutes for what is right to come, but for what is twice.
func TestSmokeVerifierFindsMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("this is one of the long scenarios, which -short leaves out")
	}
	t.Parallel()
	mistakes := []string{smokeDuplicate}
	if *full {
		mistakes = append(mistakes, smokeForget, smokeEarly, smokeEarlySeconds)
	}
	for _, mistake := range mistakes {
		t.Run(mistake, func(t *testing.T) {
			output, wrong := newSmokeScene(t, brokenSmoke, mistake, "broken").judged(t.Context())
			if wrong == nil {
				t.Fatalf("the verifier finds nothing wrong:\n%s", output)
			}
			if mistake == smokeEarlySeconds && !strings.Contains(output, "non-unique result") {
				t.Errorf("the verifier does not say that a window has two results:\n%s", output)
			}
			t.Logf("found: %v", wrong)
		})
	}
}

// smokeVerdict returns what is wrong by what the verifier has printed, nil if nothing is.
func smokeVerdict(output string) error {
	lines := map[string]bool{}
	for line := range strings.Lines(output) {
		lines[strings.TrimSpace(line)] = true
	}
	switch {
	case !lines["SUCCESS"]:
		return errors.New("the verifier does not say SUCCESS")
	case !lines["ALL-RECORDS-DELIVERED"]:
		return errors.New("the verifier does not say ALL-RECORDS-DELIVERED")
	case strings.Contains(output, "PROCESSED-MORE-THAN-GENERATED"):
		return errors.New("echo has more records than were generated")
	case strings.Contains(output, "FAILURE"):
		return errors.New("the verifier says FAILURE")
	}
	return nil
}

func TestSmokeVerdictNeedsAllLines(t *testing.T) {
	for _, test := range []struct {
		output string
		ok     bool
	}{
		{"...\nALL-RECORDS-DELIVERED\nSUCCESS\n", true},
		{"...\nALL-RECORDS-DELIVERED\nFAILURE\n", false},
		{"PROCESSED-MORE-THAN-GENERATED\nALL-RECORDS-DELIVERED\nSUCCESS\n", false},
		{"SUCCESS\n", false},
		{"ALL-RECORDS-DELIVERED\n", false},
		{"no SUCCESS\nALL-RECORDS-DELIVERED\n", false},
		{"", false},
	} {
		if err := smokeVerdict(test.output); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.output, err)
		}
	}
}
