package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/onceward/onceward/txn/admin"
)

// deadLettersListCommand shows dead letters without their records.
type deadLettersListCommand struct {
	letterTopic
	letterFlags
	Redriven bool  `help:"Show redriven dead letters too."`
	Limit    int64 `placeholder:"N" default:"100" help:"Most dead letters to show, 0 for all; default ${default}."`
	outputFlag
}

// Help is for --help.
func (c *deadLettersListCommand) Help() string {
	return "The list shows only the sizes of records; show has the records. With --output json there is one line for each dead " +
		"letter, and a last one with counts."
}

// letterCountLine ends a list as JSON. Its fields are for programs and stay.
type letterCountLine struct {
	Topic string `json:"topic"`
	Shown int64  `json:"shown"`
	admin.DeadLetterCounts
}

// errLimit ends a list.
var errLimit = errors.New("the limit is reached")

func (c *deadLettersListCommand) Run(p *process) error {
	filter, _, err := c.filter()
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usage("--limit: %d is no number of dead letters", c.Limit)
	}
	filter.Redriven = c.Redriven
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.close()
	out := bufio.NewWriter(p.out)
	var list letterList = &letterTable{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if c.Output == "json" {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		list = &letterLines{enc, o}
	}
	if err := list.begin(); err != nil {
		return err
	}
	shown := int64(0)
	counts, err := o.Each(p.ctx, filter, func(l admin.DeadLetter) error {
		if shown == c.Limit && c.Limit > 0 {
			return errLimit
		}
		shown++
		return list.letter(l)
	})
	if err != nil && !errors.Is(err, errLimit) {
		return errors.Join(err, out.Flush())
	}
	if err := list.end(letterCountLine{o.name, shown, counts}, errors.Is(err, errLimit)); err != nil {
		return err
	}
	return out.Flush()
}

// letterList is a form of the list.
type letterList interface {
	begin() error
	letter(l admin.DeadLetter) error
	end(counts letterCountLine, more bool) error
}

// letterTable is the form for people.
type letterTable struct{ out *tabwriter.Writer }

func (t *letterTable) begin() error {
	_, err := io.WriteString(t.out, "ID\tFAILED\tCLASS\tNODE\tFROM\tDEATHS\tATTEMPTS\tVALUE\tSTATE\tMESSAGE\n")
	return err
}

func (t *letterTable) letter(l admin.DeadLetter) error {
	_, err := fmt.Fprintf(t.out, "%s\t%s\t%s\t%s\t%s[%d] %d\t%d\t%d\t%s\t%s\t%s\n",
		oneLine(l.ID), l.LastFailure.UTC().Format("2006-01-02 15:04:05"),
		l.Class, oneLine(l.Node), oneLine(l.Origin.Topic), l.Origin.Partition, l.Origin.Offset,
		l.Deaths, l.Attempts, sizeText(l.Value),
		stateText(l), oneLine(l.Message))
	return err
}

func (t *letterTable) end(c letterCountLine, more bool) error {
	if err := t.out.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("# %s: %d shown", c.Topic, c.Shown)
	if more {
		text += "; more follow, --limit shows them"
	} else {
		text += fmt.Sprintf("; %d dead letters in all, %d redriven", c.Letters, c.DeadLetterCounts.Redriven)
		if n := c.Foreign + c.Malformed; n > 0 {
			text += fmt.Sprintf("; %d records that are no dead letters of onceward", n)
		}
	}
	_, err := fmt.Fprintln(t.out, text)
	return errors.Join(err, t.out.Flush())
}

// letterLines is the form for programs.
type letterLines struct {
	enc    *json.Encoder
	office letterOffice
}

func (j *letterLines) begin() error { return nil }

func (j *letterLines) letter(l admin.DeadLetter) error { return j.enc.Encode(j.office.letterJSONOf(l)) }

func (j *letterLines) end(c letterCountLine, _ bool) error { return j.enc.Encode(c) }
