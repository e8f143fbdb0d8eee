package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// eosPlan is how often something is done to the instances, which take turns.
type eosPlan struct {
	kills    int // SIGKILL; the others take over, then it is started again
	restarts int // SIGKILL, and started again at once
	stops    int // SIGTERM; the others take over, then it is started again
}

var (
	shortEosPlan = eosPlan{kills: 1, restarts: 1, stops: 1}
	fullEosPlan  = eosPlan{kills: 6, restarts: 9, stops: 6}
)

// eosVariant is what the application computes and the verifier's name for it.
type eosVariant struct {
	name, verifier string
	inputs         []string // topics that the application reads
	outputs        []string // topics with a record for every one in data
	mistakes       []eosMistake
}

// eosMistake is a way to break the application, and what the verifier prints when it finds out.
type eosMistake struct{ name, found string }

var (
	eosSimple = eosVariant{
		name: "simple", verifier: "verify", inputs: []string{generatedTopic}, outputs: []string{"echo", "min", "sum"},
		mistakes: []eosMistake{
			{eosDuplicate, ".verifyReceivedAllRecords("},
			{eosSkip, ".verifyReceivedAllRecords("},
			{eosForget, ".verifySum("},
		},
	}
	eosComplex = eosVariant{
		name: "complex", verifier: "verify-complex", inputs: []string{generatedTopic, eosRepartition},
		outputs: []string{"echo", "min", "sum", eosRepartition, "max", "cnt"},
	}
)

// eosDelivered is what the verifier prints at its end if it has found nothing wrong. Its exit code
// says nothing: it is 0 after some failures.
const eosDelivered = "ALL-RECORDS-DELIVERED"

// TestEosVerifierAccepts kills and stops the instances of the application in turn while the
// generator of StreamsEosTest writes, and lets its verifier judge what they leave behind. Then,
// over the same input, the verifier has to refuse what an application leaves behind that makes
// mistakes. With -short it does so for the simple variant only.
func TestEosVerifierAccepts(t *testing.T) {
	t.Parallel()
	variants := []eosVariant{eosSimple, eosComplex}
	if testing.Short() {
		variants = variants[:1]
	}
	plan := shortEosPlan
	if *full {
		plan = fullEosPlan
	}
	c := cluster.Own(t, cluster.KindKafka)
	for _, v := range variants {
		passed := t.Run(v.name, func(t *testing.T) {
			s := newEosScene(t, c, v, "", "p1", "p2", "p3")
			if err := s.run(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			processed := time.Since(s.began)
			output, err := s.verify(t.Context())
			if err != nil || !strings.Contains(output, eosDelivered) {
				t.Fatalf("the verifier does not say %s (%v):\n%s", eosDelivered, err, output)
			}
			if err := s.count(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d records; %d kills, %d of them met open transactions, %d altogether; %d stops; "+
				"%.1f s, the verifier %.1f s", v.name, s.records, s.kills.all, s.kills.met, s.kills.open, plan.stops,
				processed.Seconds(), (time.Since(s.began) - processed).Seconds())
			for _, m := range v.mistakes {
				t.Run(m.name, func(t *testing.T) { refuseMistake(t, c, v, m) })
			}
			if err := s.deleteRun(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		})
		if !passed {
			return // the next one would begin with what this one has left
		}
	}
}

// refuseMistake is the negative control: the verifier has to fail, and where it looks at what is
// wrong.
func refuseMistake(t *testing.T, c *cluster.Cluster, v eosVariant, m eosMistake) {
	s := newEosScene(t, c, v, m.name, "broken")
	if err := s.repeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	output, err := s.verify(t.Context())
	if err != nil || strings.Contains(output, eosDelivered) || !strings.Contains(output, m.found) {
		t.Fatalf("the verifier does not fail in %s (%v):\n%s", m.found, err, output)
	}
	s.logf("the verifier fails in %s", m.found)
}
