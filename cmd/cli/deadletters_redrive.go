package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/admin"
)

// deadLettersRedriveCommand writes records again.
type deadLettersRedriveCommand struct {
	letterTopic
	letterFlags
	All          bool    `help:"Redrive every dead letter that was not redriven yet."`
	DryRun       bool    `help:"Check everything and say what would be done, and do nothing."`
	Rate         float64 `placeholder:"N" help:"Most records a second; default is no limit."`
	DeathsMax    int     `default:"3" placeholder:"N" help:"Leave records that have died so often, 0 for no limit; default ${default}."`
	To           string  `placeholder:"TOPIC" help:"Write to this topic, by key; default is the topic and partition in which each record died last."`
	TimestampNow bool    `help:"Give the records the present time as their timestamp; default is that they keep theirs."`
	Repair       bool    `help:"Have the records say that they come again (mode REPAIR): they have no effects outside; default is that they keep their mode."`
	outputFlag
}

// Help is for --help.
func (c *deadLettersRedriveCommand) Help() string {
	return "Writes the records of the chosen dead letters to the topics where they failed, unchanged or as edited. It is exactly " +
		"once: after a kill, run it again, and no record is redriven twice. A record that fails again keeps its id. Other " +
		"applications that read the topic get the record too. It ends with 1 if dead letters were left in place."
}

func (c *deadLettersRedriveCommand) Run(p *process) error {
	filter, some, err := c.filter()
	switch {
	case err != nil:
		return err
	case !some && !c.All:
		return usage("no dead letters are chosen; choose some, for example with --id or --class, or give --all")
	case some && c.All:
		return usage("--all and a choice of dead letters are both given; give one")
	case c.Rate < 0:
		return usage("--rate: %g is no number of records a second", c.Rate)
	case c.DeathsMax < 0:
		return usage("--deaths-max: %d is no number of deaths", c.DeathsMax)
	}
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.close()
	options := admin.RedriveOptions{
		Filter: filter, DryRun: c.DryRun, Rate: c.Rate, DeathsMax: c.DeathsMax, To: c.To, TimestampNow: c.TimestampNow,
		Repair: c.Repair,
	}
	if c.DeathsMax == 0 {
		options.DeathsMax = -1
	}
	chosen := map[string]bool{}
	text := c.Output != "json"
	if text && c.DryRun {
		if _, err := fmt.Fprintln(p.out, dryRunNotice); err != nil {
			return err
		}
	}
	options.Step = func(l admin.DeadLetter, outcome admin.RedriveOutcome) error {
		chosen[l.ID] = true
		if !text {
			return nil
		}
		to := l.To.String()
		if c.To != "" {
			to = c.To
		}
		_, err := fmt.Fprintf(p.out, "%s  %s  %s\n", oneLine(l.ID), outcome, oneLine(to))
		return err
	}
	report, err := o.Redrive(p.ctx, options)
	if !text {
		err = errors.Join(err, writeJSON(p.out, report))
	} else if _, written := fmt.Fprintln(p.out, redriveText(report)); written != nil {
		err = errors.Join(err, written)
	}
	if err != nil {
		return err
	}
	return c.verdict(report, chosen)
}

// verdict says what the caller asked for and was not done.
func (c *deadLettersRedriveCommand) verdict(r admin.RedriveReport, chosen map[string]bool) error {
	var errs []error
	for _, id := range c.ID {
		if !chosen[id] {
			errs = append(errs, fmt.Errorf("dead letter %s: it does not exist or was already redriven", id))
		}
	}
	left := int64(0)
	for outcome, n := range r.Outcomes {
		if outcome != admin.Redriven {
			left += n
		}
	}
	if left > 0 && !c.DryRun {
		errs = append(errs, fmt.Errorf("%d dead letters were left in place; the output has the reasons", left))
	}
	return errors.Join(errs...)
}

// redriveText counts what was done, for people.
func redriveText(r admin.RedriveReport) string {
	texts := []string{fmt.Sprintf("%d redriven", r.Outcomes[admin.Redriven])}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		if outcome != admin.Redriven {
			texts = append(texts, fmt.Sprintf("%d %s", r.Outcomes[outcome], outcome))
		}
	}
	return "# " + r.Topic + ": " + strings.Join(texts, ", ")
}
