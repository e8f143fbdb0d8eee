package cli

import (
	"context"
	"log/slog"

	"github.com/onceward/onceward/cmd/internal/demo"
)

// demoCommand runs the payment drill.
type demoCommand struct {
	Events int    `default:"200000" placeholder:"N" help:"Number of payment events; default ${default}."`
	Kills  int    `default:"4" placeholder:"N" help:"How often the pipeline is killed while it processes; one more kill hits it while it restores. 0 means no kill; default ${default}."`
	Seed   uint64 `default:"1" placeholder:"N" help:"Another seed makes other events; default ${default}."`
	Dir    string `placeholder:"DIR" help:"Keep the broker's data, the state and the pipeline's log in this directory; by default they are temporary."`
}

// Help is the long description.
func (demoCommand) Help() string {
	return "Starts an embedded broker, and writes payment events with duplicates, conflicts, stale and missing versions, reversals" +
		" and unreadable bytes. Runs a pipeline over them in its own process, and kills that process while its transactions are" +
		" open. Compares the output with a recomputation from the events. It needs only this program. The exit code is 3 if one" +
		" figure differs."
}

// Run runs the drill.
func (c demoCommand) Run(p *process) error {
	if c.Events < 1 || c.Kills < 0 {
		return usage("--events must be at least 1 and --kills at least 0")
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	return demo.Run(ctx, demo.Options{Events: c.Events, Kills: c.Kills, Seed: c.Seed, Dir: c.Dir, Out: p.out})
}

// demoPipelineCommand is what the demo starts as its pipeline.
type demoPipelineCommand struct{}

// Run runs the drill's pipeline until its standard input ends.
func (demoPipelineCommand) Run(p *process) error { return demo.Pipeline(context.WithoutCancel(p.ctx)) }
