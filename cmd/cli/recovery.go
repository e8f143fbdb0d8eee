package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// parkedFlag is for commands that keep state in which records wait.
type parkedFlag struct {
	WithoutParked bool `help:"Give up parked records that the state cannot keep, because the pipeline has no store for them or their changelog has lost them. They are not processed any more."`
}

// adoptCommand declares that state and offsets belong together.
type adoptCommand struct {
	tasks
	FromRounds bool   `help:"Take offsets that have expired from what the last clean stop has kept, in the topic APPLICATION-rounds."`
	Mode       string `enum:",live,replay,backfill,repair" default:"" placeholder:"MODE" help:"Mode of the state, for tasks without a known commit: live, replay, backfill or repair; default is that of the application's other tasks."`
	parkedFlag
	operatorFlags
}

// Help is for --help.
func (c *adoptCommand) Help() string {
	return "Declares that the state in the changelogs belongs to the committed offsets of the group, and commits both together. " +
		"Nothing can check that: input that the state contains and that comes after the offsets is applied twice. State without" +
		" a known commit counts as written in the mode of the application's other tasks. Without --mode it is refused if these " +
		"have none or several: a replay's state must not count as live. All instances must be stopped. Tasks that open anyway " +
		"stay as they are."
}

func (c *adoptCommand) Run(p *process) error {
	var mode *topology.Mode
	if c.Mode != "" {
		said, err := topology.ParseMode(c.Mode)
		if err != nil {
			return usage("--mode: %w", err)
		}
		mode = &said
	}
	adopted := false
	err := c.act(p, func(ctx context.Context, a *admin.Application, o admin.Options) (admin.Report, error) {
		o.WithoutParked, o.Mode = c.WithoutParked, mode
		if c.FromRounds {
			report, err := a.AdoptFromRounds(ctx, o)
			adopted = slices.ContainsFunc(report.Tasks, func(t admin.TaskReport) bool { return t.Changed })
			return report, err
		}
		return a.Adopt(ctx, o)
	}, c.Tasks)
	if err == nil && c.FromRounds && !adopted {
		return errNotAdopted
	}
	return err
}

// errNotAdopted says that offsets that were expected to be gone are not, or that none were kept.
var errNotAdopted = errors.New("nothing was adopted: no task was without offsets that a clean stop has kept; check that brokers and application are " +
	"those of the state")

// acceptSkipCommand takes offsets that were moved forward on purpose.
type acceptSkipCommand struct {
	tasks
	parkedFlag
	operatorFlags
}

// Help is for --help.
func (c *acceptSkipCommand) Help() string {
	return "The state stays as it is, the input between is left out, and offsets and state are committed together. Refused where an " +
		"offset went back, because input would be applied twice. All instances must be stopped. Tasks that open anyway are left alone."
}

func (c *acceptSkipCommand) Run(p *process) error {
	return c.act(p, func(ctx context.Context, a *admin.Application, o admin.Options) (admin.Report, error) {
		o.WithoutParked = c.WithoutParked
		return a.AcceptSkip(ctx, o)
	}, c.Tasks)
}

// resetCommand moves offsets.
type resetCommand struct {
	tasks
	To map[string]string `required:"" placeholder:"TOPIC=OFFSET" help:"Where to go, in every partition: a number, start or end. May be given for several topics."`
	parkedFlag
	operatorFlags
}

// Help is for --help.
func (c *resetCommand) Help() string {
	return "Offsets and state are committed together. The state stays as it is, so a task with stores can only go forward; rebuild " +
		"from-input goes back. All instances must be stopped."
}

func (c *resetCommand) Run(p *process) error {
	offsets, err := offsetsOf("--to", c.To)
	if err != nil {
		return err
	}
	return c.act(p, func(ctx context.Context, a *admin.Application, o admin.Options) (admin.Report, error) {
		o.WithoutParked = c.WithoutParked
		return a.Reset(ctx, o, offsets)
	}, c.Tasks)
}

// rebuildCommand groups the commands that rebuild state.
type rebuildCommand struct {
	FromChangelog fromChangelogCommand `cmd:"" help:"Rebuild local databases from their changelogs: the same state, on a fresh disk."`
	FromInput     fromInputCommand     `cmd:"" help:"Empty the state and read the inputs again: a new state, and outputs once more."`
}

