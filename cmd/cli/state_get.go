package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// stateGetCommand shows the value of a key. A store's key need not be the key of the records that it was made of, nor need these have been
// partitioned by Kafka's own hash: all partitions that are here are asked, which is one look each.
type stateGetCommand struct {
	Store string `arg:"" placeholder:"STORE" help:"The store."`
	Key   string `arg:"" placeholder:"KEY" help:"The key."`
	stateDirectory
	encodingFlags
	Partition *int32 `placeholder:"N" help:"Partition to look in; default is every one that the instance has."`
	Stale     bool   `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	outputFlag
}

// Help is for --help.
func (c *stateGetCommand) Help() string {
	return "All rows of the key are shown. Of a key-value store that is one, found at once. A store of windows, sessions or ids has its rows in " +
		"the order of time, and is read from one end to the other."
}

// stateGetResult is the JSON form. Its fields are for programs and stay.
type stateGetResult struct {
	Store string `json:"store"`
	rowJSON
	Found bool `json:"found"`
	// Answers has one for each partition that was asked.
	Answers []stateGetAnswer `json:"answers"`
}

type stateGetAnswer struct {
	At    stateAt `json:"at"`
	Found bool    `json:"found"`
	rowJSON
	// Rows are those of the key in a store that can have several; the fields of the one row are left out then.
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
	rows := s.rows(c.Store, here.layout, c.Encoding)
	key, err := rows.key("KEY", c.KeyEncoding, c.Key)
	if err != nil {
		return err
	}
	result := stateGetResult{Store: c.Store, rowJSON: keyJSON(rows.keyPart(key))}
	var text strings.Builder
	get := c.rowsOf
	if rows.single() {
		get = c.rowOf
	}
	for _, partition := range here.partitions {
		answer, err := get(p.ctx, s, partition, key, rows, &text)
		if err != nil {
			return explainStale(err, c.Stale)
		}
		result.Found = result.Found || answer.Found
		result.Answers = append(result.Answers, answer)
	}
	if c.Output == "json" {
		err = writeJSON(p.out, result)
	} else {
		_, err = io.WriteString(p.out, text.String())
	}
	if err == nil && !result.Found {
		err = c.absent(key, here.partitions, here.of)
	}
	return err
}

// rowOf looks up the one row that a key can have, and writes it for people too.
func (c *stateGetCommand) rowOf(
	ctx context.Context, s opened, partition int32, key []byte, rows rowEncoder, text *strings.Builder,
) (stateGetAnswer, error) {
	row, err := s.Get(ctx, c.Store, partition, key, c.Stale)
	if err != nil {
		return stateGetAnswer{}, err
	}
	answer := stateGetAnswer{At: stateAtOf(row.At), Found: row.Found}
	if row.Found {
		shown := rows.row(key, row.Value)
		answer.rowJSON = shown.valueJSON()
		fmt.Fprintf(text, "%s\n# %s[%d]: %s\n", shown.valueText(), c.Store, partition, atText(row.At))
	}
	return answer, nil
}

// rowsOf looks for all rows that a key has, in one view.
func (c *stateGetCommand) rowsOf(
	ctx context.Context, s opened, partition int32, key []byte, rows rowEncoder, text *strings.Builder,
) (_ stateGetAnswer, err error) {
	q := admin.ScanRequest{Store: c.Store, Partition: partition, Stale: c.Stale}
	if rows.layout.Kind == state.VersionedKind {
		q.Range = state.Prefix(key)
	}
	// The key and nothing else: what follows it directly is the key with a zero byte.
	rows.only = &state.Range{From: key, To: append(append([]byte{}, key...), 0)}
	scan, err := s.Scan(ctx, q)
	if err != nil {
		return stateGetAnswer{}, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	answer := stateGetAnswer{At: stateAtOf(scan.At)}
	for e, err := range scan.Rows() {
		if err != nil {
			return stateGetAnswer{}, err
		}
		if !rows.shows(e) {
			continue
		}
		shown := rows.row(e.Key, e.Value)
		answer.Rows = append(answer.Rows, shown.json())
		fmt.Fprintf(text, "%s\t%s\n", shown.keyText(), shown.valueText())
	}
	if answer.Found = len(answer.Rows) > 0; answer.Found {
		fmt.Fprintf(text, "# %s[%d]: %s\n", c.Store, partition, atText(scan.At))
	}
	return answer, nil
}

// absent says where the key is not, and where else it could be.
func (c *stateGetCommand) absent(key []byte, partitions []int32, of int32) error {
	elsewhere := ""
	if of > int32(len(partitions)) {
		elsewhere = fmt.Sprintf("; of %d partitions, Kafka's partitioner gives records with this key to %d", of, topology.PartitionOf(key, of))
	}
	return fmt.Errorf("store %s has no such key in partition %s%s", c.Store, numbers(partitions), elsewhere)
}
