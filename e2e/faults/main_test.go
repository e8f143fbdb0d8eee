package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// parallel is how many cells run at once: they wait for timeouts, not for processors.
const parallel = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	cluster.Main(m)
}
