package control

import (
	"context"

	"github.com/onceward/onceward/state"
)

// StateAt says what an answer about state contains, and whose it is.
type StateAt struct {
	Subtopology string          `json:"subtopology"`
	Partition   int32           `json:"partition"`
	Positions   state.Positions `json:"positions"`
	// Member and Revokes are the epoch of the owner.
	Member  string `json:"member"`
	Revokes uint64 `json:"revokes"`
	// Stale is why the state would not have been served without being asked for it, nil if it
	// would.
	Stale *Refusal `json:"stale,omitempty"`
}

// The names of errors.
const (
	ReasonNotServing   = "not-serving"
	ReasonRestoring    = "restoring"
	ReasonStopped      = "stopped"
	ReasonInDoubt      = "in-doubt"
	ReasonLost         = "lost"
	ReasonBehind       = "behind"
	ReasonUnknownStore = "unknown-store"
	// ReasonUnknownPartition and ReasonNotRead are those of queries alone.
	ReasonUnknownPartition = "unknown-partition"
	ReasonNotRead          = "not-read"
	ReasonCorrupt          = "corrupt"
	ReasonFailed           = "failed"
	ReasonClosed           = "closed"
)

// Refusal is an error that crossed the socket. Reason is one of the names that Source.Reason gives.
type Refusal struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

func (r *Refusal) Error() string { return r.Text }

// GlobalPrefix begins the Subtopology of a global table in a StateAt, before the name of its store.
// No subtopology has such a name.
const GlobalPrefix = "globals/"

// TaskState is the state of one task, or of one global table, of the process.
type TaskState struct {
	StateAt
	Stores []StoreState `json:"stores"`
}

// StoreState is one store of a task.
type StoreState struct {
	Name   string `json:"name"`
	Layout string `json:"layout"`
	// Keys are counted or estimated, DiskBytes is estimated.
	Keys      int64 `json:"keys"`
	Counted   bool  `json:"counted"`
	DiskBytes int64 `json:"disk_bytes"`
	// Changelog is the topic, Partitions how many it has, End its last stable offset in this
	// partition, nil if it is not known.
	Changelog string `json:"changelog"`
	// FromSource says that the topic is an input, from which the store is restored.
	FromSource bool `json:"from_source,omitempty"`
	// InMemory says that the rows are in memory, and with them DiskBytes.
	InMemory   bool   `json:"in_memory,omitempty"`
	Partitions int32  `json:"partitions"`
	End        *int64 `json:"end,omitempty"`
}

// Detail says how much is to be found out of the sizes of stores.
type Detail string

// The details. Each has what is in those before.
const (
	Names     Detail = "names"
	Estimates Detail = "estimates"
	Counts    Detail = "counts" // reads every row
)

// Row is the answer to a key.
type Row struct {
	StateAt
	Found bool   `json:"found"`
	Value []byte `json:"value,omitempty"`
}

// Source is the state of a running instance. Its methods are called from the goroutine of each
// request.
type Source interface {
	// States describes every task of the process that has state, in their order.
	States(ctx context.Context, d Detail) ([]TaskState, error)
	// View takes a view of a store's partition, which the caller closes. With stale, it takes
	// whatever there is.
	View(store string, partition int32, stale bool) (StateAt, state.View, error)
	// Checkpoint makes dir a checkpoint of a task, as operators name it.
	Checkpoint(task, dir string) error
	// Reason names an error for the other side of the socket, "" if it has no name.
	Reason(err error) string
}
