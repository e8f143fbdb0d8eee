package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/txn/admin"
)

// verifyCommand compares local state with a fresh replay of its changelogs.
type verifyCommand struct {
	stateDirectory
	clusterFlags
	Task        string `placeholder:"TASK" help:"Verify this task only, as status names it."`
	Store       string `placeholder:"STORE" help:"Verify this store only."`
	Differences int    `default:"10" placeholder:"N" help:"Most differences to show of a store; default ${default}."`
	ScratchDir  string `placeholder:"DIR" env:"ONCEWARD_SCRATCH_DIR" help:"Directory for the replay of one store at a time, made and removed again; default is the state directory with .verify behind it."`
	Encoding    string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How rows are shown: as the store's codecs read them where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
	progressFlag
	outputFlag
}

// errDiffers and errTableDiffers say that state is not what its changelog or its topic says.
var (
	errDiffers      = errors.New("the state is not what its changelogs say")
	errTableDiffers = errors.New("the global table is not what its topic says")
)

func (c *verifyCommand) Run(p *process) (err error) {
	switch {
	case len(c.Brokers) == 0:
		return usage("no brokers are given; name them with --brokers")
	case c.Differences < 1:
		return usage("--differences: %d is no number of differences; give at least 1", c.Differences)
	}
	// A signal ends the verification, and removes the scratch directory.
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	s, err := c.open(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	client, err := c.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	meter := c.meter(p)
	outcomes, err := client.Verify(ctx, s.State, admin.VerifyOptions{
		Task: c.Task, Store: c.Store, Topology: s.topology, Scratch: c.ScratchDir, DifferencesMax: c.Differences, Progress: meter.callback("verifying"),
	})
	meter.end()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("ended by a signal before everything was verified")
	case err != nil:
		return err
	case len(outcomes) == 0:
		return usage("there is no store to verify%s; state stats lists the stores", c.selected())
	}
	if c.Output == "json" {
		err = writeJSON(p.out, verifyResultOf(s, outcomes, c.Encoding))
	} else {
		err = writeVerifications(p.out, s, outcomes, c.Encoding)
	}
	return errors.Join(err, verdict(outcomes))
}

func (c *verifyCommand) selected() string {
	if c.Task == "" && c.Store == "" {
		return ""
	}
	return " by that --task and --store"
}

// verdict says what is wrong altogether: a difference weighs more than what could not be verified,
// and a changelog that is another one more than one that could not be read.
func verdict(outcomes []admin.Verification) error {
	var differ, tables, unjudged, failed, lost, skipped int
	var why, whyLost, whySkipped error
	table := ""
	for _, o := range outcomes {
		switch {
		case errors.Is(o.Err, admin.ErrChangelog):
			lost, whyLost = lost+1, o.Err
		case o.Err != nil:
			failed, why = failed+1, o.Err
		case o.Skipped != nil:
			skipped, whySkipped = skipped+1, o.Skipped
		case o.Differences > 0 && o.GlobalTable():
			tables, table = tables+1, o.Store
		case o.Differences > 0:
			differ++
		case o.Unjudged > 0:
			unjudged++
		}
	}
	switch {
	case differ > 0:
		return fmt.Errorf("%d of %d: %w; rebuild repairs them", differ, len(outcomes), errDiffers)
	case tables > 0:
		return fmt.Errorf("%d of %d: %w. Stop the instance and remove globals/%s from its state directory: the next start reads the topic again",
			tables, len(outcomes), errTableDiffers, table)
	case lost > 0, failed > 0:
		return fmt.Errorf("%d of %d stores could not be verified, one of them because: %w", lost+failed, len(outcomes),
			cmp.Or(whyLost, why))
	case unjudged > 0:
		return fmt.Errorf("no difference was found, but %d of %d stores have keys that cannot be judged. Their changelogs have advanced, and "+
			"compaction or the retention of the brokers may have removed records that the state still has", unjudged,
			len(outcomes))
	case skipped == len(outcomes):
		return fmt.Errorf("no store was verified: %w", whySkipped)
	}
	return nil
}

// verifyResult is the JSON form. Its fields are for programs and stay.
type verifyResult struct {
	Equal  bool          `json:"equal"`
	Stores []verifyStore `json:"stores"`
}

