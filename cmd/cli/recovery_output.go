package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/onceward/onceward/txn/admin"
)

// dryRunNotice stands above the report of a dry run, which is worded like that of the command.
const dryRunNotice = "dry run: nothing was changed; without --dry-run the command would report:"

// writeReport writes for people what was done.
func writeReport(out io.Writer, r admin.Report) error {
	var text strings.Builder
	if r.DryRun {
		text.WriteString(dryRunNotice + "\n")
	}
	for _, id := range r.Fenced {
		fmt.Fprintf(&text, "transactional id %s: initialised, which ends what it has open\n", id)
	}
	for _, in := range r.NotRead {
		fmt.Fprintf(&text, "input %s: no task reads its last %d partitions, because it has grown since the changelogs were made: "+
			"their records are left out\n", in.Topic, in.Partitions)
	}
	for _, t := range r.Tasks {
		if !t.Changed {
			fmt.Fprintf(&text, "task %s: left as it is: %s\n", t.Task, t.Reason)
			continue
		}
		fmt.Fprintf(&text, "task %s: %s: %s\n", t.Task, r.Action, t.Reason)
		for _, in := range t.Inputs {
			fmt.Fprintf(&text, "  offset of %s[%d]: %s, was %s\n", in.Topic, in.Partition, offsetText(in.After), offsetText(in.Before))
			if in.Dropped > 0 {
				fmt.Fprintf(&text, "  dropped of %s[%d]: %d delayed records, which no input gives again\n", in.Topic, in.Partition, in.Dropped)
			}
		}
		for _, c := range t.Changelogs {
			fmt.Fprintf(&text, "  store %s: %s[%d] up to %d", c.Store, c.Topic, c.Partition, c.Position)
			if c.Tombstones > 0 {
				fmt.Fprintf(&text, ", emptied by %d tombstones", c.Tombstones)
			}
			text.WriteString("\n")
		}
		if t.Mode != "" {
			from := "as --mode says"
			if t.ModeAssumed {
				from = "as the other tasks of the application"
			}
			fmt.Fprintf(&text, "  mode: %s, %s; no commit of the task said it\n", t.Mode, from)
		}
		for _, p := range t.GivenUp {
			records := "an unknown number of"
			if p.Records >= 0 {
				records = strconv.FormatInt(p.Records, 10)
			}
			fmt.Fprintf(&text, "  given up in store %s: %s parked records, which are not processed any more\n", p.Store, records)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func offsetText(at int64) string {
	if at < 0 {
		return "none"
	}
	return strconv.FormatInt(at, 10)
}
