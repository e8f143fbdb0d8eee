package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestDeadLetterRoundTrip reads back what a dead letter says.
func TestDeadLetterRoundTrip(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("conflict"))
	in.Partition, in.Offset, in.TimestampType, in.Timestamp = 3, 41, graph.LogAppendTime, 1234
	in.Attempt, in.FirstFailure = 3, now.Add(-time.Minute)
	letter := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
	info, err := graph.ParseDeadLetter(letter.Headers)
	if err != nil {
		t.Fatal(err)
	}
	origin := graph.DeadLetterOrigin{
		Topic: "words", Partition: 3, Offset: 41, Timestamp: 1234, TimestampType: graph.LogAppendTime,
	}
	wantInfo := graph.DeadLetterInfo{
		ID:          graph.DeadLetterID("dying", origin),
		Application: "dying", Version: dying(t).Fingerprint(), Task: "words_3", Node: "judge",
		Class: topology.Conflict, Message: "told to fail", Attempts: 3,
		FirstFailure: now.Add(-time.Minute), LastFailure: now,
		Origin: origin, LastTimestamp: 1234,
		Deaths: 1,
	}
	if info != wantInfo {
		t.Errorf("the dead letter says\n%+v\nwant\n%+v", info, wantInfo)
	}
}

// TestDeadLetterOfOlderBuild: a letter without the timestamp of the last death is one all the same.
func TestDeadLetterOfOlderBuild(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("conflict"))
	in.Partition = 3
	letter := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
	headers := slices.DeleteFunc(slices.Clone(letter.Headers), func(h topology.Header) bool {
		return h.Key == graph.HeaderLastTimestamp
	})
	info, err := graph.ParseDeadLetter(headers)
	if err != nil || len(headers) != len(letter.Headers)-1 || info.LastTimestamp != state.NoTime || info.Deaths != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestParseDeadLetterErrors(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("poison"))
	in.Partition = 3
	good := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0].Headers
	if _, err := graph.ParseDeadLetter(nil); !errors.Is(err, graph.ErrNoDeadLetter) {
		t.Errorf("no headers: %v", err)
	}
	if _, err := graph.ParseDeadLetter(in.Headers); !errors.Is(err, graph.ErrNoDeadLetter) {
		t.Errorf("an ordinary record: %v", err)
	}
	optional := map[string]bool{graph.HeaderCut: true}
	for i, h := range good {
		if !strings.HasPrefix(h.Key, "onceward.") || optional[h.Key] {
			continue
		}
		for _, value := range [][]byte{nil, []byte(strings.Repeat("canary", 200))} {
			bad := append([]topology.Header(nil), good...)
			bad[i].Value = value
			_, err := graph.ParseDeadLetter(bad)
			empty := h.Key == graph.HeaderNode || h.Key == graph.HeaderMessage
			if value == nil && empty {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), h.Key) ||
				strings.Contains(err.Error(), "canary") {
				t.Errorf("header %s with %d bytes: %v", h.Key, len(value), err)
			}
			// Forged headers do not become the origin of the next death.
			in.Headers = bad
			again := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
			if info, err := graph.ParseDeadLetter(again.Headers); err != nil || info.Deaths != 1 {
				t.Errorf("header %s with %d bytes, then another death: %+v, %v", h.Key, len(value), info, err)
			}
		}
	}
}

// TestDeadLetterLives (G3): what a record that dies brings of earlier deaths. Anybody can write
// that, so that whatever it is, the next letter can be read.
func TestDeadLetterLives(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("poison"))
	in.Partition = 3
	first := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0].Headers
	firstID := graph.DeadLetterID("dying", graph.DeadLetterOrigin{Topic: "words", Partition: 3, Timestamp: in.Timestamp})
	for name, test := range map[string]struct {
		header, value string
		sameID        bool
		deaths        int
	}{
		"again":                  {graph.HeaderNode, "judge", true, 2},
		"in another application": {graph.HeaderApplication, "another", false, 2},
		"very often":             {graph.HeaderDeaths, "2147483645", true, 2147483646},
		"as often as can be":     {graph.HeaderDeaths, "2147483646", true, 2147483646},
		"more often":             {graph.HeaderDeaths, "2147483647", false, 1},
	} {
		again := in
		again.Offset, again.Timestamp = 1000, in.Timestamp+1
		for _, h := range first {
			if h.Key == test.header {
				h.Value = []byte(test.value)
			}
			again.Headers = append(again.Headers, h)
		}
		info, err := graph.ParseDeadLetter(want(t, k.graph.Process(again), topology.DeadLetter).Outputs[0].Headers)
		if err != nil {
			t.Errorf("%s: the letter cannot be read: %v", name, err)
			continue
		}
		wantID, offset := firstID, int64(0)
		if !test.sameID {
			offset = 1000
			wantID = graph.DeadLetterID("dying", graph.DeadLetterOrigin{
				Topic: "words", Partition: 3, Offset: offset, Timestamp: again.Timestamp,
			})
		}
		if info.ID != wantID || info.Origin.Offset != offset || info.Deaths != test.deaths || info.Application != "dying" {
			t.Errorf("%s: the letter says %+v", name, info)
		}
	}
}

// FuzzParseDeadLetter: whatever the headers say, what is read fits into the headers of a next
// death.
func FuzzParseDeadLetter(f *testing.F) {
	f.Add("onceward.deaths", "1", "onceward.offset", "-1")
	f.Add("onceward.deaths", "2147483646", "onceward.application", "another")
	f.Add("onceward.failure.first", "2026-01-01T00:00:00Z", "onceward.class", "nonsense")
	f.Add("onceward.source", "words 3 17", "onceward.source", "words 3 000000000000000000000000000000000000017")
	k := openDying(f, 0)
	in := k.input("words", []byte("key"), []byte("poison"))
	in.Partition = 3
	good := k.graph.Process(in).Outputs[0].Headers
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		headers := append([]topology.Header(nil), good...)
		headers = append(headers, topology.Header{Key: key1, Value: []byte(value1)},
			topology.Header{Key: key2, Value: []byte(value2)})
		in.Headers = headers
		out := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
		if _, err := graph.ParseDeadLetter(out.Headers); err != nil {
			t.Errorf("a dead letter that cannot be read: %v", err)
		}
		size := 0
		for _, h := range out.Headers {
			if h.Key != key1 && h.Key != key2 {
				size += len(h.Key) + len(h.Value)
			}
		}
		if size > graph.DeadLetterHeaderBytesMax {
			t.Errorf("%d bytes of headers", size)
		}
	})
}
