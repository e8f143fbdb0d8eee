package avro

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas/codectest"
)

var (
	// The two kinds of rows: complete, and cancelled without a known plane.
	departed = Flight{
		Line: 2, Carrier: "UA", Number: 1545, Tail: "N14228", Origin: "EWR", Destination: "IAH",
		Scheduled: 22617255, Departed: true, ArrivalDelay: 11, HasArrivalDelay: true,
	}
	cancelled = Flight{
		Line: 839, Carrier: "AA", Number: 133, Origin: "JFK", Destination: "LAX", Scheduled: 22617255,
	}
)

// TestFlightGolden pins the bytes. They were computed apart from this code, from the
// specification.
func TestFlightGolden(t *testing.T) {
	codec := FlightCodec()
	if codec.Name() != "avro:69bfb82ab456619d" {
		t.Errorf("name is %s", codec.Name())
	}
	const header = "c3019d6156b42ab8bf69"
	for want, flight := range map[string]Flight{
		header + "040455419218020c4e31343232380645575206494148cef2c815010216": departed,
		header + "8e0d0441418a0200064a464b064c4158cef2c8150000":               cancelled,
	} {
		got, err := codec.Append(nil, flight)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("encoding is %x, %v, want %s", got, err, want)
		}
		b, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := codec.Decode(b); err != nil || v != flight {
			t.Errorf("value is %+v, %v, want %+v", v, err, flight)
		}
	}
}

func TestFlightConformance(t *testing.T) {
	canary := Flight{
		Carrier: codectest.Canary, Tail: codectest.Canary,
		Origin: codectest.Canary, Destination: codectest.CanaryNumber,
	}
	extreme := Flight{
		Line: math.MinInt32, Number: math.MaxInt32, Scheduled: math.MinInt64, HasArrivalDelay: true,
	}
	codectest.Run(t, FlightCodec(), departed, cancelled, canary, extreme, Flight{})
	codectest.Refuses(t, FlightCodec(),
		Flight{Carrier: codectest.Canary, ArrivalDelay: 5}, Flight{Carrier: codectest.Canary + "\xff"})
}

func TestFlightEmptyTail(t *testing.T) {
	codec := FlightCodec()
	b, err := codec.Append(nil, cancelled)
	if err != nil {
		t.Fatal(err)
	}
	// The branch of tail is behind line (2 bytes), carrier (3) and flight (2).
	at := headerSize + 7
	b = append(b[:at:at], append([]byte{2, 0}, b[at+1:]...)...)
	if v, err := codec.Decode(b); err == nil || !strings.Contains(err.Error(), "field tail: empty") {
		t.Errorf("Decode = %+v, %v", v, err)
	}
}

func TestFlightRoundTrip(t *testing.T) {
	codec := FlightCodec()
	rapid.Check(t, func(t *rapid.T) {
		f := Flight{
			Line: rapid.Int32().Draw(t, "line"), Carrier: rapid.String().Draw(t, "carrier"),
			Number: rapid.Int32().Draw(t, "number"), Tail: rapid.String().Draw(t, "tail"),
			Origin: rapid.String().Draw(t, "origin"), Destination: rapid.String().Draw(t, "destination"),
			Scheduled: rapid.Int64().Draw(t, "scheduled"), Departed: rapid.Bool().Draw(t, "departed"),
			HasArrivalDelay: rapid.Bool().Draw(t, "has delay"),
		}
		if f.HasArrivalDelay {
			f.ArrivalDelay = rapid.Int32().Draw(t, "delay")
		}
		b, err := codec.Append(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codec.Decode(b); err != nil || got != f {
			t.Fatalf("%+v came back as %+v, %v", f, got, err)
		}
	})
}

func BenchmarkFlightAppend(b *testing.B) {
	codec := FlightCodec()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = codec.Append(dst[:0], departed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFlightDecode(b *testing.B) {
	codec := FlightCodec()
	value, err := codec.Append(nil, departed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlightWalk is the share of the check of the layout in both.
func BenchmarkFlightWalk(b *testing.B) {
	c := FlightCodec().(*codec[Flight])
	value, err := c.Append(nil, departed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w := walker{b: value[headerSize:]}
		if !w.run(c.root) {
			b.Fatal(w.reason())
		}
	}
}