// fromInputCommand empties state and reads the inputs again.
type fromInputCommand struct {
	tasks
	From map[string]string `placeholder:"TOPIC=OFFSET" help:"Where to read from, in every partition: a number, start or end; default is the start of the log. May be given for several topics."`
	operatorFlags
}

// Help is for --help.
func (c *fromInputCommand) Help() string {
	return "Empties the stores by tombstones in their changelogs, which all instances follow. Outputs of the tasks are written " +
		"again. Missing internal topics are created, with the replicas and the min.insync.replicas of APPLICATION-rounds. Tasks" +
		" that read or write a repartition topic are refused, with two exceptions. All tasks that write and read it may be" +
		" rebuilt together. Its readers may be rebuilt without its writers, if none of its records were deleted. All instances must be stopped. After an" +
		" interruption, run it again."
}

func (c *fromInputCommand) Run(p *process) error {
	offsets, err := offsetsOf("--from", c.From)
	if err != nil {
		return err
	}
	return c.act(p, func(ctx context.Context, a *admin.Application, o admin.Options) (admin.Report, error) {
		return a.RebuildFromInput(ctx, o, offsets)
	}, c.Tasks)
}

// fromChangelogCommand rebuilds databases.
type fromChangelogCommand struct {
	tasks
	StateDir string        `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of the instance, which may run."`
	Stores   []string      `name:"store" placeholder:"NAME" help:"Store to rebuild, the others of a task are kept; default is all. May be given several times."`
	Timeout  time.Duration `default:"5s" placeholder:"DURATION" env:"ONCEWARD_TIMEOUT" help:"How long to wait for the answer of a running instance; default ${default}."`
	progressFlag
	operatorFlags
}

// Help is for --help.
func (c *fromChangelogCommand) Help() string {
	return "Builds a database beside the old one and then replaces it. A running instance does it itself: it closes the tasks, " +
		"rebuilds and opens them again; status shows the progress. For a stopped instance, give the pipeline and the brokers. A" +
		" signal ends the command: rebuilt tasks stay rebuilt, the interrupted task is unchanged, and another call can name " +
		"that task and the rest."
}

func (c *fromChangelogCommand) Run(p *process) error {
	if c.Timeout <= 0 {
		return usage("--timeout: %s is no time to wait; give more than 0s", c.Timeout)
	}
	ctx, cancel := context.WithTimeout(p.ctx, c.Timeout)
	defer cancel()
	names, err := txn.RebuildTasks(ctx, c.StateDir, c.Tasks, c.Stores, c.DryRun)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED) {
		return c.stopped(p)
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		identity, err := state.Identify(c.StateDir)
		if err != nil {
			return err
		}
		report := admin.Report{
			Action: "rebuild from-changelog", Application: identity.Application, DryRun: c.DryRun, Fenced: []string{}, Tasks: []admin.TaskReport{},
		}
		for _, name := range names {
			report.Tasks = append(report.Tasks, admin.TaskReport{
				Task: name, Changed: true, Reason: "the running instance does it", Inputs: []admin.InputReport{}, Changelogs: []admin.ChangelogReport{},
			})
		}
		return writeJSON(p.out, report)
	}
	if c.DryRun {
		if _, err := fmt.Fprintln(p.out, dryRunNotice); err != nil {
			return err
		}
	}
	for _, name := range names {
		_, err := fmt.Fprintf(p.out, "task %s: closed, rebuilt from its changelogs and opened again; status shows how it goes\n", name)
		if err != nil {
			return err
		}
	}
	return nil
}

// stopped is for the directory of an instance that does not run.
func (c *fromChangelogCommand) stopped(p *process) error {
	if len(c.Brokers) == 0 {
		return usage("no instance runs on the state directory %s; to rebuild it as it is, name the brokers with --brokers", c.StateDir)
	}
	meter := c.meter(p)
	return c.act(p, func(ctx context.Context, a *admin.Application, o admin.Options) (admin.Report, error) {
		ctx, release := untilSignal(ctx, slog.New(slog.DiscardHandler))
		defer release()
		o.Progress = meter.callback("rebuilding")
		report, err := a.RebuildFromChangelog(ctx, c.StateDir, c.Stores, o)
		meter.end()
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("ended by a signal, and what was begun last is as it was: %w", err)
		}
		return report, err
	}, c.Tasks)
}
