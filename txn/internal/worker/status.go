package worker

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Stats counts what a worker has done since it was made. Records, Punctuations, Outputs and
// DeadLetters count committed rounds only.
type Stats struct {
	Records, Punctuations, Outputs, DeadLetters, Commits, Aborts, Retries atomic.Int64
}

// TaskStatus is what a worker tells of a task: committed facts only.
type TaskStatus struct {
	Inputs []state.Input
	// Metadata is the text of the last commit.
	Metadata    string
	Records     int64
	DeadLetters int64
	// Parked says how many records wait in the stores of parked keys. It is never changed in place.
	Parked []graph.Parked
	// Outcomes are the nodes' counts since the task was opened.
	Outcomes map[graph.OutcomeCount]int64
	// Oldest has for every input the timestamp of the oldest record that is fetched and not
	// committed, state.NoTime for none. It is nil until it was first noted, and never changed in
	// place.
	Oldest []int64
	// Retry is the record that the task tries again, nil if there is none.
	Retry *Retry
	// Stopped is why the task does not work any more.
	Stopped error
}

// Retry is a record that has failed and is tried again. It is never changed in place.
type Retry struct {
	// Entry names the record, as in the log.
	Entry string
	// Attempts is how often it was tried, since when it failed first.
	Attempts int
	Since    time.Time
	// Next is when it is tried next.
	Next time.Time
	// Failure is the last one.
	Failure *graph.Failure
}

// Stats returns the worker's counters.
func (w *Worker) Stats() *Stats { return &w.stats }

// Tasks returns a copy of what is known of every task.
func (w *Worker) Tasks() map[graph.TaskID]TaskStatus {
	w.status.Lock()
	defer w.status.Unlock()
	out := make(map[graph.TaskID]TaskStatus, len(w.status.tasks))
	for id, s := range w.status.tasks {
		s.Outcomes = maps.Clone(s.Outcomes)
		out[id] = s
	}
	return out
}
