package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onceward/onceward/topology"
)

// Run runs the command line of the process, with the topologies that the program builds, and
// returns the exit code. It is the whole main function of a program with topologies of its own:
//
//	func main() { os.Exit(cli.Run(payments)) }
//
// A topology that cannot be built is reported with the file and the line of each mistake.
func Run(build ...func() (*topology.Topology, error)) (code int) {
	topologies := make([]*topology.Topology, len(build))
	for i, build := range build {
		var err error
		if topologies[i], err = build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return codeUsage
		}
	}
	return Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, topologies...)
}

// Main is [Run] for programs that choose the arguments and the streams themselves. It runs the
// command line args, which does not have the name of the program, and returns the exit code. The
// topologies are those that the program has itself; their names must differ. The end of ctx stops a
// running topology in order, as a signal does.
func Main(
	ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
	topologies ...*topology.Topology,
) int {
	p := &process{ctx: ctx, name: programName(), in: stdin, out: stdout, err: stderr, topologies: topologies}
	return p.report(p.main(args))
}

// process is what commands have to do with.
type process struct {
	// ctx is here, and not in the parameters, because kong calls the commands.
	ctx        context.Context
	name       string
	in         io.Reader
	out, err   io.Writer
	topologies []*topology.Topology
}

// warnings is the log of a command that prints its result to p.out: warnings and errors go to p.err.
func (p *process) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// programName is the name of the program in texts.
func programName() string {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if name == "" || name == "." {
		return "onceward"
	}
	return name
}

func (p *process) main(args []string) error {
	var grammar commands
	parser, err := kong.New(&grammar, kong.Name(p.name), kong.Description(description),
		kong.Writers(p.out, p.err), kong.NoDefaultHelp(), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: helpWidthMax}))
	if err != nil {
		return fmt.Errorf("the command line of this program: %w", err)
	}
	if len(p.topologies) == 0 {
		hide(parser.Model.Node, "topology")
	}
	selected, err := parser.Parse(args)
	switch {
	case errors.Is(err, errHelp):
		return nil
	case err != nil:
		return p.misused(err)
	}
	return selected.Run(p)
}

const helpWidthMax = 100

// hide takes a flag out of the help texts.
func hide(node *kong.Node, flag string) {
	for _, f := range node.Flags {
		if f.Name == flag {
			f.Hidden = true
		}
	}
	for _, child := range node.Children {
		hide(child, flag)
	}
}

// misused makes a usage error of what the parser says.
func (p *process) misused(err error) error {
	var help string
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		err = parse.Unwrap()
		help = p.name
		if parse.Context != nil && parse.Context.Selected() != nil {
			help = parse.Context.Selected().FullPath()
		}
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usage
	}
	if help != "" {
		err = fmt.Errorf("%w; %s --help says what is possible", err, help)
	}
	return &usageError{err}
}
