package task

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

func TestBlobRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func(label string) state.RoundID {
			return state.RoundID{
				ProducerID: rapid.Int64().Draw(t, label), Epoch: rapid.Int16().Draw(t, label+" epoch"),
				Incarnation: rapid.Uint32().Draw(t, label+" incarnation"),
			}
		}
		p := state.Positions{Round: id("round"), State: id("state")}
		for range rapid.IntRange(0, 4).Draw(t, "inputs") {
			p.Inputs = append(p.Inputs, state.Input{
				Topic: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "topic"), Offset: rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset"),
				StreamTime: rapid.Int64().Draw(t, "time"),
			})
		}
		for range rapid.IntRange(0, 4).Draw(t, "changelogs") {
			p.Changelogs = append(p.Changelogs, state.Changelog{
				Store: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "store"), Applied: rapid.Int64Range(0, math.MaxInt64).Draw(t, "applied"),
			})
		}
		want := NewBlob([8]byte{1, 2, 3}, p)
		text := want.Encode()
		got, err := ParseBlob(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if _, err := ParseBlob(text + "AAAA"); err == nil {
			t.Fatal("trailing bytes were accepted")
		}
		if _, err := ParseBlob(text[:len(text)-4]); err == nil {
			t.Fatal("a cut blob was accepted")
		}
	})
}

// TestBlobSize keeps an ordinary task's metadata far below what brokers store (4096 characters by default).
func TestBlobSize(t *testing.T) {
	p := state.Positions{Round: state.RoundID{ProducerID: 1 << 40}}
	for range 4 {
		p.Inputs = append(p.Inputs, state.Input{Topic: strings.Repeat("t", 100), Offset: 1 << 40, StreamTime: 1 << 41})
		p.Changelogs = append(p.Changelogs, state.Changelog{Store: strings.Repeat("s", 100), Applied: 1 << 40})
	}
	if n := len(NewBlob([8]byte{}, p).Encode()); n > 256 {
		t.Errorf("the metadata of a task with four inputs and four stores has %d characters", n)
	}
}

func FuzzParseBlob(f *testing.F) {
	f.Add("")
	f.Add("bm90IG91cnM")
	f.Add(NewBlob([8]byte{9}, state.Positions{Inputs: []state.Input{{Topic: "in", Offset: 3}}}).Encode())
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBlob(text)
		if err != nil {
			return
		}
		again, err := ParseBlob(b.Encode())
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("%q parses to %+v, which does not survive another round: %v", text, b, err)
		}
	})
}
