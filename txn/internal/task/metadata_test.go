package task

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

func TestMetadataRoundTrip(t *testing.T) {
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
				StreamTime: rapid.Int64Range(0, math.MaxInt64).Draw(t, "store time"),
			})
		}
		want := NewCommitMetadata([8]byte{1, 2, 3}, p)
		if rapid.Bool().Draw(t, "retry") {
			want.Retry = CommittedRetry{
				Topic: rapid.Uint32().Draw(t, "retried"), Offset: rapid.Int64Range(0, math.MaxInt64).Draw(t, "at"),
				Attempts: rapid.IntRange(1, math.MaxInt32).Draw(t, "attempts"), FirstFailure: rapid.Int64().Draw(t, "failed"),
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "parked") {
			want.Parked = append(want.Parked, CommittedParked{
				Store: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "where"), Records: rapid.Int64Range(1, math.MaxInt64).Draw(t, "records"),
			})
		}
		want.Mode, want.Modeless = topology.Mode(rapid.Byte().Draw(t, "mode")), rapid.Bool().Draw(t, "modeless")
		text := want.Encode()
		got, err := ParseCommitMetadata(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if _, err := ParseCommitMetadata(text[:len(text)-1]); err == nil {
			t.Fatal("cut metadata was accepted")
		}
	})
}

// The golden texts are what other builds write and read. A change of one is a change of the format.
const (
	goldenMetadata = "ow1:AQIDBAUGBwgAAAAAAAAACQACAAAAAwAAAAAAAAAJAAEAAAADAUE4ep4OFAFZ/7uFB6wCl+LTVSO3/54"
	goldenRef      = "ow1@AAAAAAAAAAkAAgAAAAME6Ac"
	// goldenParked is goldenMetadata with records that wait.
	goldenParked = "ow1:AQIDBAUGBwgAAAAAAAAACQACAAAAAwAAAAAAAAAJAAEAAAADAUE4ep4OFAFZ/7uFB6wCl+LTVSO3/54CDAlpbi5wYXJrZWSsAg"
	// goldenModeless is goldenMetadata of an operator, without a mode.
	goldenModeless = "ow1:AQIDBAUGBwgAAAAAAAAACQACAAAAAwAAAAAAAAAJAAEAAAADAUE4ep4OFAFZ/7uFB6wCl+LTVSO3/54EAA"
)

func exampleMetadata() CommitMetadata {
	return NewCommitMetadata([8]byte{1, 2, 3, 4, 5, 6, 7, 8}, state.Positions{
		Round: state.RoundID{ProducerID: 9, Epoch: 2, Incarnation: 3}, State: state.RoundID{ProducerID: 9, Epoch: 1, Incarnation: 3},
		Inputs:     []state.Input{{Topic: "in", Offset: 14, StreamTime: 10}},
		Changelogs: []state.Changelog{{Store: "counts", TopicID: [16]byte{1}, Applied: 7, StreamTime: 300}},
	})
}

func TestGolden(t *testing.T) {
	ref := Reference{Round: state.RoundID{ProducerID: 9, Epoch: 2, Incarnation: 3}, Partition: 4, Offset: 1000}
	if got := exampleMetadata().Encode(); got != goldenMetadata {
		t.Errorf("the metadata is\n%s, want\n%s", got, goldenMetadata)
	}
	parked := exampleMetadata()
	parked.Parked = []CommittedParked{{Store: "in.parked", Records: 300}}
	if got := parked.Encode(); got != goldenParked {
		t.Errorf("with parked records the metadata is\n%s, want\n%s", got, goldenParked)
	}
	modeless := exampleMetadata()
	modeless.Modeless = true
	if got := modeless.Encode(); got != goldenModeless {
		t.Errorf("without a mode the metadata is\n%s, want\n%s", got, goldenModeless)
	}
	if got := ref.Encode(); got != goldenRef {
		t.Errorf("the reference is\n%s, want\n%s", got, goldenRef)
	}
	if got, err := ParseCommitMetadata(goldenMetadata); err != nil || !reflect.DeepEqual(got, exampleMetadata()) {
		t.Errorf("read back %+v, %v", got, err)
	}
	if got, ok := ParseReference(goldenRef); !ok || got != ref {
		t.Errorf("read back %+v, %t", got, ok)
	}
}

