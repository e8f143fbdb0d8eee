package cli

import (
	"errors"

	"github.com/alecthomas/kong"
)

const description = "Exactly-once stream processing on Kafka."

// commands is the command tree. A command is a field with a type of its own that has a method
// Run(p *process) error and lives in a file of its own.
type commands struct {
	Help   helpFlag   `short:"h" help:"Show help."`
	Config configFlag `placeholder:"FILE" env:"ONCEWARD_CONFIG" help:"YAML file with settings, by the names of their flags."`

	Run      runCommand      `cmd:"" help:"Run a pipeline until a signal ends it."`
	Demo     demoCommand     `cmd:"" help:"Kill a pipeline again and again, and see that every figure is right."`
	Describe describeCommand `cmd:"" help:"Show what a pipeline is made of."`
	Plan     planCommand     `cmd:"" help:"Print what the next start of a pipeline would do with existing topics and state; changes nothing."`
	Contract contractCommand `cmd:"" help:"Show what those may rely on who feed a pipeline or read from it."`
	Topics   topicsCommand   `cmd:"" help:"Create topics of a pipeline."`
	Status   statusCommand   `cmd:"" help:"Show what a running instance on this machine is doing."`
	Tasks    tasksCommand    `cmd:"" help:"Act on the tasks of a running instance on this machine."`

	State      stateCommand      `cmd:"" help:"Read the state of an instance on this machine, running or not."`
	Inbox      inboxCommand      `cmd:"" help:"Show which ids an inbox knows, and their statuses."`
	Effects    effectsCommand    `cmd:"" help:"Show calls to other systems with their statuses, and resolve unknown outcomes."`
	Explain    explainCommand    `cmd:"" help:"Show why a row is as it is, from the evidence of the decisions about it."`
	Verify     verifyCommand     `cmd:"" help:"Compare the state of an instance on this machine with a fresh replay of its changelogs."`
	Forensic   forensicCommand   `cmd:"" help:"Show what a pipeline would do with what its inputs hold, and change nothing."`
	Rebuild    rebuildCommand    `cmd:"" help:"Rebuild state from its changelogs or from the inputs."`
	Adopt      adoptCommand      `cmd:"" help:"Declare that the state belongs to the committed offsets."`
	AcceptSkip acceptSkipCommand `cmd:"" help:"Take offsets that were moved forward on purpose."`
	Reset      resetCommand      `cmd:"" help:"Move the offsets of an application, together with its state."`

	Transactions transactionsCommand `cmd:"" help:"List, show and repair the transactions that partitions of an application hold open."`

	DeadLetters deadLettersCommand `cmd:"" name:"deadletters" help:"List, show, edit and redrive dead letters."`

	Projection projectionCommand `cmd:"" help:"Build beside, verify, switch and roll back: choose between definitions of a projection."`

	Permissions permissionsCommand `cmd:"" help:"Show what an application has to be allowed on a cluster with ACLs."`

	Version versionCommand `cmd:"" help:"Show the version."`

	DemoPipeline demoPipelineCommand `cmd:"" hidden:"" help:"The pipeline process of the demo."`
}

// outputFlag is for commands whose result a program may want.
type outputFlag struct {
	Output string `enum:"text,json" default:"text" placeholder:"FORMAT" env:"ONCEWARD_OUTPUT" help:"Form of the result, text for people or json for programs; default ${default}."`
}

// helpFlag shows help. It replaces kong's, which ends the process, and a library must not.
type helpFlag bool

// errHelp says that help was asked for and shown.
var errHelp = errors.New("help was shown")

// BeforeReset is called by kong when the flag is given, before anything is checked.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}
