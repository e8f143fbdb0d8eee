package inbox

import "strconv"

// Status is what an operator calls the state of a message. The words are those of inbox tables; the
// package documentation says where each of them can be seen.
type Status uint8

// The statuses. Where the marker and the effect of a record commit together there is nothing in
// between, so Received and Claimed exist for external effects only.
const (
	// Received: the message is noted, and nothing has begun.
	Received Status = iota + 1
	// Claimed: somebody is at work on it.
	Claimed
	// Processed: its effect is there.
	Processed
	// Duplicate: it says what another one has said, and has no effect.
	Duplicate
	// RetryableFailed: it failed, and is tried again.
	RetryableFailed
	// Quarantined: it failed or contradicts another one, and waits for a person.
	Quarantined
	// Ignored: it is none of the consumer's business.
	Ignored
	// Superseded: what it says is out of date, and has no effect.
	Superseded
)

var statusNames = [...]string{
	Received: "RECEIVED", Claimed: "CLAIMED", Processed: "PROCESSED", Duplicate: "DUPLICATE",
	RetryableFailed: "RETRYABLE_FAILED", Quarantined: "QUARANTINED", Ignored: "IGNORED", Superseded: "SUPERSEDED",
}

// String returns the status in capital letters, such as PROCESSED.
func (s Status) String() string {
	if s >= Received && s <= Superseded {
		return statusNames[s]
	}
	return "STATUS(" + strconv.Itoa(int(s)) + ")"
}

// Advances reports whether the source position may move past a message of that status: whether
// nothing is left to be done that only the source could bring again.
func (s Status) Advances() bool {
	switch s {
	case Processed, Duplicate, Quarantined, Ignored, Superseded:
		return true
	default:
		return false
	}
}
