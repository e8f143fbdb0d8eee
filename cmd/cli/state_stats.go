package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/txn/admin"
)

// stateStatsCommand shows the size and the positions of every store.
type stateStatsCommand struct {
	stateDirectory
	Count bool `help:"Count the keys; by default they are estimated where there are many."`
	clusterFlags
	outputFlag
}

func (c *stateStatsCommand) Run(p *process) (err error) {
	s, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	detail := admin.Estimates
	if c.Count {
		detail = admin.Counts
	}
	tasks, err := s.Tasks(p.ctx, detail)
	if err != nil {
		return err
	}
	if !s.Running() { // one that runs has asked the cluster itself
		client, err := c.connect(p.ctx, nil)
		if err != nil {
			return err
		}
		if client != nil {
			defer client.Close()
			if err := client.FillEnds(p.ctx, tasks); err != nil {
				return err
			}
		}
	}
	if c.Output == "json" {
		return writeJSON(p.out, stateStatsOf(s, tasks))
	}
	return writeStateStats(p.out, s, tasks)
}

// stateStats is the JSON form. Its fields are for programs and stay.
type stateStats struct {
	Application string           `json:"application"`
	Instance    string           `json:"instance"`
	Format      string           `json:"format"`
	Running     bool             `json:"running"`
	Tasks       []stateStatsTask `json:"tasks"`
}

type stateStatsTask struct {
	stateAt
	DirectoryBytes int64             `json:"directory_bytes"`
	Stores         []stateStatsStore `json:"stores"`
}

type stateStatsStore struct {
	Store string `json:"store"`
	// Keys are estimated unless they are counted, Bytes are those of tables on the disk, or in
	// memory with InMemory.
	Keys     int64 `json:"keys"`
	Counted  bool  `json:"counted"`
	Bytes    int64 `json:"bytes"`
	InMemory bool  `json:"in_memory,omitempty"`
	// Changelog is empty for a store that is lost on restart.
	Changelog string `json:"changelog"`
	Applied   int64  `json:"applied"`
	// Lag is in offsets of the changelog; null if it is not known.
	Lag *int64 `json:"lag"`
}

func stateStatsOf(s opened, tasks []admin.TaskState) stateStats {
	id := s.Identity()
	out := stateStats{
		Application: id.Application, Instance: id.Instance, Format: id.Format, Running: s.Running(), Tasks: []stateStatsTask{},
	}
	for _, t := range tasks {
		task := stateStatsTask{stateAt: stateAtOf(t.At), DirectoryBytes: t.DirectoryBytes, Stores: []stateStatsStore{}}
		for _, st := range t.Stores {
			at, _ := t.Positions.Changelog(st.Name)
			store := stateStatsStore{
				Store: st.Name, Keys: st.Keys, Counted: st.Counted, Bytes: st.DiskBytes, InMemory: st.InMemory, Changelog: st.Changelog,
				Applied: at.Applied,
			}
			if lag, ok := st.Lag(t.Positions); ok {
				store.Lag = &lag
			}
			task.Stores = append(task.Stores, store)
		}
		out.Tasks = append(out.Tasks, task)
	}
	return out
}

// writeStateStats writes the figures for people.
func writeStateStats(out io.Writer, s opened, tasks []admin.TaskState) error {
	var text strings.Builder
	id, running := s.Identity(), "no"
	if s.Running() {
		running = "yes"
	}
	fmt.Fprintf(&text, "application\t%s\ninstance\t%s\nrunning\t%s\nformat\t%s\n", id.Application, id.Instance, running, id.Format)
	if len(tasks) > 0 {
		text.WriteString("\nTASK\tON DISK\tROUND\tEPOCH\tINPUTS\tSTALE\n")
	}
	for _, t := range tasks {
		at := stateAtOf(t.At)
		inputs := make([]string, len(at.Inputs))
		for i, in := range at.Inputs {
			inputs[i] = fmt.Sprintf("%s[%d]@%d", in.Topic, in.Partition, in.Offset)
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Task, bytesText(t.DirectoryBytes), orNone(at.Round), orNone(at.Epoch),
			strings.Join(inputs, " "), at.Stale)
	}
	if len(tasks) > 0 {
		text.WriteString("\nTASK\tSTORE\tKEYS\tBYTES\tCHANGELOG\tAPPLIED\tLAG\n")
	}
	for _, t := range stateStatsOf(s, tasks).Tasks {
		for _, st := range t.Stores {
			keys, lag := strconv.FormatInt(st.Keys, 10), "unknown"
			if !st.Counted {
				keys = "about " + keys
			}
			if st.Lag != nil {
				lag = strconv.FormatInt(*st.Lag, 10)
			}
			bytes := bytesText(st.Bytes)
			if st.InMemory {
				bytes += " in memory"
			}
			changelog := st.Changelog
			if changelog == "" {
				changelog, lag = "none, lost on restart", "none"
			}
			fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", t.Task, st.Store, keys, bytes, changelog, st.Applied, lag)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
