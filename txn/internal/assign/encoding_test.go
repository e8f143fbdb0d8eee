package assign

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

func exampleJoin() Join {
	return Join{
		Nonce: 7, Fingerprint: [8]byte{1, 2, 3, 4, 5, 6, 7, 8},
		Subtopologies: []Subtopology{{Name: "a", Sources: []string{"a", "b"}, PartitionsMax: 300, Stateful: true}, {Name: "c", Sources: []string{"c"}}},
		Local: []LocalTask{
			{graph.TaskID{Subtopology: "a", Partition: 0}, 1000}, {graph.TaskID{Subtopology: "a", Partition: 5}, 0},
			{graph.TaskID{Subtopology: "c", Partition: 1}, 1},
		},
		Stopped: []StoppedTask{{graph.TaskID{Subtopology: "a", Partition: 5}, "lost its log"}},
		Address: "10.0.0.1:7000", Standbys: 1, Rack: "east",
		Warm: []graph.TaskID{{Subtopology: "a", Partition: 2}, {Subtopology: "a", Partition: 300}, {Subtopology: "c", Partition: 0}},
	}
}

func examplePlan() Plan {
	return Plan{
		ID:      1<<32 | 9,
		Pending: []Move{{graph.TaskID{Subtopology: "a", Partition: 2}, "one", "two"}},
		Entries: []Entry{
			{Member: "one", Fingerprint: [8]byte{9}, Subscription: 3},
			{Member: "two", Subscription: 4, Stopped: 300, Address: "10.0.0.2:7000", Standbys: 2, Rack: "west"},
		},
		Copies: []Copy{
			{Task: graph.TaskID{Subtopology: "a", Partition: 2}, Member: "one"},
			{Task: graph.TaskID{Subtopology: "a", Partition: 70}, Member: "one", Awaited: true},
			{Task: graph.TaskID{Subtopology: "c", Partition: 0}, Member: "two"},
		},
		Owners: []Owner{
			{Task: graph.TaskID{Subtopology: "a", Partition: 0}, Member: "one"}, {Task: graph.TaskID{Subtopology: "a", Partition: 300}, Member: "one"},
			{Task: graph.TaskID{Subtopology: "c", Partition: 0}, Member: "two"},
		},
	}
}

// The golden texts are what other builds send and read. A change of one is a change of the format.
const (
	goldenJoin = "0103" + "01080000000000000007" + "02080102030405060708" + "030a0161ac02020161" + "016201" + "0306016300010163" +
		"040801610200e8070500" + "04050163010101" + "05100161050c6c6f737420697473206c6f67" +
		"060d31302e302e302e313a37303030" + "070101" + "080465617374" + "090601610202ac02" + "090401630100"
	goldenPlan = "010301080000000100000009020b016102036f6e650374776f0318036f6e6509000000000000000000000000000003000000" + "00" +
		"032a0374776f00000000000000000000000000000004ac020d31302e302e302e323a37303030" + "02" + "0477657374" +
		"040a036f6e65016102048d01" + "04080374776f01630100" +
		"050a036f6e6501610200ac02" + "05080374776f01630100"
)

func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{"join": {exampleJoin().Encode(), goldenJoin}, "plan": {examplePlan().Encode(), goldenPlan}} {
		if got := hex.EncodeToString(c.data[:len(c.data)-4]); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
	if j, err := DecodeJoin(exampleJoin().Encode()); err != nil || !reflect.DeepEqual(j, exampleJoin()) {
		t.Errorf("read back %+v, %v", j, err)
	}
	if p, err := DecodePlan(examplePlan().Encode()); err != nil || !reflect.DeepEqual(p, examplePlan()) {
		t.Errorf("read back %+v, %v", p, err)
	}
}

