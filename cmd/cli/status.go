package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/txn"
)

// statusCommand asks the instance that runs on a state directory.
type statusCommand struct {
	instance
	outputFlag
}

func (c *statusCommand) Run(p *process) error {
	var s txn.Status
	err := c.ask(p, func(ctx context.Context) (err error) {
		s, err = txn.InstanceStatus(ctx, c.StateDir)
		return err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(p.out, statusOf(s))
	}
	return writeStatus(p.out, s)
}

// instanceStatus is the JSON form of a status. Its fields are for programs and stay.
type instanceStatus struct {
	Application string    `json:"application"`
	Instance    string    `json:"instance"`
	State       txn.State `json:"state"`
	// Reason says what it waits for while it is joining, and why it is reconnecting.
	Reason string       `json:"reason,omitempty"`
	Totals txn.Totals   `json:"totals"`
	Tasks  []taskStatus `json:"tasks"`
	// Standbys are left out where there are none, and so are GlobalTables.
	Standbys     []standbyStatus         `json:"standbys,omitempty"`
	GlobalTables []txn.GlobalTableStatus `json:"global_tables,omitempty"`
	// PeersAddress is where other instances dial this one, empty without peers. Peers are those
	// that it watches.
	PeersAddress string           `json:"peers_address"`
	Peers        []txn.PeerStatus `json:"peers"`
	// Alerts are what is wrong with topics of the application.
	Alerts []txn.Alert `json:"alerts"`
	// Hanging are transactions of the application that nothing ends.
	Hanging []txn.HangingStatus `json:"hanging"`
	// NotLookedAt says where hanging transactions are not found.
	NotLookedAt string `json:"not_looked_at,omitempty"`
}

// standbyStatus is the copy of a task of another instance.
type standbyStatus struct {
	Task        string           `json:"task"`
	Subtopology string           `json:"subtopology"`
	Partition   int32            `json:"partition"`
	State       txn.StandbyState `json:"state"`
	Reason      string           `json:"reason,omitempty"`
	// Since is when a copy began to fail.
	Since  time.Time         `json:"since,omitzero"`
	Inputs []txn.InputStatus `json:"inputs"`
	// Restored to Remaining are records and bytes read of changelogs, and offsets left.
	Restored      int64 `json:"restored"`
	RestoredBytes int64 `json:"restored_bytes"`
	Remaining     int64 `json:"remaining"`
}

type taskStatus struct {
	Task        string            `json:"task"`
	Subtopology string            `json:"subtopology"`
	Partition   int32             `json:"partition"`
	State       txn.TaskState     `json:"state"`
	Reason      string            `json:"reason,omitempty"`
	Inputs      []txn.InputStatus `json:"inputs"`
	Restored    int64             `json:"restored"`
	// RestoredBytes to RestoreLeft belong to the restore: bytes read, offsets left, offsets a
	// second, and seconds left.
	RestoredBytes int64   `json:"restored_bytes"`
	Remaining     int64   `json:"remaining"`
	RestoreRate   float64 `json:"restore_rate"`
	RestoreLeft   float64 `json:"restore_left_seconds"`
	Records       int64   `json:"records"`
	DeadLetters   int64   `json:"dead_letters"`
	// Waits are the open transactions that the task waits for.
	Waits []txn.WaitStatus `json:"waits"`
	// Parked are the sources of which records wait behind a failed one.
	Parked []txn.ParkedStatus `json:"parked"`
	// Retry is the record that is tried again.
	Retry    *txn.RetryStatus `json:"retry,omitempty"`
	Outcomes map[string]int64 `json:"outcomes"`
}

func statusOf(s txn.Status) instanceStatus {
	out := instanceStatus{
		Application: s.Application, Instance: s.Instance, State: s.State, Reason: s.Reason, Totals: s.Totals, Tasks: []taskStatus{},
		PeersAddress: s.PeersAddress, Peers: s.Peers, GlobalTables: s.GlobalTables, Alerts: s.Alerts, Hanging: s.Hanging, NotLookedAt: s.NotLookedAt,
	}
	if out.Alerts == nil {
		out.Alerts = []txn.Alert{}
	}
	if out.Hanging == nil {
		out.Hanging = []txn.HangingStatus{}
	}
	if out.Peers == nil {
		out.Peers = []txn.PeerStatus{}
	}
	for _, t := range s.Tasks {
		task := taskStatus{
			Task: t.ID.String(), Subtopology: t.ID.Subtopology, Partition: t.ID.Partition, State: t.State,
			Reason: t.Reason, Inputs: t.Inputs, Restored: t.Restored, RestoredBytes: t.RestoredBytes,
			Remaining: t.Remaining, RestoreRate: t.RestoreRate, RestoreLeft: t.RestoreLeft.Seconds(), Records: t.Records,
			DeadLetters: t.DeadLetters, Waits: t.Waits, Parked: t.Parked, Outcomes: t.Outcomes,
		}
		// Empty and not null, so that programs need no special case.
		if task.Inputs == nil {
			task.Inputs = []txn.InputStatus{}
		}
		if task.Waits == nil {
			task.Waits = []txn.WaitStatus{}
		}
		if task.Parked == nil {
			task.Parked = []txn.ParkedStatus{}
		}
		if task.Outcomes == nil {
			task.Outcomes = map[string]int64{}
		}
		out.Tasks = append(out.Tasks, task)
	}
	for _, c := range s.Standbys {
		copied := standbyStatus{
			Task: c.ID.String(), Subtopology: c.ID.Subtopology, Partition: c.ID.Partition, State: c.State, Reason: c.Reason, Since: c.Since,
			Inputs: c.Inputs, Restored: c.Restored, RestoredBytes: c.RestoredBytes, Remaining: c.Remaining,
		}
		if copied.Inputs == nil {
			copied.Inputs = []txn.InputStatus{}
		}
		out.Standbys = append(out.Standbys, copied)
	}
	return out
}

// writeStatus writes the status for people.
func writeStatus(out io.Writer, s txn.Status) error {
	var text strings.Builder
	t := s.Totals
	state := string(s.State)
	if s.Reason != "" {
		state += ": " + s.Reason
	}
	fmt.Fprintf(&text, "application\t%s\ninstance\t%s\nstate\t%s\n", s.Application, s.Instance, state)
	fmt.Fprintf(&text, "records\t%d\noutputs\t%d\ndead letters\t%d\n", t.Records, t.Outputs, t.DeadLetters)
	fmt.Fprintf(&text, "commits\t%d\naborts\t%d\nretries\t%d\n", t.Commits, t.Aborts, t.Retries)
	if s.PeersAddress != "" {
		fmt.Fprintf(&text, "peers\tconnect at %s\n", s.PeersAddress)
	} else if s.State == txn.Joining || s.State == txn.Running {
		text.WriteString("peers\toff\n")
	}
	if len(s.Tasks) > 0 {
		// The empty line makes the columns of the table independent of those above.
		text.WriteString("\nTASK\tSTATE\tRECORDS\tDEAD LETTERS\tCOMMITTED\tREASON\n")
	}
	for _, task := range s.Tasks {
		fmt.Fprintf(&text, "%s\t%s\t%d\t%d\t%s\t%s\n", task.ID, stateOf(task), task.Records, task.DeadLetters,
			positions(task.Inputs), reasonOf(task))
	}
	if len(s.Standbys) > 0 {
		text.WriteString("\nSTANDBY\tSTATE\tRESTORED\tLEFT\tAT\tREASON\n")
	}
	for _, c := range s.Standbys {
		fmt.Fprintf(&text, "%s\t%s\t%d\t%d\t%s\t%s\n", c.ID, c.State, c.Restored, c.Remaining, positions(c.Inputs), oneLine(c.Reason))
	}
	if len(s.GlobalTables) > 0 {
		text.WriteString("\nGLOBAL TABLE\tSTATE\tRECORDS\tLEFT\tTOPIC\n")
	}
	for _, g := range s.GlobalTables {
		fmt.Fprintf(&text, "%s\t%s\t%d\t%d\t%s\n", g.Store, g.State, g.Records, max(g.Remaining, g.Lag), g.Topic)
	}
	writeWaits(&text, s.Tasks)
	if len(s.Alerts) > 0 {
		text.WriteString("\nTOPIC\tPROBLEM\tALERT\n")
	}
	for _, a := range s.Alerts {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", a.Topic, a.Problem, a.Text)
	}
	if len(s.Hanging) > 0 {
		text.WriteString("\nHANGING TRANSACTION\tTRANSACTIONAL ID\tVERDICT\tPARTITIONS\n")
	}
	for _, h := range s.Hanging {
		fmt.Fprintf(&text, "%d/%d\t%s\t%s\t%s\n", h.ProducerID, h.Epoch, h.TransactionalID, h.Verdict, strings.Join(h.Partitions, " "))
	}
	if s.NotLookedAt != "" {
		fmt.Fprintf(&text, "\nhanging transactions are not found in: %s\n", oneLine(s.NotLookedAt))
	}
	if len(s.Peers) > 0 {
		text.WriteString("\nPEER\tADDRESS\tSTATE\n")
	}
	for _, p := range s.Peers {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", p.Instance, p.Address, peerState(p))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}

// writeWaits writes for which open transactions tasks have waited long enough to know whose they
// are.
func writeWaits(text *strings.Builder, tasks []txn.TaskStatus) {
	heading := "\nTASK\tWAITS FOR\tPARTITION\tSINCE\tHELD BY\n"
	for _, task := range tasks {
		for _, w := range task.Waits {
			if w.HeldBy == "" {
				continue
			}
			text.WriteString(heading)
			heading = ""
			fmt.Fprintf(text, "%s\t%s\t%s[%d]\t%s\t%s\n", task.ID, w.For, w.Topic, w.Partition, w.Since.UTC().Format(time.RFC3339), w.HeldBy)
		}
	}
}

// peerState says whether a peer is connected, and else why not and how far its suspicion is.
func peerState(p txn.PeerStatus) string {
	text := "connected"
	if !p.Connected {
		text = "not connected"
		if p.Why != "" {
			text += ": " + p.Why
		}
	}
	if p.Suspicion != "" {
		text += "; suspected: " + p.Suspicion
	}
	if p.FencedInVain > 0 {
		text += fmt.Sprintf("; fenced in vain %d times", p.FencedInVain)
	}
	return text
}

func stateOf(task txn.TaskStatus) string {
	if task.State == txn.TaskRestoring {
		return fmt.Sprintf("%s (%d records read, %d left%s)", task.State, task.Restored, task.Remaining, pace(task))
	}
	var notes []string
	if task.Retry != nil {
		notes = append(notes, fmt.Sprintf("tries %s again, %d times so far", task.Retry.Record, task.Retry.Attempts))
	}
	parked, late := int64(0), int64(0)
	for _, p := range task.Parked {
		parked += p.Records
	}
	for outcome, n := range task.Outcomes {
		if strings.HasSuffix(outcome, "/late") {
			late += n
		}
	}
	if parked > 0 {
		notes = append(notes, fmt.Sprintf("%d records parked", parked))
	}
	if late > 0 {
		notes = append(notes, fmt.Sprintf("%d times too late", late))
	}
	if len(notes) == 0 {
		return string(task.State)
	}
	return fmt.Sprintf("%s (%s)", task.State, strings.Join(notes, "; "))
}

// reasonOf says why a task is stopped, or what the record has failed with that it tries again.
func reasonOf(task txn.TaskStatus) string {
	if task.Reason == "" && task.Retry != nil {
		return task.Retry.Failure
	}
	return task.Reason
}

// pace says how fast a restore is, once that is known.
func pace(task txn.TaskStatus) string {
	if task.RestoreRate <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f/s, %s to go", task.RestoreRate, task.RestoreLeft.Round(time.Second))
}

func positions(inputs []txn.InputStatus) string {
	texts := make([]string, len(inputs))
	for i, in := range inputs {
		texts[i] = fmt.Sprintf("%s[%d]@%d", in.Topic, in.Partition, in.Offset)
		if in.Lag != nil {
			texts[i] += fmt.Sprintf(" (lag %d)", *in.Lag)
		}
	}
	return strings.Join(texts, " ")
}
