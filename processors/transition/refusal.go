package transition

import (
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Refusal is why a transition was not accepted. The package documentation has the exact rules.
type Refusal uint8

// The refusals.
const (
	// Duplicate: the transition was accepted before.
	Duplicate Refusal = iota + 1
	// Stale: the aggregate is past it.
	Stale
	// Illegal: the machine does not allow it, now or ever.
	Illegal
	// MissingAggregate: there is nothing that it could change.
	MissingAggregate
	// OutOfOrder: transitions are missing before it.
	OutOfOrder
	// Corruption: it contradicts what is recorded.
	Corruption
)

// failing are the refusals that fail unless they are emitted: all but the duplicate.
var failing = []Refusal{Stale, Illegal, MissingAggregate, OutOfOrder, Corruption}

// refusals are the text, and the class of the failure if the refusal is not emitted. A duplicate
// never fails.
var refusals = [...]struct {
	text  string
	class topology.Class
}{
	Duplicate:        {text: "duplicate"},
	Stale:            {"stale", topology.Conflict},
	Illegal:          {"illegal", topology.Validation},
	MissingAggregate: {"missing-aggregate", topology.Validation},
	OutOfOrder:       {"out-of-order", topology.Validation},
	Corruption:       {"corruption", topology.Conflict},
}

func (r Refusal) valid() bool { return r >= Duplicate && r <= Corruption }

// counted is the word under which refusals are counted, and told in decisions: that of String, but
// duplicates, as other processors count them.
func (r Refusal) counted() string {
	if r == Duplicate {
		return "duplicates"
	}
	return refusals[r].text
}

// String returns the refusal in lower case: duplicate, stale, illegal, missing-aggregate,
// out-of-order or corruption.
func (r Refusal) String() string {
	if !r.valid() {
		return "refusal(" + strconv.Itoa(int(r)) + ")"
	}
	return refusals[r].text
}

// textsOf returns the texts of refusals, with commas between them.
func textsOf(refusals []Refusal) string {
	texts := make([]string, len(refusals))
	for i, r := range refusals {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// MarshalText returns the text of String, so that JSON has words. Other values than the constants
// are errors.
func (r Refusal) MarshalText() ([]byte, error) {
	if !r.valid() {
		return nil, schemas.Reason("unknown refusal")
	}
	return []byte(refusals[r].text), nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Refusal) UnmarshalText(text []byte) error {
	for known := Duplicate; known <= Corruption; known++ {
		if refusals[known].text == string(text) {
			*r = known
			return nil
		}
	}
	return schemas.Reason("unknown refusal")
}

// Refused is a transition that was not accepted. It has a JSON form, so that
// schemas.JSON[Refused[S, V]] is a codec for Refused.
type Refused[S ~string, V any] struct {
	Refusal Refusal `json:"refusal"`
	// Reason is one sentence of this package, which quotes nothing of the record.
	Reason     string        `json:"reason"`
	Transition Transition[S] `json:"transition"`
	// State and Version are those of the aggregate, "" and 0 if there is none.
	State   S     `json:"state"`
	Version int64 `json:"version"`
	// Value is the record's.
	Value V `json:"value"`
}
