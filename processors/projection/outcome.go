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

// MarshalText returns the text of String, so that JSON has words. Other values than the constants
// are errors.
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
	// Version is the record's, Applied that of the row. A duplicate of a record that waits has a
	// version above that of the row, or there is no row, and Applied is 0.
	Version int64 `json:"version"`
	Applied int64 `json:"applied"`
	// Incarnation is the record's, AppliedIncarnation that of the row; see [Incarnation].
	Incarnation        int64 `json:"incarnation,omitzero"`
	AppliedIncarnation int64 `json:"appliedIncarnation,omitzero"`
	// Value is the record's.
	Value V `json:"value"`
}

// Gap is a record before which the versions from Expected to the one before Actual are missing.
type Gap[V any] struct {
	Expected int64 `json:"expected"`
	// Actual is the version of the record.
	Actual int64 `json:"actual"`
	// Incarnation is that of both; see [Incarnation].
	Incarnation int64 `json:"incarnation,omitzero"`
	// Value is the record's.
	Value V `json:"value"`
}

// Repair asks the source for the versions from From to To, which are both missing.
type Repair struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Incarnation is that of the versions; see [Incarnation].
	Incarnation int64 `json:"incarnation,omitzero"`
}

// Abandoned is a record that has waited in vain: it was not applied, and is no longer kept.
type Abandoned[V any] struct {
	Reason Reason `json:"reason"`
	// Message quotes nothing of the record, and says why it was not applied.
	Message string `json:"message"`
	// Expected is the version that would have been the next one, Actual that of the record. They
	// are equal if Reason is Failed, unless the gap before the record was to be accepted.
	Expected int64 `json:"expected"`
	Actual   int64 `json:"actual"`
	// Incarnation is that of both; see [Incarnation].
	Incarnation int64 `json:"incarnation,omitzero"`
	// Value is the record's.
	Value V `json:"value"`
}

// Reason is why a record was abandoned.
type Reason uint8

// The reasons.
const (
	// StreamTimeLimit: the row of the key has not moved for Limits.StreamTime.
	StreamTimeLimit Reason = iota + 1
	// WallClockLimit: the row of the key has not moved for Limits.WallClock.
	WallClockLimit
	// Failed: its turn came, and fold refused it, or something behind the projection did.
	Failed
)

var reasonTexts = [...]string{StreamTimeLimit: "stream-time", WallClockLimit: "wall-clock", Failed: "failed"}

// String returns the reason in lower case: stream-time, wall-clock or failed.
func (r Reason) String() string {
	if r < StreamTimeLimit || r > Failed {
		return "reason(" + strconv.Itoa(int(r)) + ")"
	}
	return reasonTexts[r]
}

// MarshalText returns the text of String, so that JSON has words. Other values than the constants
// are errors.
func (r Reason) MarshalText() ([]byte, error) {
	if r < StreamTimeLimit || r > Failed {
		return nil, schemas.Reason("unknown reason")
	}
	return []byte(reasonTexts[r]), nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := StreamTimeLimit; known <= Failed; known++ {
		if reasonTexts[known] == string(text) {
			*r = known
			return nil
		}
	}
	return schemas.Reason("unknown reason; there are stream-time, wall-clock and failed")
}
