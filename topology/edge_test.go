package topology

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// encodeRecord writes the record as the first one of a batch, as the record format says.
func encodeRecord(out *graph.Output) []byte {
	varint := binary.AppendVarint
	blob := func(b, data []byte) []byte {
		if data == nil {
			return varint(b, -1)
		}
		return append(varint(b, int64(len(data))), data...)
	}
	body := []byte{0, 0, 0} // attributes, timestamp delta, offset delta
	body = blob(blob(body, out.Key), out.Value)
	body = varint(body, int64(len(out.Headers)))
	for _, h := range out.Headers {
		body = blob(append(varint(body, int64(len(h.Key))), h.Key...), h.Value)
	}
	return append(varint(nil, int64(len(body))), body...)
}

func TestBatchBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blob := rapid.OneOf(
			rapid.Just[[]byte](nil),
			rapid.SliceOfN(rapid.Byte(), 0, 10),
			rapid.Map(rapid.SampledFrom([]int{62, 63, 64, 65, 8190, 8191, 8192, 8193}), func(n int) []byte {
				return make([]byte, n)
			}),
		)
		out := graph.Output{Key: blob.Draw(t, "key"), Value: blob.Draw(t, "value")}
		for range rapid.IntRange(0, 70).Draw(t, "headers") {
			h := Header{Key: string(blob.Draw(t, "name")), Value: blob.Draw(t, "header")}
			out.Headers = append(out.Headers, h)
		}
		if got, want := batchBytes(&out), batchOverheadBytes+len(encodeRecord(&out)); got != want {
			t.Fatalf("batchBytes is %d, want %d", got, want)
		}
	})
}

