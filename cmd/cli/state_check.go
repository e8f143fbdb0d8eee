package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/txn/admin"
)

// stateCheckCommand recomputes the balances of a ledger from its contributions, and compares them
// with those that it has.
type stateCheckCommand struct {
	Ledger string `arg:"" placeholder:"LEDGER" help:"The ledger, by the name that its step or node has."`
	stateDirectory
	Partition   *int32 `placeholder:"N" help:"Partition to check; default is every one that the instance has."`
	Differences int    `default:"10" placeholder:"N" help:"Most differences to show of a partition; default ${default}."`
	Encoding    string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How keys are shown: as the store's codec reads them where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
	outputFlag
}

// Help is for --help.
func (c *stateCheckCommand) Help() string {
	return "Contributions and balances have to be of one moment. An instance that runs is stopped first, or a copy of its " +
		"state is checked, which state checkpoint and state import make. Amounts are shown as they are stored: those of " +
		"decimals in units of the last place. The exit code is 3 when one balance differs."
}

var (
	// errBalances says that balances are not what follows from the contributions.
	errBalances = errors.New("the balance is not what its contributions come to")
	errMoving   = errors.New("an instance runs on that state, and contributions and balances would be read at different times; stop it first, or " +
		"check a copy made by state checkpoint and state import")
)

func (c *stateCheckCommand) Run(p *process) (err error) {
	if c.Differences < 1 {
		return usage("--differences: %d is no number of differences; give at least 1", c.Differences)
	}
	s, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.Running() {
		return errMoving
	}
	if err := c.refuseOthers(p.ctx, s); err != nil {
		return err
	}
	_, balances := ledger.Stores(c.Ledger)
	here, err := s.here(p.ctx, balances, c.Partition)
	if err != nil {
		return err
	}
	var outcomes []checkedPartition
	for _, partition := range here.partitions {
		outcomes = append(outcomes, c.check(p.ctx, s, partition))
	}
	rows := s.rows(balances, here.layout, c.Encoding)
	if c.Output == "json" {
		err = writeJSON(p.out, c.resultOf(outcomes, rows))
	} else {
		err = c.writeText(p.out, outcomes, rows)
	}
	return errors.Join(err, balancesVerdict(outcomes))
}

// refuseOthers refuses what is no ledger of the instance.
func (c *stateCheckCommand) refuseOthers(ctx context.Context, s opened) error {
	stores, err := s.declarations(ctx)
	if err != nil {
		return err
	}
	ledgers := ledger.Names(stores)
	if slices.Contains(ledgers, c.Ledger) {
		return nil
	}
	return usage("the instance has no ledger %q; it has %s", c.Ledger, orNone(strings.Join(ledgers, ", ")))
}

// checkedPartition is what was found in one partition.
type checkedPartition struct {
	partition int32
	at        admin.At
	ledger.Checked
	// err is why it was not checked to its end.
	err error
}

func (c *stateCheckCommand) check(ctx context.Context, s opened, partition int32) checkedPartition {
	out := checkedPartition{partition: partition}
	contributions, balances := ledger.Stores(c.Ledger)
	posted, err := s.Scan(ctx, admin.ScanRequest{Store: contributions, Partition: partition})
	if err != nil {
		out.err = err
		return out
	}
	defer func() { out.err = errors.Join(out.err, posted.Close()) }()
	summed, err := s.Scan(ctx, admin.ScanRequest{Store: balances, Partition: partition})
	if err != nil {
		out.err = err
		return out
	}
	defer func() { out.err = errors.Join(out.err, summed.Close()) }()
	out.at = posted.At
	out.Checked, out.err = ledger.CheckRows(posted.Rows(), summed.Rows(), c.Differences)
	return out
}

// balancesVerdict says what is wrong altogether: a difference weighs more than what could not be
// checked.
func balancesVerdict(outcomes []checkedPartition) error {
	var differ, ledgers int64
	var failed int
	var why error
	for _, o := range outcomes {
		differ, ledgers = differ+o.Differences, ledgers+o.Ledgers
		if o.err != nil && (why == nil || codeOf(o.err) == codeIntegrity) {
			why = o.err
		}
		if o.err != nil {
			failed++
		}
	}
	switch {
	case differ > 0:
		return fmt.Errorf("%d of %d: %w; verify says whether the changelogs have the same, and rebuild repairs them", differ, ledgers,
			errBalances)
	case failed > 0:
		return fmt.Errorf("%d of %d partitions could not be checked, one of them because: %w", failed, len(outcomes), why)
	}
	return nil
}

