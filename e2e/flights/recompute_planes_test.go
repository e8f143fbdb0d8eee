package flights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// departureValue is a flight in the JSON of plane-latest and plane-stale.
type departureValue struct {
	Line        int    `json:"line"`
	Carrier     string `json:"carrier"`
	Flight      int    `json:"flight"`
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	Scheduled   int64  `json:"scheduled"`
}

func departureValueOf(r *dataRow) departureValue {
	return departureValue{r.Line, r.Carrier, r.Flight, r.Origin, r.Destination, r.Scheduled}
}

// latestValue is a value of plane-latest.
type latestValue struct {
	Version int64          `json:"version"`
	Value   departureValue `json:"value"`
}

// staleValue is a value of plane-stale.
type staleValue struct {
	Outcome string         `json:"outcome"`
	Version int64          `json:"version"`
	Applied int64          `json:"applied"`
	Value   departureValue `json:"value"`
}

// checkLatest compares the records of plane-latest, by partition.
func (e *expected) checkLatest(got [][]*kgo.Record) error {
	r := report{subject: "plane-latest"}
	sequence(&r, e.Latest, got, func(_ int32, want *dataRow, got *kgo.Record) string {
		value := latestValue{want.version(), departureValueOf(want)}
		return differsFrom(got, want, want.Tail, value)
	})
	return r.err()
}

// checkStale compares the records of plane-stale, by partition.
func (e *expected) checkStale(got [][]*kgo.Record) error {
	r := report{subject: "plane-stale"}
	sequence(&r, e.Stale, got, func(_ int32, want staleRow, got *kgo.Record) string {
		value := staleValue{"stale", want.Row.version(), want.Latest.version(), departureValueOf(want.Row)}
		return differsFrom(got, want.Row, want.Row.Tail, value)
	})
	return r.err()
}

// differsFrom compares a record that follows from a row, and whose value is JSON.
func differsFrom[V comparable](got *kgo.Record, row *dataRow, key string, value V) string {
	if difference := envelope(got, row, key); difference != "" {
		return difference
	}
	v, err := decodeJSON[V](got.Value)
	if err != nil {
		return fmt.Sprintf("line %d: %v", row.Line, err)
	}
	if v != value {
		return fmt.Sprintf("line %d has the value %+v, not %+v", row.Line, v, value)
	}
	return ""
}

// envelope compares everything but the value of a record that follows from a row.
func envelope(got *kgo.Record, row *dataRow, key string) string {
	switch line := lineOf(got); {
	case line != strconv.Itoa(row.Line):
		return fmt.Sprintf("line %d is expected, and this is line %s", row.Line, line)
	case got.Key == nil || string(got.Key) != key:
		return fmt.Sprintf("line %d has the key %q, not %q", row.Line, got.Key, key)
	case got.Timestamp.UnixMilli() != row.Timestamp():
		return fmt.Sprintf("line %d has the timestamp %d, not %d",
			row.Line, got.Timestamp.UnixMilli(), row.Timestamp())
	}
	return ""
}

// lineOf returns the line that a record names in its only header.
func lineOf(r *kgo.Record) string {
	if len(r.Headers) != 1 || r.Headers[0].Key != lineHeader {
		return fmt.Sprintf("(unknown, %d headers)", len(r.Headers))
	}
	return string(r.Headers[0].Value)
}

// decodeJSON refuses what V has no field for, and anything behind the value.
func decodeJSON[V any](b []byte) (v V, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("the value is not the JSON expected: %w", err)
	}
	if d.More() {
		return v, fmt.Errorf("there is something behind the value")
	}
	return v, nil
}
