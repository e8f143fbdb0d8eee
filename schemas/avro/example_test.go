package avro_test

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
)

func ExampleFlightCodec() {
	codec := avro.FlightCodec()
	value, err := codec.Append(nil, avro.Flight{
		Line: 839, Carrier: "AA", Number: 133, Origin: "JFK", Destination: "LAX", Scheduled: 22617255,
	})
	fmt.Printf("%s %x %v\n", codec.Name(), value, err)

	flight, err := codec.Decode(value)
	fmt.Println(flight.Carrier, flight.Number, flight.Departed, err)
	// Output:
	// avro:69bfb82ab456619d c3019d6156b42ab8bf698e0d0441418a0200064a464b064c4158cef2c8150000 <nil>
	// AA 133 false <nil>
}

func ExampleNew() {
	type plane struct {
		Tail  string
		Seats int32 // 0 if unknown
	}
	const schema = `{"type": "record", "name": "Plane", "namespace": "example", "fields": [
		{"name": "tail", "type": "string"},
		{"name": "seats", "type": ["null", "int"], "default": null}]}`

	codec, err := avro.New(schema,
		func(p plane) (map[string]any, error) {
			return map[string]any{"tail": p.Tail, "seats": avro.Optional("int", p.Seats, p.Seats > 0)}, nil
		},
		func(record map[string]any) (p plane, err error) {
			if p.Tail, err = avro.Field[string](record, "tail"); err != nil {
				return p, err
			}
			p.Seats, _, err = avro.OptionalField[int32](record, "seats", "int")
			return p, err
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	value, err := codec.Append(nil, plane{Tail: "N14228", Seats: 149})
	fmt.Printf("%d bytes, %v\n", len(value), err)

	// A value that another schema wrote is an error that names both.
	_, err = avro.FlightCodec().Decode(value)
	mismatch, _ := errors.AsType[*avro.FingerprintError](err)
	fmt.Println(codec.Name() == fmt.Sprintf("avro:%016x", mismatch.Got))

	var codecError *schemas.Error
	fmt.Println(errors.As(err, &codecError), codecError.Reason)
	// Output:
	// 20 bytes, <nil>
	// true
	// true written with another schema
}
