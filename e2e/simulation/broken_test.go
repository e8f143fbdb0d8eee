package simulation_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/simulation"
	"github.com/onceward/onceward/e2e/virtual"
)

// brokenSeeds is how many seeds may miss a broken mechanism. The moment of a kill is random.
const brokenSeeds = 8

// clientFaults concern the instances alone.
var clientFaults = []string{
	simulation.Kill, simulation.Kill, simulation.Kill, simulation.KillLost, simulation.Stop, simulation.Freeze, simulation.Cut, simulation.LoseReply,
}

// peerFaults are those after which peers fence. removalFaults keep no instance that lives from its
// group.
var (
	peerFaults    = []string{simulation.Kill, simulation.Kill, simulation.FalseFence, simulation.KillFencer}
	removalFaults = []string{simulation.Kill, simulation.LateRemoval}
)

// says are findings of the run itself by which a broken mechanism is found.
var says = map[string]*regexp.Regexp{
	"removal": regexp.MustCompile("was removed from its group"),
	"copies":  regexp.MustCompile("which no commit names|and the last commit names"),
}

// long returns nil in the short run, which leaves such a case out.
func long(subject func() (simulation.Subject, error)) func() (simulation.Subject, error) {
	if testing.Short() {
		return nil
	}
	return subject
}

// TestBrokenMechanismsAreFound is the negative control of the simulation: with one mechanism of the
// runtime, or of the application, broken at a time, it finds what is broken. With none broken, the
// same faults leave nothing to find.
func TestBrokenMechanismsAreFound(t *testing.T) {
	if virtual.RaceDetector {
		t.Skip("takes minutes under the race detector, which TestSeeds runs under; make test has it")
	}
	for _, c := range []struct {
		broken  string
		subject func() (simulation.Subject, error)
		// found has the anomalies of which one has to be found; whatever else follows from it may
		// be found too. With none there has to be a finding: what says has, else one of the
		// judgement of the subject.
		found []check.Kind
		cfg   simulation.Config
	}{
		// The round goes to the databases before its transaction has ended.
		{"apply", simulation.Accounts, []check.Kind{check.StateDiffers}, simulation.Config{Faults: clientFaults}},
		// Positions are committed outside of the transaction.
		{"offsets", simulation.Accounts, []check.Kind{check.Torn}, simulation.Config{Faults: clientFaults}},
		// The group reads what is not committed: here what the feeder aborts.
		{"uncommitted", simulation.Accounts, []check.Kind{check.Phantom}, simulation.Config{Faults: clientFaults, AbortShare: 0.3}},
		// A commit is reported before it is answered, and the next round does not wait for it. Only
		// a commit that arrives late, or never, shows it.
		{"early", simulation.Accounts, []check.Kind{check.Lost, check.Duplicate, check.Torn, check.StateDiffers},
			simulation.Config{Faults: []string{simulation.LateCommit, simulation.LateCommit, simulation.Kill}}},
		// A restore ends before the position that the offsets name.
		{"restore", simulation.Accounts, []check.Kind{check.StateDiffers}, simulation.Config{Faults: clientFaults}},
		// No id is ever seen twice.
		{"dedupe", simulation.LeakyInbox, []check.Kind{check.DedupeLeak}, simulation.Config{Faults: clientFaults}},
		// The other subjects find what is broken as well: in the databases, and by their own
		// judgement.
		{"apply", simulation.Tables, []check.Kind{check.StateDiffers}, simulation.Config{Faults: clientFaults}},
		{"restore", simulation.Tables, nil, simulation.Config{Faults: clientFaults}},
		{"offsets", simulation.Tables, nil, simulation.Config{Faults: clientFaults}},
		{"restore", simulation.Windows, []check.Kind{check.StateDiffers}, simulation.Config{Faults: clientFaults}},
		{"offsets", simulation.Windows, nil, simulation.Config{Faults: clientFaults}},
		// These two subjects are slow: the short run leaves each a mechanism.
		{"offsets", simulation.Joins, nil, simulation.Config{Faults: clientFaults}},
		{"restore", simulation.AllWindows, nil, simulation.Config{Faults: clientFaults}},
		{"restore", long(simulation.Joins), nil, simulation.Config{Faults: clientFaults}},
		{"offsets", long(simulation.AllWindows), nil, simulation.Config{Faults: clientFaults}},
		{"apply", simulation.Processors, []check.Kind{check.StateDiffers}, simulation.Config{Faults: clientFaults}},
		{"offsets", simulation.Processors, nil, simulation.Config{Faults: clientFaults}},
		// A copy goes on behind the commit that it follows, and its instance takes the task over.
		{"copies", simulation.Accounts, nil, simulation.Config{Faults: peerFaults, Peers: true, Instances: 3, Standbys: 1}},
		// A fencer goes on to use the identity of the instance that it has fenced.
		{"identity", simulation.Accounts, []check.Kind{check.Lost, check.Duplicate, check.Torn, check.StateDiffers, check.Unseen},
			simulation.Config{Faults: peerFaults, Peers: true, Instances: 3}},
		// A fencer removes a member that has rejoined.
		{"removal", simulation.Accounts, nil, simulation.Config{Faults: removalFaults, Peers: true, Instances: 3, Removals: true}},
	} {
		if c.subject == nil {
			continue
		}
		subject, err := c.subject()
		if err != nil {
			t.Fatal(err)
		}
		name := subject.Topology().Application()
		if _, all := subject.(simulation.Follower); all {
			name = "processors"
		}
		t.Run(c.broken+"/"+name, func(t *testing.T) {
			cfg := c.cfg
			if c.broken != "dedupe" {
				cfg.Broken = []string{c.broken}
			}
			cfg.Duration, cfg.Quiesce = time.Minute, 5*time.Minute
			began := time.Now()
			for seed := uint64(1); seed <= brokenSeeds; seed++ {
				found := false
				t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
					cfg.Seed = seed
					result := simulate(t, c.subject, cfg)
					found = slices.ContainsFunc(c.found, func(k check.Kind) bool { return result.Found(k) > 0 })
					if text := says[c.broken]; text != nil {
						found = slices.ContainsFunc(result.Findings, text.MatchString)
					} else if c.found == nil {
						found = slices.ContainsFunc(result.Findings, func(f string) bool { return strings.HasPrefix(f, name+": ") })
					}
					t.Logf("%s", result)
				})
				if found {
					t.Logf("found with seed %d after %s", seed, time.Since(began).Round(time.Millisecond))
					return
				}
			}
			t.Errorf("%s is broken, and none of %d seeds finds any of %v", c.broken, brokenSeeds, c.found)
		})
	}
	t.Run("none", func(t *testing.T) {
		for seed := uint64(1); seed <= 2; seed++ {
			for _, cfg := range []simulation.Config{
				{Faults: clientFaults, AbortShare: 0.3}, {Faults: clientFaults, MarkersMax: time.Second},
				{Faults: peerFaults, Peers: true, Instances: 3, Standbys: 1}, {Faults: removalFaults, Peers: true, Instances: 3, Removals: true},
			} {
				cfg.Seed, cfg.Duration = seed, time.Minute
				t.Run(fmt.Sprintf("seed=%d/aborts=%v/peers=%v", seed, cfg.AbortShare, cfg.Peers), func(t *testing.T) {
					if result := simulate(t, simulation.Accounts, cfg); !result.OK() {
						t.Errorf("%s\n%s", result.Trace, result)
					}
				})
			}
		}
	})
}
