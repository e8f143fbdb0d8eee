package conformance

import (
	"flag"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
)

var (
	full             = flag.Bool("full", false, "the system tests of Kafka at length, as make verify-eos, verify-smoke and verify-copy run them")
	casesPerOperator = flag.Int("cases", 100, "random cases of each operator; make verify-differential has 1,000")
	onlyOperators    = flag.String("operators", "", "compare only operators whose names match this regular expression")
	seed             = flag.Uint64("seed", 1, "seed of the random cases")
)

const (
	// judgedProgram runs one instance of an application that Kafka's verifiers judge.
	judgedProgram = "judged"
	// copyProgram runs one instance of the copy.
	copyProgram = "copy"
)

func TestMain(m *testing.M) {
	cluster.InParallel(6) // they wait for sessions and Java programs most of the time
	instance.Main(m, instance.Programs{judgedProgram: instance.Application[judgedSettings], copyProgram: testapp.Program})
}
