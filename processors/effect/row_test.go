package effect_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestAgendaKeys(t *testing.T) {
	codec := effect.DueCodec()
	keys := []effect.DueKey{
		{At: 0, ID: "z"}, {At: 1, ID: codectest.Canary}, {At: 255, ID: "b"}, {At: 256, ID: "a"}, {At: math.MaxInt64, ID: "a"},
	}
	codectest.Run(t, codec, keys...)
	codectest.Refuses(t, codec, effect.DueKey{At: -1, ID: "a"}, effect.DueKey{}, effect.DueKey{ID: "\xff"},
		effect.DueKey{ID: strings.Repeat("a", 1025)})
	var encoded [][]byte
	for _, k := range keys {
		b, err := codec.Append(nil, k)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b)
	}
	if !slices.IsSortedFunc(encoded, bytes.Compare) {
		t.Error("the keys are not in the order of the times")
	}
}

// FuzzAgendaKey: whatever the bytes are, there is a key that is written as them, or an error.
func FuzzAgendaKey(f *testing.F) {
	codec := effect.DueCodec()
	b, err := codec.Append(nil, effect.DueKey{At: 1, ID: "a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0x80, 0, 0, 0, 0, 0, 0, 0, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := codec.Decode(b)
		if err != nil {
			return
		}
		if again, err := codec.Append(nil, k); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q came back as %q, %v", b, again, err)
		}
	})
}

func TestStatusText(t *testing.T) {
	for s := effect.Received; s <= effect.Suppressed; s++ {
		b, err := json.Marshal(s)
		var got effect.Status
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got != s {
			t.Errorf("%s comes back as %s, error %v", s, got, err)
		}
	}
	for _, s := range []effect.Status{0, effect.Suppressed + 1} {
		if b, err := json.Marshal(s); err == nil || !strings.HasPrefix(s.String(), "status(") {
			t.Errorf("%s is written as %s", s, b)
		}
	}
	var s effect.Status
	if err := json.Unmarshal([]byte(`"DONE"`), &s); err == nil {
		t.Error("an unknown status is read")
	}
}