// TestOtherVersions: what a newer minor version adds is skipped, a newer major version is refused
// as such, whatever else is in it, and what others write is not taken for one.
func TestOtherVersions(t *testing.T) {
	body, err := unframe(kindMetadata, goldenMetadata)
	if err != nil {
		t.Fatal(err)
	}
	fields := func(b ...byte) string { return frame(kindMetadata, append(slices.Clone(body), b...)) }
	if got, err := ParseCommitMetadata(fields(99, 2, 'h', 'i', 7, 0)); err != nil || !reflect.DeepEqual(got, exampleMetadata()) {
		t.Errorf("a newer minor version is read as %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"a mode of no byte":       fields(tagMode, 0),
		"a field that is cut off": fields(99, 2, 'h'), "a tag without a field": fields(99), "no tag": fields(0, 0),
		"a store without a number": fields(tagParked, 3, 2, 'i', 'n'), "a store longer than its field": fields(tagParked, 3, 9, 'i', 'n', 1),
		"a field without end": fields(99, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
	} {
		if _, err := ParseCommitMetadata(text); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, text := range []string{"ow2:", "ow2@", "ow77:??", "ow2" + goldenMetadata[3:], "ow2" + goldenRef[3:]} {
		_, err := ParseCommitMetadata(text)
		if !errors.Is(err, state.ErrFormat) || !strings.Contains(err.Error(), "this build reads 1") {
			t.Errorf("%q: %v, want ErrFormat with both versions", text, err)
		}
		if _, ok := ParseReference(text); ok {
			t.Errorf("%q is read as a reference", text)
		}
	}
	// The second of these is how Kafka Streams begins its metadata.
	for _, text := range []string{"", "AgAAAZ", "owner: me", "ow:", "ow0:", "ow02:", "ow+2:", "ow99999:", "ow2", goldenMetadata[4:], goldenRef} {
		if _, err := ParseCommitMetadata(text); err == nil || errors.Is(err, state.ErrFormat) {
			t.Errorf("%q: %v, want something that is not ours", text, err)
		}
	}
}

// TestMetadataSize keeps an ordinary task's metadata far below what brokers store (4096 characters
// by default).
func TestMetadataSize(t *testing.T) {
	p := state.Positions{Round: state.RoundID{ProducerID: 1 << 40}}
	for range 4 {
		p.Inputs = append(p.Inputs, state.Input{Topic: strings.Repeat("t", 100), Offset: 1 << 40, StreamTime: 1 << 41})
		p.Changelogs = append(p.Changelogs, state.Changelog{Store: strings.Repeat("s", 100), Applied: 1 << 40})
	}
	if n := len(NewCommitMetadata([8]byte{}, p).Encode()); n > 256 {
		t.Errorf("the metadata of a task with four inputs and four stores has %d characters", n)
	}
}

func FuzzParseCommitMetadata(f *testing.F) {
	f.Add("")
	f.Add("bm90IG91cnM")
	f.Add("ow2:")
	parked := exampleMetadata()
	parked.Parked = []CommittedParked{{Store: "in.parked", Records: 7}}
	f.Add(parked.Encode())
	f.Add(NewCommitMetadata([8]byte{9}, state.Positions{Inputs: []state.Input{{Topic: "in", Offset: 3}}}).Encode())
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseCommitMetadata(text)
		if err != nil {
			return
		}
		again, err := ParseCommitMetadata(b.Encode())
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("%q parses to %+v, which does not survive another round: %v", text, b, err)
		}
	})
}

// FuzzParseReference: metadata that is taken for a reference names a record that there can be, and
// is the text of that reference.
func FuzzParseReference(f *testing.F) {
	f.Add("")
	f.Add("ow1@")
	f.Add("ow2@")
	f.Add(goldenRef)
	f.Add(Reference{Partition: math.MaxInt32, Offset: math.MaxInt64}.Encode())
	f.Fuzz(func(t *testing.T, text string) {
		ref, ok := ParseReference(text)
		if !ok {
			return
		}
		again, ok := ParseReference(ref.Encode())
		if !ok || again != ref || ref.Partition < 0 || ref.Offset < 0 {
			t.Fatalf("%q is read as %+v, and that as %+v, %t", text, ref, again, ok)
		}
		if _, err := ParseCommitMetadata(text); err == nil {
			t.Fatalf("%q is both a reference and the metadata itself", text)
		}
	})
}
