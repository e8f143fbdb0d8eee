package topology_test

import (
	"math"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
)

// TestWindowedTextCodec: the text is the one that is documented, whatever is in the key.
func TestWindowedTextCodec(t *testing.T) {
	codec := topology.WindowedTextCodec(schemas.String())
	if codec.Name() != "windowed-text:string" {
		t.Errorf("the name is %s", codec.Name())
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC).UnixMilli()
	b, err := codec.Append(nil, windowKey{Key: "ann", Start: at, End: at + 60_000})
	if string(b) != "ann@2026-03-01T12:00:00.005Z/2026-03-01T12:01:00.005Z" || err != nil {
		t.Errorf("the text is %q, %v", b, err)
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli()
	codectest.Run(t, codec, windowKey{}, windowKey{Key: codectest.Canary, Start: 60001, End: 120001},
		windowKey{Key: "a@1970-01-01T00:00:00.000Z/1970-01-01T00:00:00.000Z", Start: 1, End: 1}, windowKey{Key: "@/", Start: 0, End: last})
	codectest.Refuses(t, codec, windowKey{Key: codectest.Canary, Start: 2, End: 1}, windowKey{Key: codectest.Canary, Start: -1, End: 1},
		windowKey{Key: codectest.Canary, End: last + 1}, windowKey{Key: codectest.Canary, End: math.MaxInt64})
	for _, text := range []string{
		"", "ann", "ann@2026-03-01T12:00:00.005Z", "ann@2026-03-01T12:01:00.005Z/2026-03-01T12:00:00.005Z",
		"ann@1969-12-31T23:59:59.999Z/2026-03-01T12:00:00.005Z", "ann@2026-03-01T12:00:00.005Z 2026-03-01T12:01:00.005Z",
		"ann@2026-03-01T12:00:00,005Z/2026-03-01T12:01:00.005Z", "ann@2026-02-30T12:00:00.005Z/2026-03-01T12:01:00.005Z",
	} {
		if w, err := codec.Decode([]byte(text)); err == nil || w != (windowKey{}) {
			t.Errorf("%q is decoded as %v", text, w)
		}
	}
	if topology.WindowedTextCodec[string](nil) != nil {
		t.Error("there is a codec without one for the key")
	}
}
