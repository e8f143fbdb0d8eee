package pgqueue

import (
	"fmt"
	"slices"
)

// Status is the state of an entry. Its text is that of the status column.
type Status string

// The statuses. The source of an event may move on with each of them, because the event is stored.
const (
	// Received: the entry waits for a worker.
	Received Status = "RECEIVED"
	// Claimed: a worker has it, until its claim expires.
	Claimed Status = "CLAIMED"
	// Processed: the effect of the handler is committed.
	Processed Status = "PROCESSED"
	// Duplicate: the event says what another one has said, and has no effect.
	Duplicate Status = "DUPLICATE"
	// RetryableFailed: the handler has failed, or the claim has expired; a worker tries again.
	RetryableFailed Status = "RETRYABLE_FAILED"
	// Quarantined: the entry waits for a person.
	Quarantined Status = "QUARANTINED"
	// Ignored: the handler or a person has decided that the event has no effect.
	Ignored Status = "IGNORED"
	// Superseded: the handler has decided that the event is out of date.
	Superseded Status = "SUPERSEDED"
)

// Statuses returns all statuses.
func Statuses() []Status {
	return []Status{Received, Claimed, Processed, Duplicate, RetryableFailed, Quarantined, Ignored, Superseded}
}

// Final says whether nothing is left to do.
func (s Status) Final() bool {
	return s == Processed || s == Duplicate || s == Ignored || s == Superseded
}

// ParseStatus returns the status of that name.
func ParseStatus(name string) (Status, error) {
	if s := Status(name); slices.Contains(Statuses(), s) {
		return s, nil
	}
	return "", fmt.Errorf("there is no status %q; the statuses are %v", name, Statuses())
}