func (o checkedPartition) outcome() string {
	switch {
	case o.Differences > 0:
		return "different"
	case o.err != nil:
		return "failed"
	}
	return "equal"
}

// checkResult is the JSON form. Its fields are for programs and stay.
type checkResult struct {
	Ledger     string           `json:"ledger"`
	Equal      bool             `json:"equal"`
	Partitions []checkPartition `json:"partitions"`
}

type checkPartition struct {
	Partition int32 `json:"partition"`
	// At is null if nothing could be read.
	At *stateAt `json:"at"`
	// Outcome is equal, different or failed.
	Outcome string `json:"outcome"`
	// Keys are those that have a balance, contributions or both. If there is an error, they and the
	// differences are not all there are.
	Keys          int64             `json:"keys"`
	Contributions int64             `json:"contributions"`
	Differences   int64             `json:"differences"`
	First         []checkDifference `json:"first"`
	Error         string            `json:"error,omitempty"`
}

type checkDifference struct {
	rowJSON
	Reason string `json:"reason"`
	// Balance is what the state has, and Recomputed what its contributions come to; null where
	// there is nothing.
	Balance    *checkBalance `json:"balance"`
	Recomputed *checkBalance `json:"recomputed"`
}

type checkBalance struct {
	Contributions int64 `json:"contributions"`
	// Amounts has an integer of any size for each column.
	Amounts []*big.Int `json:"amounts"`
}

// differenceOf has the figures of both sides.
func differenceOf(d *ledger.DifferenceError, rows rowEncoder) checkDifference {
	out := checkDifference{rowJSON: keyJSON(rows.keyPart(d.Key)), Reason: d.Reason}
	if d.Balance.Amounts != nil {
		out.Balance = &checkBalance{Contributions: d.Balance.Count}
		for _, amount := range d.Balance.Amounts {
			out.Balance.Amounts = append(out.Balance.Amounts, big.NewInt(amount))
		}
	}
	if d.Sums != nil {
		out.Recomputed = &checkBalance{d.Contributions, d.Sums}
	}
	return out
}

func (c *stateCheckCommand) resultOf(outcomes []checkedPartition, rows rowEncoder) checkResult {
	out := checkResult{Ledger: c.Ledger, Equal: true}
	for _, o := range outcomes {
		out.Equal = out.Equal && o.outcome() == "equal"
		v := checkPartition{
			Partition: o.partition, Outcome: o.outcome(), Keys: o.Ledgers, Contributions: o.Contributions, Differences: o.Differences,
			First: []checkDifference{},
		}
		if o.at.Task.Subtopology != "" {
			at := stateAtOf(o.at)
			v.At = &at
		}
		for _, d := range o.First {
			v.First = append(v.First, differenceOf(d, rows))
		}
		if o.err != nil {
			v.Error = o.err.Error()
		}
		out.Partitions = append(out.Partitions, v)
	}
	return out
}

// writeText writes the outcomes for people.
func (c *stateCheckCommand) writeText(out io.Writer, outcomes []checkedPartition, rows rowEncoder) error {
	var text strings.Builder
	text.WriteString("PARTITION\tOUTCOME\tKEYS\tCONTRIBUTIONS\tROUND\n")
	for _, o := range outcomes {
		fmt.Fprintf(&text, "%d\t%s\t%d\t%d\t%s\n", o.partition, o.outcome(), o.Ledgers, o.Contributions, orNone(stateAtOf(o.at).Round))
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
		place := fmt.Sprintf("%s[%d]", c.Ledger, o.partition)
		if o.err != nil {
			fmt.Fprintf(&text, "\n%s: %s\n", place, o.err)
		}
		if o.Differences > 0 {
			fmt.Fprintf(&text, "\n%s: balances that differ: %d\n", place, o.Differences)
		}
		for _, d := range o.First {
			figures := differenceOf(d, rows)
			fmt.Fprintf(&text, "  %s  %s; the state has %s, recomputed it is %s\n", rows.keyPart(d.Key), d.Reason, figures.Balance,
				figures.Recomputed)
		}
		if more := o.Differences - int64(len(o.First)); more > 0 {
			fmt.Fprintf(&text, "  and %d more; --differences shows them\n", more)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// String is the form for people.
func (b *checkBalance) String() string {
	if b == nil {
		return "nothing"
	}
	amounts := make([]string, len(b.Amounts))
	for i, amount := range b.Amounts {
		amounts[i] = amount.String()
	}
	return fmt.Sprintf("%s of %d", strings.Join(amounts, ", "), b.Contributions)
}
