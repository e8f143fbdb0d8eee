// Command onceward-bench measures speed and latency on a running cluster that accepts clients
// without TLS and SASL:
//
//	onceward-bench fill     writes the input of a workload
//	onceward-bench run      processes it as an application in this process until a number of records is
//	                        committed, and reports the figures of package throughput; then it reads
//	                        input, output and state, and compares
//	onceward-bench check    compares the output of another program with the input
//	onceward-bench latency  sends events at a rate through an application that it starts as a process of
//	                        its own, or with --external through a running one
//
// It is a program of its own so that the command onceward has no code that only measures. The exit
// codes are those of onceward, and 3 if run or check finds a wrong answer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const name = "onceward-bench"

// commands is the grammar of the command line.
type commands struct {
	Fill    fillCommand    `cmd:"" help:"Write the input of a workload."`
	Run     runCommand     `cmd:"" help:"Run a workload over an input, measure it, and check what has come out."`
	Check   checkCommand   `cmd:"" help:"Check the output of a workload of any writer."`
	Latency latencyCommand `cmd:"" help:"Measure how long records take at a given rate."`

	Instance instanceCommand `cmd:"" hidden:"" help:"The application of latency."`
}

// process has the streams of the commands.
type process struct{ out, err io.Writer }

// run runs a command line without the name of the program, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) (code int) {
	err := execute(args, &process{stdout, stderr})
	if err == nil {
		return onceward.ExitDone
	}
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", name, strings.TrimSpace(line)) // an error of this write has no other place
	}
	_, isUsage := errors.AsType[*usageError](err)
	switch {
	case isUsage, errors.Is(err, throughput.ErrUnusable), errors.Is(err, latency.ErrUnusable):
		return onceward.ExitUsage
	case errors.Is(err, throughput.ErrWrong):
		return onceward.ExitIntegrity
	}
	return onceward.ExitCode(err)
}

func execute(args []string, p *process) error {
	var grammar commands
	parser, err := kong.New(&grammar, kong.Name(name), kong.Description("Measure speed and latency of Onceward on a running cluster."),
		kong.Writers(p.out, p.err), kong.UsageOnError(), kong.Vars{"workloads": strings.Join(workload.Names(), ",")})
	if err != nil {
		return fmt.Errorf("the command line of this program: %w", err)
	}
	selected, err := parser.Parse(args)
	if err != nil {
		return usage("%w; --help says what is possible", err)
	}
	return selected.Run(p)
}

// usageError is a mistake in the arguments.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// measured runs a measurement that a signal ends. A second signal ends the process.
func measured(measure func(ctx context.Context) error) error {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release)
	err := measure(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.New("ended by a signal before there was a result")
	}
	return err
}

// outputFlag chooses the form of a result.
type outputFlag struct {
	Output string `enum:"text,json" default:"text" placeholder:"FORMAT" env:"ONCEWARD_OUTPUT" help:"Form of the result, text for people or json for programs; default ${default}."`
}

// write writes a result for people or for programs.
func (o outputFlag) write(p *process, result fmt.Stringer) error {
	if o.Output != "json" {
		_, err := fmt.Fprintln(p.out, result)
		return err
	}
	enc := json.NewEncoder(p.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(result)
}