// TestNextVersion: what a newer minor version adds is skipped, and what an older one left out is
// zero.
func TestNextVersion(t *testing.T) {
	newer := []byte{formatMajor, formatMinor + 1}
	newer = appendField(newer, 99, []byte("a field of the future"))
	newer = appendField(newer, planID, append(binary.BigEndian.AppendUint64(nil, 4), "and more"...))
	entry := append(appendString(nil, "one"), make([]byte, 16)...)
	newer = appendField(newer, planEntry, append(appendString(append(appendString(append(entry, 2), "a:1"), 1), "east"), "and more"...))
	want := []Entry{{Member: "one", Stopped: 2, Address: "a:1", Standbys: 1, Rack: "east"}}
	if p, err := DecodePlan(appendCheck(newer)); err != nil || p.ID != 4 || !reflect.DeepEqual(p.Entries, want) {
		t.Errorf("a newer plan is read as %+v, %v", p, err)
	}
	older := appendField([]byte{formatMajor, 0}, planEntry, entry)
	if p, err := DecodePlan(appendCheck(older)); err != nil || !reflect.DeepEqual(p.Entries, []Entry{{Member: "one"}}) {
		t.Errorf("an older plan is read as %+v, %v", p, err)
	}
	if j, err := DecodeJoin(appendCheck([]byte{formatMajor, 0})); err != nil || !reflect.DeepEqual(j, Join{}) {
		t.Errorf("an older join is read as %+v, %v", j, err)
	}
	definition := appendString(append(appendString(nil, "a"), 0, 1), "a") // without flags
	data := appendField(appendField([]byte{formatMajor, 1}, joinDefinition, definition), joinDefinition, append(definition, 1, 5))
	wantJoin := Join{Subtopologies: []Subtopology{{Name: "a", Sources: []string{"a"}}, {Name: "a", Sources: []string{"a"}, Stateful: true}}}
	if j, err := DecodeJoin(appendCheck(data)); err != nil || !reflect.DeepEqual(j, wantJoin) {
		t.Errorf("definitions of an older and of a newer build are read as %+v, %v", j, err)
	}
	if _, err := DecodePlan(appendCheck([]byte{formatMajor + 1, 0})); !errors.Is(err, ErrUserData) || !errors.Is(err, state.ErrFormat) || !strings.Contains(err.Error(), "major version 2, this build reads 1") {
		t.Errorf("another major version: %v", err)
	}
}

func TestEveryDamageIsSeen(t *testing.T) {
	data := exampleJoin().Encode()
	for i := range data {
		if _, err := DecodeJoin(data[:i]); !errors.Is(err, ErrUserData) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := DecodeJoin(data); i != 1 && !errors.Is(err, ErrUserData) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
			data[i] ^= 1 << bit
		}
	}
}

func TestLongReasonsAreCut(t *testing.T) {
	j := Join{Stopped: []StoppedTask{{Task: in(0), Reason: strings.Repeat("ü", reasonMax)}}}
	got, err := DecodeJoin(j.Encode())
	if err != nil || got.Stopped[0].Reason != strings.Repeat("ü", reasonMax/2) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzDecodeJoin(f *testing.F) {
	f.Add(exampleJoin().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, input := range [][]byte{data, appendCheck(append([]byte{formatMajor, 0}, data...))} {
			j, err := DecodeJoin(input)
			if err != nil {
				continue
			}
			// The decoded data are no danger to the plan, and survive another trip, except for
			// reasons that are too long.
			Balance(Request{Members: []Member{{ID: "a", Join: j}, {ID: "b", Join: j}}, Partitions: map[string]int32{"a": 2, "b": 3}})
			again, err := DecodeJoin(j.Encode())
			if err != nil || again.Entry("x") != j.Entry("x") || len(again.Local) != len(j.Local) || len(again.Stopped) != len(j.Stopped) {
				t.Fatalf("%+v came back as %+v, %v", j, again, err)
			}
		}
	})
}

func FuzzDecodePlan(f *testing.F) {
	f.Add(examplePlan().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, input := range [][]byte{data, appendCheck(append([]byte{formatMajor, 0}, data...))} {
			p, err := DecodePlan(input)
			if err != nil {
				continue
			}
			if again, err := DecodePlan(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf("%+v came back as %+v, %v", p, again, err)
			}
		}
	})
}
