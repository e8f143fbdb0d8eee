package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// stateGetCommand shows the value of a key. A store's key may differ from the key of the records,
// and records may be partitioned by another hash than Kafka's. So the command reads all local
// partitions, with one lookup each.
type stateGetCommand struct {
	Store string `arg:"" placeholder:"STORE" help:"The store."`
	Key   string `arg:"" placeholder:"KEY" help:"The key."`
	stateDirectory
	encodingFlags
	asOfFlag
	Partition *int32 `placeholder:"N" help:"Partition to look in; default is every one that the instance has."`
	Stale     bool   `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	outputFlag
}

// Help is for --help.
func (c *stateGetCommand) Help() string {
	return "All rows of the key are shown. Of a key-value store that is one, found at once. A store of windows, sessions, series or ids has its rows in " +
		"the order of time, and is read from one end to the other. A versioned store has all versions of the key; with --as-of only the one of that time is shown."
}

// stateGetResult is the JSON form. Its fields are for programs and stay.
type stateGetResult struct {
	Store string `json:"store"`
	rowJSON
	// AsOf is the time of --as-of, in milliseconds since the epoch.
	AsOf  *int64 `json:"as_of,omitempty"`
	Found bool   `json:"found"`
	// Answers has one for each partition that was asked.
	Answers []stateGetAnswer `json:"answers"`
}

type stateGetAnswer struct {
	At    stateAt `json:"at"`
	Found bool    `json:"found"`
	rowJSON
	// Rows are those of the key in a store that can have several; the fields of the one row are
	// left out then.
	Rows []rowJSON `json:"rows,omitempty"`
}

func (c *stateGetCommand) Run(p *process) (err error) {
	s, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	here, err := s.here(p.ctx, c.Store, c.Partition)
	if err != nil {
		return err
	}
	at, err := c.moment(c.Store, here.layout)
	if err != nil {
		return err
	}
	rows := s.rows(c.Store, here.layout, c.Encoding)
	key, err := rows.key("KEY", c.KeyEncoding, c.Key)
	if err != nil {
		return err
	}
	result := stateGetResult{Store: c.Store, rowJSON: keyJSON(rows.keyPart(key))}
	if at != nil {
		ms := at.UnixMilli()
		result.AsOf = &ms
	}
	var text strings.Builder
	var before []int32
	for _, partition := range here.partitions {
		found, err := s.lookUp(p.ctx, c.Store, partition, key, rows, at, c.Stale)
		if err != nil {
			return explainStale(err, c.Stale)
		}
		for _, line := range found.lines() {
			fmt.Fprintln(&text, line)
		}
		if len(found.rows) > 0 {
			fmt.Fprintf(&text, "# %s[%d]: %s\n", c.Store, partition, atText(found.at))
			result.Found = true
		}
		if found.beforeHistory {
			before = append(before, partition)
		}
		result.Answers = append(result.Answers, found.answer())
	}
	if c.Output == "json" {
		err = writeJSON(p.out, result)
	} else {
		_, err = io.WriteString(p.out, text.String())
	}
	switch {
	case err != nil || result.Found:
	case at != nil:
		err = absentAt(c.Store, *at, here.partitions, before)
	default:
		err = c.absent(key, here.partitions, here.of)
	}
	return err
}

// lookedUp is what a partition of a store has under a key.
type lookedUp struct {
	at   admin.At
	rows []shownRow
	// single says that there cannot be more than one.
	single bool
	// beforeHistory says that the chosen time is before the history.
	beforeHistory bool
}

// answer is the JSON form.
func (f lookedUp) answer() stateGetAnswer {
	answer := stateGetAnswer{At: stateAtOf(f.at), Found: len(f.rows) > 0}
	for _, row := range f.rows {
		if f.single {
			answer.rowJSON = row.valueJSON()
		} else {
			answer.Rows = append(answer.Rows, row.json())
		}
	}
	return answer
}

// lines is the form for people, one for each row.
func (f lookedUp) lines() (lines []string) {
	for _, row := range f.rows {
		if f.single {
			lines = append(lines, row.valueText())
		} else {
			lines = append(lines, row.keyText()+"\t"+row.valueText())
		}
	}
	return lines
}

// lookUp finds the one row that a key can have, or all rows of the key in one view. With a time at
// it finds the version of that time.
func (o opened) lookUp(
	ctx context.Context, store string, partition int32, key []byte, rows rowEncoder, at *time.Time, stale bool,
) (found lookedUp, err error) {
	if found.single = rows.single(); found.single {
		row, err := o.Get(ctx, store, partition, key, stale)
		if err == nil && row.Found {
			found.rows = []shownRow{rows.row(key, row.Value)}
		}
		found.at = row.At
		return found, err
	}
	q := admin.ScanRequest{Store: store, Partition: partition, Stale: stale}
	if rows.layout.Kind == state.VersionedKind {
		q.Range = state.Prefix(key)
	}
	// The key and nothing else: what follows it directly is the key with a zero byte.
	rows.only = &state.Range{From: key, To: append(append([]byte{}, key...), 0)}
	scan, err := o.Scan(ctx, q)
	if err != nil {
		return lookedUp{}, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	found.at = scan.At
	var entries []state.Entry
	for e, err := range scan.Rows() {
		if err != nil {
			return lookedUp{}, err
		}
		if rows.shows(e) {
			entries = append(entries, state.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
		}
	}
	if at != nil {
		lookup := asOfIn(store, rows.layout, *at, scan.At)
		entries, found.beforeHistory = lookup.find(entries), lookup.beforeHistory()
	}
	for _, e := range entries {
		found.rows = append(found.rows, rows.row(e.Key, e.Value))
	}
	return found, nil
}

// absent says where the key is not, and where else it could be.
func (c *stateGetCommand) absent(key []byte, partitions []int32, of int32) error {
	elsewhere := ""
	if of > int32(len(partitions)) {
		elsewhere = fmt.Sprintf("; of %d partitions, Kafka's partitioner gives records with this key to %d", of, graph.PartitionOf(key, of))
	}
	return fmt.Errorf("store %s has no such key in partition %s%s", c.Store, numbers(partitions), elsewhere)
}
