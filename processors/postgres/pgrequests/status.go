package pgrequests

import "strconv"

// Outcome is what a store says to a request. The package documentation has the rules.
type Outcome uint8

// The outcomes.
const (
	// Started: the caller has to have the effect, and to end the request.
	Started Outcome = iota + 1
	// Replayed: the request has an answer.
	Replayed
	// Conflict: the scope was used for another request.
	Conflict
	// InProgress: an attempt is at work.
	InProgress
	// Unknown: an attempt may have had external effects.
	Unknown
	// Expired: the request has had an answer, which is not stored any more.
	Expired
)

var outcomeNames = [...]string{
	Started: "started", Replayed: "replayed", Conflict: "conflict", InProgress: "in-progress", Unknown: "unknown", Expired: "expired",
}

// String returns the outcome in lower case, as metrics have it.
func (o Outcome) String() string {
	if o < Started || o > Expired {
		return "outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// Status is how far a request has come, as the table has it.
type Status string

// The statuses.
const (
	StatusStarted         Status = "STARTED"
	StatusCompleted       Status = "COMPLETED"
	StatusFailedRetryable Status = "FAILED_RETRYABLE"
	StatusFailedTerminal  Status = "FAILED_TERMINAL"
	StatusUnknown         Status = "UNKNOWN"
)
