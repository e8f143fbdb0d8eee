package state_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

func samplePositions() state.Positions {
	return state.Positions{
		Round: state.RoundID{ProducerID: 4, Epoch: 7, Incarnation: 0xbeef},
		State: state.RoundID{ProducerID: 4, Epoch: 6, Incarnation: 0xbeef},
		Inputs: []state.Input{
			{Topic: "orders", Partition: 0, Offset: 12, StreamTime: 1700000000000},
			{Topic: "orders", Partition: 2, Offset: 0, StreamTime: state.NoTime},
		},
		Changelogs: []state.Changelog{
			{Store: "balances", TopicID: [16]byte{1, 15: 2}, Applied: 7, Scanned: 9},
			{Store: "inbox", TopicID: [16]byte{3}, Applied: 5, Scanned: 5, StreamTime: 300},
		},
		WrittenAt: 1700000000123,
	}
}

func TestPositionsString(t *testing.T) {
	want := "round 4/7/0000beef state 4/6/0000beef inputs orders-0@12 orders-2@0 " +
		"changelogs balances@7(scanned 9) inbox@5(time 300)"
	if got := samplePositions().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p := state.Positions{Changelogs: []state.Changelog{{Store: "prices", Applied: 5, Scanned: 5, StreamTime: 1<<62 | 0xbeef}}}
	if got := p.String(); got != "round none state none inputs changelogs prices@5(digest beef)" {
		t.Errorf("of a store that is restored from its source: %s", got)
	}
	if got := (state.Positions{}).String(); got != "round none state none inputs changelogs" {
		t.Errorf("the zero value is %q", got)
	}
}

func TestPositionsCloneSharesNothing(t *testing.T) {
	p := samplePositions()
	c := p.Clone()
	c.Inputs[0].Offset++
	c.Changelogs[0].Applied++
	c.SetInput(state.Input{Topic: "a"})
	c.SetChangelog(state.Changelog{Store: "zz"})
	if !p.Equal(samplePositions()) {
		t.Errorf("a change of the clone changed the original to %v", p)
	}
}

func TestPositionsEqual(t *testing.T) {
	changes := map[string]func(*state.Positions){
		"round":        func(p *state.Positions) { p.Round.Incarnation++ },
		"state":        func(p *state.Positions) { p.State.Epoch++ },
		"offset":       func(p *state.Positions) { p.Inputs[0].Offset++ },
		"stream time":  func(p *state.Positions) { p.Inputs[1].StreamTime++ },
		"input":        func(p *state.Positions) { p.Inputs = p.Inputs[:1] },
		"applied":      func(p *state.Positions) { p.Changelogs[0].Applied++ },
		"scanned":      func(p *state.Positions) { p.Changelogs[0].Scanned++ },
		"topic id":     func(p *state.Positions) { p.Changelogs[1].TopicID[4]++ },
		"no changelog": func(p *state.Positions) { p.Changelogs = nil },
	}
	for name, change := range changes {
		p := samplePositions()
		change(&p)
		if p.Equal(samplePositions()) || p.Same(samplePositions()) {
			t.Errorf("%s: still equal", name)
		}
	}
	p := samplePositions()
	p.WrittenAt++
	if p.Equal(samplePositions()) || !p.Same(samplePositions()) {
		t.Error("another WrittenAt is another value at the same place")
	}
	if !(state.Positions{Inputs: []state.Input{}}).Equal(state.Positions{}) {
		t.Error("nil and empty differ")
	}
}

