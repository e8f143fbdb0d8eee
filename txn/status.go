package txn

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/waits"
)

// ErrIntegrity says that state, offsets and log contradict each other, or that records were deleted
// before they were processed. Nothing was applied that contradicts the log.
var ErrIntegrity = session.ErrIntegrity

// ErrStopped says that some tasks of the instance had stopped before its end. The reason of one is
// wrapped with it.
var ErrStopped = session.ErrStopped

// ErrAllStopped says that the instance has tasks and none of them can work any more: the last one
// stopped, or the last working one has moved to another instance. The reason of one is wrapped with
// it.
var ErrAllStopped = session.ErrAllStopped

// State is what an App is doing.
type State string

// The states of an App.
const (
	Created State = "created"
	// Starting: reaching the cluster, verifying topics, ending transactions of a previous
	// incarnation, reading global tables to their ends.
	Starting State = "starting"
	// Joining: waiting for the group to take the instance in. Reason says what the group waits for.
	Joining State = "joining"
	// Running: a member of the group, with the tasks that the group gives it.
	Running State = "running"
	// Reconnecting: a membership has ended and the next one is begun, as when brokers were away or
	// a task is resumed. Reason says why.
	Reconnecting State = "reconnecting"
	// Stopping: committing what is open.
	Stopping State = "stopping"
	Stopped  State = "stopped"
)

// TaskState is what a task is doing.
type TaskState string

// The states of a task.
const (
	// TaskRestoring: its database is being brought to the last commit.
	TaskRestoring TaskState = "restoring"
	TaskRunning   TaskState = "running"
	// TaskStopped: it does no work, keeps its offsets, and Reason says why.
	TaskStopped TaskState = "stopped"
)

// Status is a picture of the process. Its counts of records, outputs and outcomes are committed.
type Status struct {
	Application string `json:"application"`
	Instance    string `json:"instance"`
	State       State  `json:"state"`
	// Reason is set while the state is Joining or Reconnecting.
	Reason string `json:"reason,omitempty"`
	// HTTP is where the endpoint of Config.HTTP listens, with the port that was taken; empty
	// without one.
	HTTP  string       `json:"http,omitempty"`
	Tasks []TaskStatus `json:"tasks"`
	// Standbys are the copies of tasks of other instances ([Config].Standbys).
	Standbys []StandbyStatus `json:"standbys,omitempty"`
	// GlobalTables are the tables that every process has as a whole.
	GlobalTables []GlobalTableStatus `json:"global_tables,omitempty"`
	Totals       Totals              `json:"totals"`
	// Alerts are what is wrong with topics of the application, within a minute after it has begun.
	Alerts []Alert `json:"alerts,omitempty"`
	// Hanging are the hanging transactions of the application, as of the last look.
	Hanging []HangingStatus `json:"hanging,omitempty"`
	// NotLookedAt says which topics or partitions may hold hanging transactions that are not found:
	// they have not answered yet, or may not be read. It is empty if all were looked at.
	NotLookedAt string `json:"not_looked_at,omitempty"`
	// PeersAddress is where other instances dial this one ([Config].Peers); empty without peers.
	PeersAddress string `json:"peers_address,omitempty"`
	// Peers are the other instances that this one watches.
	Peers []PeerStatus `json:"peers,omitempty"`
}

// TaskStatus is one task of the process.
type TaskStatus struct {
	ID    graph.TaskID `json:"id"`
	State TaskState    `json:"state"`
	// Reason is set for a stopped task.
	Reason string `json:"reason,omitempty"`
	// Inputs are the committed positions.
	Inputs []InputStatus `json:"inputs,omitempty"`
	// Restored and RestoredBytes are changelog records that a restore has read, and the bytes of
	// their keys and values. Remaining is how many offsets are left: compaction and aborted
	// transactions may have emptied some.
	Restored      int64 `json:"restored,omitempty"`
	RestoredBytes int64 `json:"restored_bytes,omitempty"`
	Remaining     int64 `json:"remaining,omitempty"`
	// RestoreRate is how many offsets a second the restore has read lately, RestoreLeft how long
	// the rest takes at that rate. Both are zero for a task that does not restore, and while the
	// rate is unknown: the restore waits for memory or for an open transaction.
	RestoreRate float64       `json:"restore_rate,omitempty"`
	RestoreLeft time.Duration `json:"restore_left_ns,omitempty"`
	// Waits are the open transactions that the task waits for.
	Waits []WaitStatus `json:"waits,omitempty"`
	// Records and DeadLetters count since the task was opened.
	Records     int64 `json:"records"`
	DeadLetters int64 `json:"dead_letters"`
	// Retry is the record that the task tries again, nil if there is none.
	Retry *RetryStatus `json:"retry,omitempty"`
	// Parked are the sources of which records wait behind a failed one, by the last commit.
	Parked []ParkedStatus `json:"parked,omitempty"`
	// Outcomes are what the nodes counted since the task was opened, as "node/outcome".
	Outcomes map[string]int64 `json:"outcomes,omitempty"`
}

