package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onceward/onceward/topology"
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
}

func (c *stateGetCommand) Run(p *process) (err error) {
	s, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	partitions, of, err := s.here(p.ctx, c.Store, c.Partition)
	if err != nil {
		return err
	}
	rows := s.rows(c.Store, c.Encoding)
	key, err := rows.key("KEY", c.KeyEncoding, c.Key)
	if err != nil {
		return err
	}
	result := stateGetResult{Store: c.Store, rowJSON: rowOf(rows.keyPart(key), part{})}
	var text strings.Builder
	for _, partition := range partitions {
		row, err := s.Get(p.ctx, c.Store, partition, key, c.Stale)
		if err != nil {
			return explainStale(err, c.Stale)
		}
		answer := stateGetAnswer{At: stateAtOf(row.At), Found: row.Found}
		if row.Found {
			value := rows.valuePart(row.Value)
			answer.rowJSON, result.Found = rowOf(part{}, value), true
			fmt.Fprintf(&text, "%s\n# %s[%d]: %s\n", value, c.Store, partition, atText(row.At))
		}
		result.Answers = append(result.Answers, answer)
	}
	if c.Output == "json" {
		err = writeJSON(p.out, result)
	} else {
		_, err = io.WriteString(p.out, text.String())
	}
	if err == nil && !result.Found {
		err = c.absent(key, partitions, of)
	}
	return err
}

// absent says where the key is not, and where else it could be.
func (c *stateGetCommand) absent(key []byte, partitions []int32, of int32) error {
	elsewhere := ""
	if of > int32(len(partitions)) {
		elsewhere = fmt.Sprintf("; of %d partitions, Kafka's partitioner gives records with this key to %d", of, topology.PartitionOf(key, of))
	}
	return fmt.Errorf("store %s has no such key in partition %s%s", c.Store, numbers(partitions), elsewhere)
}
