package inbox

import (
	"math"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
)

func FuzzEntry(f *testing.F) {
	processortest.FuzzCodec(f, entryCodec{},
		Entry{Outcome: Accepted}, Entry{Outcome: Accepted, FirstSeen: math.MinInt64, Payload: [32]byte{0: 1, 31: 0xff}})
}