func TestPositionsSetKeepsTheOrder(t *testing.T) {
	var p state.Positions
	for _, in := range []state.Input{
		{Topic: "b", Partition: 1, Offset: 1}, {Topic: "b", Partition: 0, Offset: 2},
		{Topic: "a", Partition: 9, Offset: 3}, {Topic: "b", Partition: 1, Offset: 4},
	} {
		p.SetInput(in)
	}
	for _, c := range []state.Changelog{
		{Store: "y", Applied: 1}, {Store: "x", Applied: 2}, {Store: "y", Applied: 3},
	} {
		p.SetChangelog(c)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	want := "inputs a-9@3 b-0@2 b-1@4 changelogs x@2(scanned 0) y@3(scanned 0)"
	if got := p.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if in, ok := p.Input("b", 1); !ok || in.Offset != 4 {
		t.Errorf("input b-1 is %v, %t", in, ok)
	}
	if c, ok := p.Changelog("x"); !ok || c.Applied != 2 {
		t.Errorf("changelog x is %v, %t", c, ok)
	}
	if _, ok := p.Input("b", 2); ok {
		t.Error("an input that was never set is there")
	}
	if _, ok := p.Changelog("z"); ok {
		t.Error("a changelog that was never set is there")
	}
}

// positions generates valid positions, with the extremes of every field.
func positions() *rapid.Generator[state.Positions] {
	round := rapid.Custom(func(t *rapid.T) state.RoundID {
		return state.RoundID{
			ProducerID:  rapid.Int64().Draw(t, "producer"),
			Epoch:       rapid.Int16().Draw(t, "epoch"),
			Incarnation: rapid.Uint32().Draw(t, "incarnation"),
		}
	})
	offset := rapid.Int64Range(0, math.MaxInt64)
	name := rapid.StringN(1, 20, 60)
	return rapid.Custom(func(t *rapid.T) state.Positions {
		p := state.Positions{
			Round: round.Draw(t, "round"), State: round.Draw(t, "state"),
			WrittenAt: rapid.Int64().Draw(t, "written"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "inputs") {
			p.SetInput(state.Input{
				Topic:     name.Draw(t, "topic"),
				Partition: rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition"),
				Offset:    offset.Draw(t, "offset"), StreamTime: rapid.Int64().Draw(t, "time"),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "changelogs") {
			c := state.Changelog{
				Store: name.Draw(t, "store"), Applied: offset.Draw(t, "applied"),
				Scanned: offset.Draw(t, "scanned"), StreamTime: offset.Draw(t, "store time"),
			}
			c.TopicID[rapid.IntRange(0, 15).Draw(t, "byte")] = rapid.Byte().Draw(t, "id")
			p.SetChangelog(c)
		}
		return p
	})
}

// TestRoundIDText: ids as brokers give them out are shown as Kafka's tools do, and those that are
// made up can be read.
func TestRoundIDText(t *testing.T) {
	for id, want := range map[state.RoundID]string{
		{}: "none",
		{ProducerID: 1004, Epoch: 7, Incarnation: 0xbeef}: "1004/7/0000beef",
		{ProducerID: -4774196692624274843}:                "declared/bdbea56720490a65",
	} {
		if got := id.String(); got != want {
			t.Errorf("a round is shown as %s, want %s", got, want)
		}
	}
}

func TestPositionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := positions().Draw(t, "positions")
		encoded := p.Append([]byte("before"))
		if !bytes.HasPrefix(encoded, []byte("before")) {
			t.Fatal("Append changed what was there")
		}
		encoded = encoded[len("before"):]
		got, err := state.ParsePositions(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equal(p) {
			t.Fatalf("got %v, want %v", got, p)
		}
		for n := range encoded {
			if _, err := state.ParsePositions(encoded[:n]); !errors.Is(err, state.ErrCorrupt) {
				t.Fatalf("cut to %d of %d bytes: got %v, want ErrCorrupt", n, len(encoded), err)
			}
		}
	})
}

// TestPositionsBytes pins the format. A change of it needs a new version byte.
func TestPositionsBytes(t *testing.T) {
	got := samplePositions().Append(nil)
	want := "01" +
		"0000000000000004" + "0007" + "0000beef" +
		"0000000000000004" + "0006" + "0000beef" +
		"0000018bcfe5687b" +
		"02" +
		"06" + "6f7264657273" + "00" + "0c" + "0000018bcfe56800" +
		"06" + "6f7264657273" + "02" + "00" + "8000000000000000" +
		"02" +
		"08" + "62616c616e636573" + "01000000000000000000000000000002" + "07" + "09" + "00" +
		"05" + "696e626f78" + "03000000000000000000000000000000" + "05" + "05" + "ac02"
	if hex := hexOf(got); hex != want {
		t.Errorf("got  %s\nwant %s", hex, want)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

func TestParsePositionsRefuses(t *testing.T) {
	valid := samplePositions().Append(nil)
	unsorted := samplePositions()
	unsorted.Inputs[0], unsorted.Inputs[1] = unsorted.Inputs[1], unsorted.Inputs[0]
	twice := samplePositions()
	twice.Changelogs[1].Store = twice.Changelogs[0].Store
	unnamed := samplePositions()
	unnamed.Inputs[0].Topic = ""
	negative := samplePositions()
	negative.Inputs[0].Offset = -1
	zero := (state.Positions{}).Append(nil)
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	padded := append(append([]byte{}, zero[:len(zero)-2]...), 0x80, 0x00, 0x00)
	cases := map[string]struct {
		in   []byte
		want error
	}{
		"nothing":           {nil, state.ErrCorrupt},
		"version 0":         {append([]byte{0}, valid[1:]...), state.ErrFormat},
		"version 2":         {append([]byte{2}, valid[1:]...), state.ErrFormat},
		"bytes behind":      {append(append([]byte{}, valid...), 0), state.ErrCorrupt},
		"unsorted inputs":   {unsorted.Append(nil), state.ErrCorrupt},
		"a store twice":     {twice.Append(nil), state.ErrCorrupt},
		"an unnamed topic":  {unnamed.Append(nil), state.ErrCorrupt},
		"a negative offset": {negative.Append(nil), state.ErrCorrupt},
		"a padded number":   {padded, state.ErrCorrupt},
		"a huge count":      {append(zero[:len(zero)-2:len(zero)-2], huge...), state.ErrCorrupt},
	}
	for name, c := range cases {
		if p, err := state.ParsePositions(c.in); !errors.Is(err, c.want) || !p.Equal(state.Positions{}) {
			t.Errorf("%s: got %v and %v, want %v", name, p, err, c.want)
		}
	}
}

// FuzzParsePositions: whatever is accepted is valid and has exactly the bytes that were given.
func FuzzParsePositions(f *testing.F) {
	f.Add(samplePositions().Append(nil))
	f.Add((state.Positions{}).Append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := state.ParsePositions(b)
		if err != nil {
			if !errors.Is(err, state.ErrCorrupt) && !errors.Is(err, state.ErrFormat) {
				t.Fatalf("an error without a class: %v", err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("accepted %v: %v", p, err)
		}
		if again := p.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("parsed %x, which is written as %x", b, again)
		}
	})
}

// TestFormatExample is the example in FORMAT.md.
func TestFormatExample(t *testing.T) {
	p := state.Positions{
		Round:  state.RoundID{ProducerID: 4, Epoch: 7, Incarnation: 0xbeef},
		State:  state.RoundID{ProducerID: 4, Epoch: 6, Incarnation: 0xbeef},
		Inputs: []state.Input{{Topic: "t", Offset: 12, StreamTime: state.NoTime}},
	}
	document, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	squeezed := strings.Join(strings.Fields(string(document)), "")
	if want := hexOf(p.Append(nil)); !strings.Contains(squeezed, want) {
		t.Errorf("FORMAT.md does not contain %s", want)
	}
	if zero := (state.Positions{}).Append(nil); len(zero) != 1+36+2 {
		t.Errorf("the zero value has %d bytes", len(zero))
	}
}
