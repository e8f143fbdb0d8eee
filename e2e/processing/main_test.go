//go:build unix

package processing

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// The programs that tests run in processes of their own.
const (
	pipelineProgram   = "pipeline"
	lettersProgram    = "letters"
	definitionProgram = "definition"
	// commandProgram is cmd/onceward with the failpoints of a redrive.
	commandProgram = "onceward"
)

func TestMain(m *testing.M) {
	cluster.InParallel(testsInParallel)
	instance.Main(m, instance.Programs{
		pipelineProgram:   instance.Application[Settings],
		lettersProgram:    instance.Application[letterSettings],
		definitionProgram: instance.Application[definitionSettings],
		commandProgram:    command,
	})
}

// testsInParallel is how many tests run at a time. On real Kafka they wait most of the time, and
// the longest one would begin last.
const testsInParallel = 8

func command() {
	ctx, err := instance.RedriveContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
