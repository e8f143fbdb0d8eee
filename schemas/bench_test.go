package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// payment is an event of a usual size, 202 bytes, with its keys out of order as
// producers write them.
const payment = `{"eventId":"01JD8Q7ZK3M5X9","type":"PaymentCaptured","version":7,` +
	`"account":"DE-4471-0093","amount":"129.90","currency":"EUR","occurredAt":"2025-11-21T10:15:30.123Z",` +
	`"reference":"order 88123","fee":1.25}`

type paymentEvent struct {
	EventID    string      `json:"eventId"`
	Type       string      `json:"type"`
	Version    int64       `json:"version"`
	Account    string      `json:"account"`
	Amount     string      `json:"amount"`
	Currency   string      `json:"currency"`
	OccurredAt string      `json:"occurredAt"`
	Reference  string      `json:"reference"`
	Fee        json.Number `json:"fee"`
}

func BenchmarkHashJSON(b *testing.B) {
	src := []byte(payment)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schemas.HashJSON(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalJSON(b *testing.B) {
	src := []byte(payment)
	var dst []byte
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = schemas.CanonicalJSON(dst[:0], src); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCanonicalJSONWorst is the costliest document per byte that is known:
// every level holds everything below it and has its keys out of order.
func BenchmarkCanonicalJSONWorst(b *testing.B) {
	inner := `"` + strings.Repeat("x", 1<<20) + `"`
	src := []byte(strings.Repeat(`{"b":`, schemas.MaxJSONDepth) + inner +
		strings.Repeat(`,"a":0}`, schemas.MaxJSONDepth))
	var dst []byte
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		var err error
		if dst, err = schemas.CanonicalJSON(dst[:0], src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONDecode(b *testing.B) {
	codec, src := schemas.JSON[paymentEvent](), []byte(payment)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Decode(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONAppend(b *testing.B) {
	codec := schemas.JSON[paymentEvent]()
	v, err := codec.Decode([]byte(payment))
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if dst, err = codec.Append(dst[:0], v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJSONUnmarshal is encoding/json alone, for comparison.
func BenchmarkJSONUnmarshal(b *testing.B) {
	src := []byte(payment)
	b.ReportAllocs()
	for b.Loop() {
		var v paymentEvent
		if err := json.Unmarshal(src, &v); err != nil {
			b.Fatal(err)
		}
	}
}
