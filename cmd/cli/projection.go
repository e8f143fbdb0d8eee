package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/txn/admin"
)

// projectionCommand groups what chooses between definitions of a projection.
type projectionCommand struct {
	Verify projectionVerifyCommand `cmd:"" help:"Compare the rows of another definition with those of the active one."`
	Switch projectionSwitchCommand `cmd:"" help:"Make another definition the active one, or go back to the one before."`
}

// choiceFlags say which choice is meant, and between what.
type choiceFlags struct {
	clusterFlags
	Commands string        `required:"" placeholder:"TOPIC" help:"Topic of commands that the choice reads."`
	Answers  string        `required:"" placeholder:"TOPIC" help:"Topic that its answers go to."`
	From     uint16        `required:"" placeholder:"N" help:"Definition that is the active one."`
	To       uint16        `required:"" placeholder:"N" help:"Definition that is to follow it."`
	ID       string        `placeholder:"ID" help:"Id of the command; one that was sent before is not obeyed again, but answered. Default is a new one."`
	Timeout  time.Duration `default:"1m" placeholder:"DURATION" env:"ONCEWARD_TIMEOUT" help:"How long to wait for the answers of all partitions; default ${default}."`
	outputFlag
}

// projectionVerifyCommand compares definitions.
type projectionVerifyCommand struct{ choiceFlags }

// Help is for --help.
func (c *projectionVerifyCommand) Help() string {
	return "The running application is asked, a command for each partition, and every partition has to answer. Nothing is changed. It ends " +
		"with 1 if a partition says that the definition could not follow: rows are missing, behind or contrary, or another definition is " +
		"the active one."
}

func (c *projectionVerifyCommand) Run(p *process) error {
	return c.with(p, func(ctx context.Context, client *admin.Client, id string) (choiceResult, error) {
		result, err := c.ask(ctx, client, projection.Command{ID: id, Action: projection.Verify, From: c.From, To: c.To})
		if err == nil && result.count(projection.Refused) > 0 {
			err = fmt.Errorf("%d of %d partitions refuse: definition %d could not follow", result.count(projection.Refused),
				len(result.Partitions), c.To)
		}
		return result, err
	})
}

// projectionSwitchCommand switches.
type projectionSwitchCommand struct {
	choiceFlags
	Force bool `help:"Switch although rows are missing, behind or contrary."`
}

// Help is for --help.
func (c *projectionSwitchCommand) Help() string {
	return "All partitions are asked first whether the definition could follow, and only if all agree the command to switch is sent. Each " +
		"partition obeys in a transaction of its own, compares once more, and passes on every row in which the definitions differ. To roll " +
		"back is to switch the other way. It ends with 1 if a partition has not switched; done again, it goes on with those."
}

func (c *projectionSwitchCommand) Run(p *process) error {
	return c.with(p, func(ctx context.Context, client *admin.Client, id string) (choiceResult, error) {
		if !c.Force {
			before, err := c.ask(ctx, client, projection.Command{ID: rand.Text(), Action: projection.Verify, From: c.From, To: c.To})
			if err != nil {
				return before, fmt.Errorf("nothing was switched: %w", err)
			}
			if n := len(before.Partitions) - before.fit(); n > 0 {
				return before, fmt.Errorf("nothing was switched: %d of %d partitions refuse; --force switches all the same", n, len(before.Partitions))
			}
		}
		result, err := c.ask(ctx, client, projection.Command{
			ID: id, Action: projection.Switch, From: c.From, To: c.To, Force: c.Force,
		})
		if done := result.active(c.To); err == nil && done < len(result.Partitions) {
			err = fmt.Errorf("%d of %d partitions have switched; the others have refused, as the output says: do it again for them, or go "+
				"back with --from %d --to %d", done, len(result.Partitions), c.To, c.From)
		}
		return result, err
	})
}

// with connects, does it, and writes what has come of it, also where it ended with an error.
func (c *choiceFlags) with(p *process, do func(context.Context, *admin.Client, string) (choiceResult, error)) error {
	switch {
	case len(c.Brokers) == 0:
		return usage("no brokers are given; name them with --brokers")
	case c.From == c.To:
		return usage("--from and --to are both %d; give two definitions", c.From)
	case c.From == 0 || c.To == 0:
		return usage("--from and --to: versions of a definition count from 1")
	case c.Timeout <= 0:
		return usage("--timeout: %s is no time to wait; give more than 0s", c.Timeout)
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	client, err := c.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	id := c.ID
	if id == "" {
		id = rand.Text()
	}
	result, err := do(ctx, client, id)
	if len(result.Partitions) == 0 {
		return err
	}
	if c.Output == "json" {
		return errors.Join(writeJSON(p.out, result), err)
	}
	return errors.Join(result.write(p.out), err)
}

// ask sends a command to every partition and returns the answers.
func (c *choiceFlags) ask(ctx context.Context, client *admin.Client, command projection.Command) (choiceResult, error) {
	result := choiceResult{ID: command.ID}
	value, err := json.Marshal(command)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	answers, err := client.Ask(ctx, admin.Question{Topic: c.Commands, Answers: c.Answers, ID: command.ID, Value: value})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: is the application running, and has it declared both definitions? A command that it cannot obey is a dead letter",
			err)
	}
	for _, p := range slices.Sorted(maps.Keys(answers)) {
		var a projection.Answer
		if decodeErr := json.Unmarshal(answers[p].Value, &a); decodeErr != nil {
			return result, errors.Join(err, fmt.Errorf("%s[%d] at offset %d is no answer: %w", c.Answers, answers[p].Partition,
				answers[p].Offset, decodeErr))
		}
		result.Partitions = append(result.Partitions, choiceAnswer{Partition: p, Answer: a})
	}
	return result, err
}

// choiceResult is the JSON form. Its fields are for programs and stay.
type choiceResult struct {
	ID         string         `json:"id"`
	Partitions []choiceAnswer `json:"partitions"`
}

type choiceAnswer struct {
	Partition int32 `json:"partition"`
	projection.Answer
}

// count returns how many partitions have answered so.
func (r choiceResult) count(o projection.Answered) (n int) {
	for _, a := range r.Partitions {
		if a.Outcome == o {
			n++
		}
	}
	return n
}

// active returns in how many partitions a definition is the active one.
func (r choiceResult) active(definition uint16) (n int) {
	for _, a := range r.Partitions {
		if a.Active == definition {
			n++
		}
	}
	return n
}

// fit returns how many partitions could switch, or have: a switch that was interrupted goes on.
func (r choiceResult) fit() (n int) {
	for _, a := range r.Partitions {
		if a.Outcome != projection.Refused || a.Active == a.Command.To {
			n++
		}
	}
	return n
}

func (r choiceResult) write(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tOUTCOME\tACTIVE\tKEYS\tMISSING\tBEHIND\tCONTRARY\tEXTRA\tDIFFERENT\tREASON")
	for _, a := range r.Partitions {
		c := a.Comparison
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", a.Partition, a.Outcome, a.Active, c.Keys, c.Missing, c.Behind,
			c.Contrary, c.Extra, c.Different, a.Reason)
	}
	fmt.Fprintf(table, "# command %s\n", r.ID)
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}
