package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// stateScanCommand shows the rows of a store, partition by partition.
type stateScanCommand struct {
	Store string `arg:"" placeholder:"STORE" help:"The store."`
	stateDirectory
	encodingFlags
	Partition *int32  `placeholder:"N" help:"Partition to show; default is every one that the instance has."`
	From      *string `placeholder:"KEY" help:"First key."`
	To        *string `placeholder:"KEY" help:"First key that is not shown any more."`
	Prefix    *string `placeholder:"KEY" help:"Show the keys that begin with this, in the bytes of the store."`
	Reverse   bool    `help:"Last key first."`
	Limit     int64   `placeholder:"N" default:"100" help:"Most rows to show of a partition, 0 for all; default ${default}."`
	Stale     bool    `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	outputFlag
}

// Help is for --help.
func (c *stateScanCommand) Help() string {
	return "Stores of windows, sessions, series and ids have their rows in the order of time first: of these, a range of keys is looked for in all rows."
}

func (c *stateScanCommand) Run(p *process) (err error) {
	if c.Limit < 0 {
		return usage("--limit: %d is no number of rows", c.Limit)
	}
	s, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	here, err := s.here(p.ctx, c.Store, c.Partition)
	if err != nil {
		return err
	}
	rows := s.rows(c.Store, here.layout, c.Encoding)
	span, err := c.span(rows)
	if err != nil {
		return err
	}
	if !rows.single() { // whose rows are not in the order of the keys
		if span.From != nil || span.To != nil {
			rows.only = &state.Range{From: span.From, To: span.To}
		}
		span = state.Range{Reverse: c.Reverse}
	}
	out := bufio.NewWriter(p.out)
	for _, partition := range here.partitions {
		q := admin.ScanRequest{Store: c.Store, Partition: partition, Range: span, Limit: c.Limit, Stale: c.Stale}
		if c.Output == "json" {
			_, err = writeRows(p.ctx, out, s, q, rows)
		} else {
			err = c.writeText(p.ctx, out, s, q, rows)
		}
		if err != nil {
			return errors.Join(explainStale(err, c.Stale), out.Flush())
		}
	}
	return out.Flush()
}

// span returns the range of keys.
func (c *stateScanCommand) span(rows rowEncoder) (r state.Range, err error) {
	if c.Prefix != nil && (c.From != nil || c.To != nil) {
		return r, usage("--prefix and --from or --to are both given; give one of them")
	}
	bound := func(flag string, text *string) []byte {
		if text == nil || err != nil {
			return nil
		}
		var b []byte
		b, err = rows.key(flag, c.KeyEncoding, *text)
		return b
	}
	r = state.Range{From: bound("--from", c.From), To: bound("--to", c.To)}
	if c.Prefix != nil {
		r = state.Prefix(bound("--prefix", c.Prefix))
	}
	r.Reverse = c.Reverse
	return r, err
}

// writeText writes the rows of a partition for people: a line that says what they are of, and a
// line for each.
func (c *stateScanCommand) writeText(ctx context.Context, out io.Writer, s opened, q admin.ScanRequest, rows rowEncoder) (err error) {
	limit := q.Limit
	if limit > 0 {
		q.Limit++ // one more, to know whether there are more
	}
	q.Limit = rows.toRead(q.Limit)
	scan, err := s.Scan(ctx, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	if _, err := fmt.Fprintf(out, "# %s[%d]: %s\n", q.Store, q.Partition, atText(scan.At)); err != nil {
		return err
	}
	n := int64(0)
	for e, err := range scan.Rows() {
		if err != nil {
			return err
		}
		if !rows.shows(e) {
			continue
		}
		if n++; limit > 0 && n > limit {
			_, err := fmt.Fprintf(out, "# more rows follow; --limit shows them\n")
			return err
		}
		shown := rows.row(e.Key, e.Value)
		if _, err := fmt.Fprintf(out, "%s\t%s\n", shown.keyText(), shown.valueText()); err != nil {
			return err
		}
	}
	return nil
}

// The lines of rows as JSON: for each partition one that says what it is of, then one for each row.
// The fields are for programs and stay.
type (
	partitionLine struct {
		Type  string  `json:"type"` // partition
		Store string  `json:"store"`
		At    stateAt `json:"at"`
	}
	rowLine struct {
		Type      string `json:"type"` // row
		Partition int32  `json:"partition"`
		rowJSON
	}
)

// writeRows writes the rows of a partition as lines of JSON, and returns how many there are.
func writeRows(ctx context.Context, out io.Writer, s opened, q admin.ScanRequest, rows rowEncoder) (n int64, err error) {
	limit := q.Limit
	q.Limit = rows.toRead(limit)
	scan, err := s.Scan(ctx, q)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(partitionLine{"partition", q.Store, stateAtOf(scan.At)}); err != nil {
		return 0, err
	}
	for e, err := range scan.Rows() {
		if err != nil {
			return n, err
		}
		if !rows.shows(e) {
			continue
		}
		if err := enc.Encode(rowLine{"row", q.Partition, rows.row(e.Key, e.Value).json()}); err != nil {
			return n, err
		}
		if n++; n == limit {
			break
		}
	}
	return n, nil
}
