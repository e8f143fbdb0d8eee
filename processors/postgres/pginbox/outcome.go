package pginbox

import "strconv"

// Outcome is what an inbox says to an event. The package documentation has the rules.
type Outcome uint8

// The outcomes.
const (
	// Claimed: the event is new, and the transaction has to have its effect.
	Claimed Outcome = iota + 1
	// Duplicate: the event was handled.
	Duplicate
	// Conflict: another event was handled under this id or business key.
	Conflict
	// Late: the event is older than what the inbox remembers.
	Late
)

var outcomeNames = [...]string{Claimed: "claimed", Duplicate: "duplicate", Conflict: "conflict", Late: "late"}

// String returns the outcome in lower case, as metrics have it.
func (o Outcome) String() string {
	if o < Claimed || o > Late {
		return "outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// The outcomes that rows have, in the column outcome.
const (
	rowClaimed  = 1
	rowRepeated = 2 // the business key of another event, and the same payload
	rowDisputed = 3 // the business key of another event, and another payload
)
