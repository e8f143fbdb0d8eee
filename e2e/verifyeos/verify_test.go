//go:build unix

package verifyeos

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// plan is how often something is done to the instances, which take turns.
type plan struct {
	kills    int // SIGKILL; the others take over, then it is started again
	restarts int // SIGKILL, and started again at once
	stops    int // SIGTERM; the others take over, then it is started again
}

var (
	shortPlan = plan{kills: 1, restarts: 1, stops: 1}
	fullPlan  = plan{kills: 6, restarts: 9, stops: 6}
)

// variant is what the application computes and the verifier's name for it.
type variant struct {
	name, verifier string
	inputs         []string // topics that the application reads
	outputs        []string // topics with a record for every one in data
	mistakes       []mistake
}

var (
	simpleVariant = variant{
		name: "simple", verifier: "verify", inputs: []string{input}, outputs: []string{"echo", "min", "sum"},
		mistakes: []mistake{
			{"duplicate", ".verifyReceivedAllRecords("},
			{"skip", ".verifyReceivedAllRecords("},
			{"forget", ".verifySum("},
		},
	}
	complexVariant = variant{
		name: "complex", verifier: "verify-complex", inputs: []string{input, repartition},
		outputs: []string{"echo", "min", "sum", repartition, "max", "cnt"},
	}
)

// TestVerify kills and stops the instances of the application in turn while Kafka's generator writes, and
// lets Kafka's verifier judge what they leave behind. Then, over the same input, it has to refuse what an
// application leaves behind that makes mistakes. With -short it does so for the simple variant only.
func TestVerify(t *testing.T) {
	variants := []variant{simpleVariant, complexVariant}
	if testing.Short() {
		variants = variants[:1]
	}
	p := shortPlan
	if *full {
		p = fullPlan
	}
	j, binary := newJudge(t), instance.Build(t, "github.com/onceward/onceward/e2e/clients/eos", "")
	c := cluster.Own(t, cluster.KindKafka)
	for _, v := range variants {
		passed := t.Run(v.name, func(t *testing.T) {
			s := newScenario(t, c, j, binary, v)
			for _, name := range []string{"p1", "p2", "p3"} {
				s.add(name)
			}
			if err := s.run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			processed := time.Since(s.started)
			output, err := s.judge.verify(t.Context(), v)
			if err != nil || !strings.Contains(output, delivered) {
				t.Fatalf("the verifier does not say %s (%v):\n%s", delivered, err, output)
			}
			if err := s.count(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d records; %d kills, %d of them met open transactions, %d altogether; %d stops; "+
				"%.1f s, the verifier %.1f s", v.name, s.records, s.kills.all, s.kills.met, s.kills.open, p.stops,
				processed.Seconds(), (time.Since(s.started) - processed).Seconds())
			for _, m := range v.mistakes {
				t.Run(m.name, func(t *testing.T) { s.catch(t, m) })
			}
			if err := s.forgetRun(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		})
		if !passed {
			return // the next one would begin with what this one has left
		}
	}
}

// mistake is a way to break the application, and what the verifier prints when it finds out.
type mistake struct{ name, found string }

// catch is the negative control.
func (s *scenario) catch(t *testing.T, m mistake) {
	if err := s.runBroken(t, m.name); err != nil {
		t.Fatal(err)
	}
	output, err := s.judge.verify(t.Context(), s.variant)
	if err != nil || strings.Contains(output, delivered) || !strings.Contains(output, m.found) {
		t.Fatalf("the verifier does not fail in %s (%v):\n%s", m.found, err, output)
	}
	s.logf("the verifier fails in %s", m.found)
}
