package avro

import (
	"sync"

	"github.com/onceward/onceward/schemas"
)

// A Flight is one scheduled departure of the flights example, the record
// onceward.example.Flight of schemas.FlightSchema. Flights are comparable.
type Flight struct {
	// Line is the line of the row in the source file.
	Line int32
	// Carrier is the two-character code of the airline, and Number its flight number.
	Carrier string
	Number  int32
	// Tail is the tail number of the plane. It is empty if the plane is unknown, in
	// Avro null; an empty tail number does not exist.
	Tail string
	// Origin and Destination are airport codes.
	Origin, Destination string
	// Scheduled is the scheduled departure in minutes since 1970-01-01T00:00Z.
	Scheduled int64
	// Departed is false if the flight was cancelled.
	Departed bool
	// ArrivalDelay is how many minutes late the plane arrived, negative if it was
	// early. It means something only if HasArrivalDelay is true, and is zero
	// otherwise, as for flights that were cancelled or diverted.
	ArrivalDelay    int32
	HasArrivalDelay bool
}

// FlightCodec returns the codec of flights. It refuses to append an ArrivalDelay
// that HasArrivalDelay denies, and to decode an empty tail number that is not null:
// both would be read back as something else.
func FlightCodec() schemas.Codec[Flight] { return flightCodec() }

var flightCodec = sync.OnceValue(func() schemas.Codec[Flight] {
	codec, err := New(schemas.FlightSchema(), flightToNative, flightFromNative)
	if err != nil {
		panic("avro: invariant: the embedded schema of Flight is valid: " + err.Error())
	}
	return codec
})

func flightToNative(f Flight) (map[string]any, error) {
	if f.ArrivalDelay != 0 && !f.HasArrivalDelay {
		return nil, schemas.Reason("ArrivalDelay is set and HasArrivalDelay is not")
	}
	return map[string]any{
		"line":         f.Line,
		"carrier":      f.Carrier,
		"flight":       f.Number,
		"tail":         Optional("string", f.Tail, f.Tail != ""),
		"origin":       f.Origin,
		"destination":  f.Destination,
		"scheduled":    f.Scheduled,
		"departed":     f.Departed,
		"arrivalDelay": Optional("int", f.ArrivalDelay, f.HasArrivalDelay),
	}, nil
}

func flightFromNative(record map[string]any) (f Flight, err error) {
	if f.Line, err = Field[int32](record, "line"); err != nil {
		return f, err
	}
	if f.Carrier, err = Field[string](record, "carrier"); err != nil {
		return f, err
	}
	if f.Number, err = Field[int32](record, "flight"); err != nil {
		return f, err
	}
	var hasTail bool
	if f.Tail, hasTail, err = OptionalField[string](record, "tail", "string"); err != nil {
		return f, err
	}
	if hasTail && f.Tail == "" {
		return f, schemas.Reason("field tail: empty; a plane that is unknown is null")
	}
	if f.Origin, err = Field[string](record, "origin"); err != nil {
		return f, err
	}
	if f.Destination, err = Field[string](record, "destination"); err != nil {
		return f, err
	}
	if f.Scheduled, err = Field[int64](record, "scheduled"); err != nil {
		return f, err
	}
	if f.Departed, err = Field[bool](record, "departed"); err != nil {
		return f, err
	}
	f.ArrivalDelay, f.HasArrivalDelay, err = OptionalField[int32](record, "arrivalDelay", "int")
	return f, err
}