type verifyStore struct {
	Store string  `json:"store"`
	At    stateAt `json:"at"`
	// Outcome is equal, different, unjudged, unused, skipped or failed.
	Outcome     string             `json:"outcome"`
	Changelog   string             `json:"changelog"`
	Start       int64              `json:"start"`
	Position    int64              `json:"position"`
	Rows        int64              `json:"rows"`
	Differences int64              `json:"differences"`
	Unjudged    int64              `json:"unjudged"`
	First       []verifyDifference `json:"first"`
	// Reason says why a store was skipped.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
}

type verifyDifference struct {
	Kind admin.Kind `json:"kind"`
	// Local and Changelog have the key, and the value where there is one.
	Local     *rowJSON `json:"local"`
	Changelog *rowJSON `json:"changelog"`
}

func outcomeOf(o admin.Verification) string {
	switch {
	case o.Err != nil:
		return "failed"
	case o.Skipped != nil:
		return "skipped"
	case o.Unused:
		return "unused"
	case o.Differences > 0:
		return "different"
	case o.Unjudged > 0:
		return "unjudged"
	}
	return "equal"
}

func verifyResultOf(s opened, outcomes []admin.Verification, encoding string) verifyResult {
	out := verifyResult{Equal: true}
	for _, o := range outcomes {
		out.Equal = out.Equal && o.Equal()
		rows := s.rows(o.Store, o.Layout, encoding)
		v := verifyStore{
			Store: o.Store, At: stateAtOf(o.At), Outcome: outcomeOf(o), Changelog: o.Changelog, Start: o.Start, Position: o.Position,
			Rows: o.Rows, Differences: o.Differences, Unjudged: o.Unjudged, First: []verifyDifference{},
		}
		if o.Err != nil {
			v.Error = o.Err.Error()
		}
		if o.Skipped != nil {
			v.Reason = o.Skipped.Error()
		}
		for _, d := range o.First {
			shown := verifyDifference{Kind: d.Kind}
			if d.Kind != admin.Missing {
				row := rows.row(d.Key, d.Local).json()
				shown.Local = &row
			}
			if d.Kind != admin.Extra {
				row := rows.row(d.Key, d.Changelog).json()
				shown.Changelog = &row
			}
			v.First = append(v.First, shown)
		}
		out.Stores = append(out.Stores, v)
	}
	return out
}

// writeVerifications writes the outcomes for people.
func writeVerifications(out io.Writer, s opened, outcomes []admin.Verification, encoding string) error {
	var text strings.Builder
	text.WriteString("TASK\tSTORE\tOUTCOME\tROWS\tPOSITION\tROUND\n")
	for _, o := range outcomes {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%d\t%d\t%s\n", o.Task, o.Store, outcomeOf(o), o.Rows, o.Position, o.Positions.Round)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text.Reset()
	for _, o := range outcomes {
		place := fmt.Sprintf("%s[%d]", o.Store, o.Task.Partition)
		rows := s.rows(o.Store, o.Layout, encoding)
		if o.Err != nil {
			fmt.Fprintf(&text, "\n%s: %s\n", place, o.Err)
		}
		if o.Skipped != nil {
			fmt.Fprintf(&text, "\n%s: left out: %s\n", place, o.Skipped)
		}
		if o.Start > 0 && o.Differences > 0 {
			fmt.Fprintf(&text, "\n%s: the changelog begins at offset %d, what was before it is gone\n", place, o.Start)
		}
		if o.Differences+o.Unjudged > 0 {
			fmt.Fprintf(&text, "\n%s: keys that differ: %d; that cannot be judged: %d\n", place, o.Differences, o.Unjudged)
		}
		log := "changelog"
		if o.GlobalTable() {
			log = "topic"
		}
		for _, d := range o.First {
			local, logged := rows.row(d.Key, d.Local), rows.row(d.Key, d.Changelog)
			switch d.Kind {
			case admin.Missing:
				fmt.Fprintf(&text, "  missing  %s  the %s has %s\n", logged.keyText(), log, logged.valueText())
			case admin.Extra:
				fmt.Fprintf(&text, "  extra    %s  the state has %s\n", local.keyText(), local.valueText())
			case admin.OtherValue:
				fmt.Fprintf(&text, "  value    %s  the state has %s, the %s %s\n", local.keyText(), local.valueText(), log, logged.valueText())
			}
		}
		if more := o.Differences - int64(len(o.First)); more > 0 {
			fmt.Fprintf(&text, "  and %d more; --differences shows them\n", more)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
