package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/security"
)

// operatorFlags are the flags of commands that act on an application from outside of it.
type operatorFlags struct {
	named
	clusterFlags

	DryRun bool `help:"Check everything and say what would be done, and do nothing."`
	outputFlag
}

// tasks are the arguments of a command that is about all tasks or some.
type tasks struct {
	Tasks []string `arg:"" optional:"" name:"task" help:"Tasks as status names them; default is all."`
}

// action is what a command does to an application.
type action func(context.Context, *admin.Application, admin.Options) (admin.Report, error)

// act runs an action and writes what it says.
func (o *operatorFlags) act(p *process, do action, tasks []string) error {
	if len(o.Brokers) == 0 {
		return usage("no broker is given; name at least one with --brokers")
	}
	t, err := o.topology(p)
	if err != nil {
		return err
	}
	log := p.warnings() // what is waited for
	client, err := o.connect(p.ctx, log)
	if err != nil {
		return err
	}
	defer client.Close()
	report, err := do(p.ctx, client.Application(t), admin.Options{Tasks: tasks, DryRun: o.DryRun})
	if err != nil {
		return err
	}
	if o.Output == "json" {
		return writeJSON(p.out, report)
	}
	return writeReport(p.out, report)
}

// wrongConnection rewrites mistakes in the settings of a connection in the words of the command
// line, one line a mistake. Errors of the cluster stay as they are.
func wrongConnection(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var mistakes []error
	for _, err := range all {
		if mistake, ok := errors.AsType[*security.Error](err); ok {
			mistakes = append(mistakes, fmt.Errorf("%s: %s", cmp.Or(connectionFlags["Security."+mistake.Field], mistake.Field), mistake.Reason))
		}
	}
	if len(mistakes) == 0 {
		return err
	}
	return &usageError{errors.Join(mistakes...)}
}

// offsetsOf reads offsets as they are given in flags.
func offsetsOf(flag string, given map[string]string) (admin.Offsets, error) {
	out := admin.Offsets{}
	for topic, text := range given {
		switch text {
		case "start":
			out[topic] = admin.Start
		case "end":
			out[topic] = admin.End
		default:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				return nil, usage("%s: %q is no offset of %s; give a number, start or end", flag, text, topic)
			}
			out[topic] = n
		}
	}
	return out, nil
}
