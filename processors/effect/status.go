package effect

import (
	"strconv"

	"github.com/onceward/onceward/schemas"
)

// Status is how far an effect has come.
type Status uint8

// The statuses. Completed, FailedTerminal and Suppressed are ends; Unknown is one for the program
// where neither [Lookup] nor [Repeatable] is given, and then waits for a person.
const (
	// Received: the effect is requested, and no call of it is claimed.
	Received Status = iota + 1
	// Started: a call is claimed. It may have been made or not.
	Started
	// Completed: the effect has happened.
	Completed
	// FailedRetryable: the effect has certainly not happened, and is tried again.
	FailedRetryable
	// FailedTerminal: the effect has certainly not happened, and is not tried again.
	FailedTerminal
	// Unknown: a call was made, or may have been, and nobody knows with what result.
	Unknown
	// Suppressed: the effect was requested in a mode in which no calls are made.
	Suppressed
)

var statusNames = [...]string{
	Received: "RECEIVED", Started: "STARTED", Completed: "COMPLETED", FailedRetryable: "FAILED_RETRYABLE",
	FailedTerminal: "FAILED_TERMINAL", Unknown: "UNKNOWN", Suppressed: "SUPPRESSED",
}

// String returns the status in capitals, such as FAILED_RETRYABLE.
func (s Status) String() string {
	if s < Received || s > Suppressed {
		return "status(" + strconv.Itoa(int(s)) + ")"
	}
	return statusNames[s]
}

// MarshalText returns the text of String, so that JSON has words. Other values than the constants
// are errors.
func (s Status) MarshalText() ([]byte, error) {
	if s < Received || s > Suppressed {
		return nil, schemas.Reason("unknown status")
	}
	return []byte(statusNames[s]), nil
}

// UnmarshalText reads what MarshalText writes.
func (s *Status) UnmarshalText(text []byte) error {
	for status := Received; status <= Suppressed; status++ {
		if statusNames[status] == string(text) {
			*s = status
			return nil
		}
	}
	return schemas.Reason("unknown status")
}

// ended reports whether the program does nothing more about an effect, whatever comes.
func (s Status) ended() bool { return s == Completed || s == FailedTerminal }