// ParkedStatus says how much of a source is parked, see [topology.ParkKeys].
type ParkedStatus struct {
	Topic string `json:"topic"`
	// Keys is how many keys are parked, Records how many records wait, those that have failed
	// included.
	Keys    int64 `json:"keys"`
	Records int64 `json:"records"`
}

// HangingStatus is a transaction of the application that partitions hold open and its coordinator
// does not know as ongoing. Readers of committed records stop in front of it. The instance does not
// produce under its id.
type HangingStatus struct {
	ProducerID int64 `json:"producer_id"`
	Epoch      int16 `json:"epoch"`
	// TransactionalID is empty if no coordinator names one for the producer id any more.
	TransactionalID string `json:"transactional_id,omitempty"`
	// Partitions hold it open, each as topic[partition].
	Partitions []string `json:"partitions"`
	// Verdict is how it ended, commit or abort, or unknown. It is empty if coordinators have not
	// said it and logs were not read for it: `onceward transactions show` does that. No other
	// process knows what a coordinator said before this one initialised the transactional id.
	Verdict string `json:"verdict,omitempty"`
	// Reasons are the evidence, a sentence each.
	Reasons []string `json:"reasons,omitempty"`
}

// WaitStatus is a partition that a task cannot read, or whose offsets it cannot read, before a
// transaction has ended.
type WaitStatus struct {
	// For is what waits: the committed "offsets" of the task, a "changelog" that is restored, or an
	// "input".
	For string `json:"for"`
	// Topic and Partition hold the transaction. The partition of offsets is -1 until it is known.
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Since     time.Time `json:"since"`
	// HeldBy names the producers whose transactions are open, and what their coordinators say of
	// them. It is empty before the wait has become long enough to ask.
	HeldBy string `json:"held_by,omitempty"`
	// Hanging says that one of them is known not to be ongoing: it does not end by itself.
	// `onceward transactions list` shows it.
	Hanging bool `json:"hanging,omitempty"`
}

func (w WaitStatus) String() string {
	text := fmt.Sprintf("waits since %s for the end of a transaction on %s[%d] (%s)", w.Since.UTC().Format(time.RFC3339), w.Topic, w.Partition,
		w.For)
	if w.HeldBy != "" {
		text += ", which is held by " + w.HeldBy
	}
	if w.Hanging {
		text += "; see `" + waits.Remedy + "`"
	}
	return text
}

// RetryStatus is a record that has failed and that is tried again, as its policy says. The records
// behind it wait.
type RetryStatus struct {
	// Record names the record, or the schedule, as the log does.
	Record string `json:"record"`
	// Attempts is how often it was tried, Since when it failed first, and Next when it is tried
	// again.
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	Next     time.Time `json:"next"`
	// Failure is the last failure, without what the record holds.
	Failure string `json:"failure"`
}

// InputStatus is the committed position in one input partition.
type InputStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Lag is how many offsets there are from the committed position to the high watermark, as of a
	// few seconds ago; nil if unknown. Control records count: behind a transactional producer an
	// idle input can show 1.
	Lag *int64 `json:"lag,omitempty"`
	// StreamTime is zero when no record has moved it.
	StreamTime time.Time `json:"stream_time,omitzero"`
}

// Totals count since the process started. Records, Punctuations, Outputs and DeadLetters are
// committed ones; dead letters are outputs too.
type Totals struct {
	Records int64 `json:"records"`
	// Punctuations are those by the wall clock that left something.
	Punctuations int64 `json:"punctuations"`
	Outputs      int64 `json:"outputs"`
	DeadLetters  int64 `json:"dead_letters"`
	Commits      int64 `json:"commits"`
	Aborts       int64 `json:"aborts"`
	Retries      int64 `json:"retries"`
}

func (t *Totals) add(o Totals) {
	t.Records += o.Records
	t.Punctuations += o.Punctuations
	t.Outputs += o.Outputs
	t.DeadLetters += o.DeadLetters
	t.Commits += o.Commits
	t.Aborts += o.Aborts
	t.Retries += o.Retries
}