// copyGraph copies raw records from in to out.
func copyGraph(tb testing.TB, cfg GraphConfig) *Graph {
	tb.Helper()
	b := NewBuilder("copy", DeadLetters("dead"))
	From(b, Topic("in", schemas.Bytes(), schemas.Bytes())).
		Into(Topic("out", schemas.Bytes(), schemas.Bytes()))
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Partitions = func(string) int32 { return 1 }
	g, err := t.NewGraph(graph.TaskID{Subtopology: "in", Partition: 0}, nil, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// TestSizeLimit: the largest record that fits, and one byte more.
func TestSizeLimit(t *testing.T) {
	const limit = 20 << 10
	g := copyGraph(t, GraphConfig{Now: time.Now, MaxMessageBytes: func(string) int32 { return limit }})
	value := make([]byte, limit)
	for batchBytes(&graph.Output{Key: []byte("k"), Value: value}) > limit {
		value = value[:len(value)-1]
	}
	if v := g.Process(graph.Input{Topic: "in", Key: []byte("k"), Value: value}); v.Action != graph.Accept {
		t.Errorf("a record of the largest size: %v", v.Failure)
	}
	v := g.Process(graph.Input{Topic: "in", Key: []byte("kk"), Value: value})
	reason := fmt.Sprintf("has %d bytes as a batch of its own, topic out takes %d", limit+1, limit)
	if v.Action != DeadLetter || v.Failure.Class != Validation || v.Failure.Node != "out-sink" ||
		!strings.Contains(v.Failure.Reason(), reason) {
		t.Errorf("a record of one byte more: %s, %v", v.Action, v.Failure)
	}
	if len(v.Outputs) != 1 || batchBytes(&v.Outputs[0]) > limit {
		t.Errorf("its dead letter does not fit")
	}
}

func TestNullKeyOfCompactedTopic(t *testing.T) {
	compacted := func(topic string) bool { return topic == "out" }
	g := copyGraph(t, GraphConfig{Now: time.Now, Compacted: compacted})
	if v := g.Process(graph.Input{Topic: "in", Key: []byte{}}); v.Action != graph.Accept {
		t.Errorf("an empty key: %v", v.Failure)
	}
	v := g.Process(graph.Input{Topic: "in", Value: []byte("v")})
	if v.Action != DeadLetter || v.Failure.Class != Validation || v.Failure.Node != "out-sink" {
		t.Errorf("a null key: %s, %v", v.Action, v.Failure)
	}
}

// TestTimestamps: the clock moves, and is read only when it has to be.
func TestTimestamps(t *testing.T) {
	clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reads := 0
	g := copyGraph(t, GraphConfig{
		Now:                func() time.Time { reads++; return clock },
		MaxFutureTimestamp: time.Minute,
	})
	process := func(at time.Time) graph.Verdict {
		return g.Process(graph.Input{Topic: "in", Timestamp: at.UnixMilli()})
	}
	for range 100 {
		if v := process(clock.Add(time.Minute)); v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
	}
	if reads != 1 {
		t.Errorf("the clock was read %d times for 100 records", reads)
	}
	v := process(clock.Add(time.Minute + time.Millisecond))
	if v.Action != DeadLetter || v.Failure.Class != Validation ||
		v.Outputs[0].Timestamp != clock.UnixMilli() {
		t.Errorf("a timestamp that is too far ahead: %s, %v", v.Action, v.Failure)
	}
	clock = clock.Add(time.Second)
	if v := process(clock.Add(time.Minute)); v.Action != graph.Accept {
		t.Errorf("the limit does not move with the clock: %v", v.Failure)
	}
	v = g.Process(graph.Input{Topic: "in", Timestamp: -1})
	if v.Action != DeadLetter || v.Failure.Class != Validation ||
		v.Outputs[0].Timestamp != clock.UnixMilli() {
		t.Errorf("a negative timestamp: %s, %v", v.Action, v.Failure)
	}
	free := copyGraph(t, GraphConfig{Now: time.Now, MaxFutureTimestamp: -1})
	if v := free.Process(graph.Input{Topic: "in", Timestamp: 1 << 60}); v.Action != graph.Accept {
		t.Errorf("without a limit: %v", v.Failure)
	}
}

// TestOutputTimestamp: a sink refuses what a source would refuse.
func TestOutputTimestamp(t *testing.T) {
	b := NewBuilder("future", DeadLetters("dead"))
	s := From(b, Topic("in", schemas.Bytes(), schemas.Bytes()))
	Map(s, "later", func(r Record[[]byte, []byte]) (Record[[]byte, []byte], error) {
		r.Timestamp += int64(len(r.Value)) * time.Hour.Milliseconds()
		return r, nil
	}).Into(Topic("out", schemas.Bytes(), schemas.Bytes()))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g, err := built.NewGraph(graph.TaskID{Subtopology: "in", Partition: 0}, nil, GraphConfig{
		Partitions: func(string) int32 { return 1 },
		Now:        func() time.Time { return time.UnixMilli(1000) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := g.Process(graph.Input{Topic: "in", Timestamp: 1000, Value: []byte("x")}); v.Action != graph.Accept {
		t.Errorf("an hour ahead, which is the default limit: %v", v.Failure)
	}
	v := g.Process(graph.Input{Topic: "in", Timestamp: 1000, Value: []byte("xx")})
	if v.Action != DeadLetter || v.Failure.Node != "out-sink" || v.Outputs[0].Timestamp != 1000 {
		t.Errorf("two hours ahead: %s, %v", v.Action, v.Failure)
	}
}

// TestArena: what is taken is what was put in, stays so until the next unit of work, and has no room
// behind it.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SampledFrom([]int{
			0, 1, 100, arenaChunk/8 - 1, arenaChunk / 8, arenaChunk, arenaChunk + 1,
		})
		var a arena
		var taken, want [][]byte
		for i := range rapid.IntRange(1, 200).Draw(t, "n") {
			if rapid.IntRange(0, 9).Draw(t, "next unit") == 0 {
				a.reset()
				taken, want = nil, nil
			}
			n := sizes.Draw(t, "size")
			v := bytes.Repeat([]byte{byte(i + 1)}, n)
			b, err := take(&a, schemas.Bytes(), v)
			if err != nil || b == nil || cap(b) != len(b) {
				t.Fatalf("taking %d bytes gives %d with room for %d, %v", n, len(b), cap(b), err)
			}
			taken, want = append(taken, b), append(want, v)
		}
		for i := range taken {
			if !bytes.Equal(taken[i], want[i]) {
				t.Fatalf("slice %d was written over", i)
			}
		}
	})
}

// TestArenaAfterError: a value that cannot be encoded leaves nothing behind.
func TestArenaAfterError(t *testing.T) {
	var a arena
	first, _ := take(&a, schemas.String(), "first")
	if b, err := take(&a, schemas.String(), "\xff"); err == nil {
		t.Fatalf("a string that is no UTF-8 gives %q", b)
	}
	second, _ := take(&a, schemas.String(), "second")
	if string(first) != "first" || string(second) != "second" {
		t.Errorf("%q and %q", first, second)
	}
}
