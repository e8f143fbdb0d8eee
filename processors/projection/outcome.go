package projection

import (
	"strconv"

	"github.com/onceward/onceward/schemas"
)

// Outcome is why a record had no effect.
type Outcome uint8

// The outcomes without an effect.
const (
	// Stale: the row has a higher version than the record.
	Stale Outcome = iota + 1
	// Duplicate: the row has the version of the record.
	Duplicate
)

// String returns the outcome in lower case: stale or duplicate.
func (o Outcome) String() string {
	switch o {
	case Stale:
		return "stale"
	case Duplicate:
		return "duplicate"
	}
	return "outcome(" + strconv.Itoa(int(o)) + ")"
}

// MarshalText returns the text of String, so that JSON has words. Other values than the constants are errors.
func (o Outcome) MarshalText() ([]byte, error) {
	if o != Stale && o != Duplicate {
		return nil, schemas.Reason("unknown outcome")
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (o *Outcome) UnmarshalText(text []byte) error {
	switch string(text) {
	case "stale":
		*o = Stale
	case "duplicate":
		*o = Duplicate
	default:
		return schemas.Reason("unknown outcome; there are stale and duplicate")
	}
	return nil
}

// Skipped is a record that had no effect.
type Skipped[V any] struct {
	Outcome Outcome `json:"outcome"`
	// Version is the record's, Applied that of the row.
	Version int64 `json:"version"`
	Applied int64 `json:"applied"`
	// Value is the record's.
	Value V `json:"value"`
}

// Gap is a record that was applied although the versions from Expected to the one before Actual are missing.
type Gap[V any] struct {
	Expected int64 `json:"expected"`
	// Actual is the version of the record.
	Actual int64 `json:"actual"`
	// Value is the record's.
	Value V `json:"value"`
}
