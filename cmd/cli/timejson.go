package cli

import (
	"strconv"
	"time"
)

// timeJSON is a time in the JSON of a command: as RFC 3339 has it, in UTC, and where its year does
// not have four digits, in milliseconds since the epoch, as a number. Such times are in records
// whose producers count in microseconds, say: time.Time has no JSON form for them, and the whole
// answer would be an error.
type timeJSON time.Time

// MarshalJSON implements json.Marshaler.
func (t timeJSON) MarshalJSON() ([]byte, error) {
	at := time.Time(t).UTC()
	if y := at.Year(); y < 0 || y > 9999 {
		return strconv.AppendInt(nil, at.UnixMilli(), 10), nil
	}
	return at.MarshalJSON()
}
