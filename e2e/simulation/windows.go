package simulation

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The topics of the subject of windows.
const (
	EventsTopic = "events"
	ClosedTopic = "closed"
)

// The windows.
const (
	WindowSize  = 10 * time.Second
	WindowGrace = 5 * time.Second
)

// Moment is an event with the time that it has happened at, in milliseconds since the epoch.
type Moment struct {
	ID int64 `json:"id"`
	At int64 `json:"at"`
}

// WindowSum is the value of a window: how many events it has, and the sum of their ids.
type WindowSum struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum"`
}

// windows adds events up in windows of event time.
type windows struct {
	plain
	made int64
	keys map[string]bool
}

// Windows adds up the events of each key in tumbling windows with a grace, and writes a window when
// it closes. Event times are those of the values; some events come too late.
func Windows() (Subject, error) {
	b := topology.NewBuilder("windows")
	declareWindows(b)
	t, err := b.Build()
	return newWindows("windows", t), err
}

// declareWindows adds the windows to a topology, and returns the stream of the events.
func declareWindows(b *topology.Builder) topology.Stream[string, Moment] {
	key, moment, sum := schemas.String(), schemas.JSON[Moment](), schemas.JSON[WindowSum]()
	w := topology.Tumbling(WindowSize).Grace(WindowGrace)
	// The retention is longer than any run: what has expired cannot be compared with the changelog.
	store := topology.WindowStore("sums", key, sum, 24*time.Hour)
	events := topology.From(b, topology.Topic(EventsTopic, key, moment), topology.EventTime(
		func(r topology.Record[string, Moment]) (time.Time, error) { return time.UnixMilli(r.Value.At), nil }))
	topology.AggregateWindows(events, w, store, nil, addUp).Closed().Into(topology.Topic(ClosedTopic, topology.WindowedCodec(key, w.Size()), sum))
	return events
}

// addUp adds an event to a window.
func addUp(sofar WindowSum, r topology.Record[string, Moment]) (WindowSum, error) {
	return WindowSum{sofar.Count + 1, sofar.Sum + r.Value.ID}, nil
}

// newWindows returns the subject of the windows in a topology that has them.
func newWindows(name string, t *topology.Topology) *windows {
	return &windows{plain: newPlain(name, t), keys: map[string]bool{}}
}

const (
	windowKeys = 20
	// latenessMax is how far the time of an event is behind the clock. An event is late if another
	// one of its partition is ahead of it by its window and the grace.
	latenessMax = 25 * time.Second
	// finishAhead closes all windows, and is less ahead of the clock than an application accepts
	// (txn.Config.MaxFutureTimestamp).
	finishAhead = 30 * time.Minute
)

func (s *windows) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	records := make([]*kgo.Record, 0, n)
	for range n {
		key := fmt.Sprint("key-", f.Rng.IntN(windowKeys))
		s.keys[key] = true
		lateness := time.Duration(f.Rng.Int64N(int64(latenessMax)))
		if f.Rng.IntN(2) == 0 {
			lateness = 0
		}
		r, err := s.event(key, time.Now().Add(-lateness))
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

func (s *windows) event(key string, at time.Time) (*kgo.Record, error) {
	s.made++
	value, err := json.Marshal(Moment{ID: s.made, At: at.UnixMilli()})
	return &kgo.Record{Topic: EventsTopic, Key: []byte(key), Value: value}, err
}

// Finish sends an event of each key, far ahead: every partition that has events gets one at least,
// which closes all of its windows.
func (s *windows) Finish(f *Feed, inflight *sync.WaitGroup) error {
	var records []*kgo.Record
	at := time.Now().Add(finishAhead)
	for key := range s.keys {
		r, err := s.event(key, at)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

// Judge wants each window of [closings] to be written exactly once, and those of one input
// partition in their order.
func (s *windows) Judge(log map[string][][]*kgo.Record) []string {
	wrong := s.judgeInputs(log, EventsTopic)
	var expected []closing
	index := map[windowKey]int{}
	partitions := map[string]int{}
	for p, records := range log[EventsTopic] {
		of, err := closings(records)
		if err != nil {
			return append(wrong, fmt.Sprintf("%s: %s[%d]: %v", s.name, EventsTopic, p, err))
		}
		for _, r := range records {
			partitions[string(r.Key)] = p
		}
		for _, c := range of {
			index[c.windowKey] = len(expected)
			expected = append(expected, c)
		}
	}
	written := make([]int, len(expected))
	for p, records := range log[ClosedTopic] {
		last := map[int]int{} // by input partition the index of the last one in expected
		for _, r := range records {
			got, err := decodeClosing(r)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s[%d] offset %d: %v", s.name, ClosedTopic, p, r.Offset, err))
				continue
			}
			i, there := index[got.windowKey]
			from := partitions[got.key]
			before, follows := last[from]
			switch {
			case !there:
				wrong = append(wrong, fmt.Sprintf("%s: %s[%d] offset %d: %v has not closed", s.name, ClosedTopic, p, r.Offset, got))
				continue
			case got != expected[i]:
				wrong = append(wrong, fmt.Sprintf("%s: %s[%d] offset %d: %v, want %v", s.name, ClosedTopic, p, r.Offset, got, expected[i]))
			case follows && i <= before:
				wrong = append(wrong, fmt.Sprintf("%s: %s[%d] offset %d: %v behind %v", s.name, ClosedTopic, p, r.Offset, got, expected[before]))
			}
			last[from] = i
			written[i]++
		}
	}
	for i, n := range written {
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %v is written %d times", s.name, expected[i], n))
		}
	}
	return wrong
}

// windowKey is a key and the start of a window.
type windowKey struct {
	key   string
	start int64
}

// closing is a window that has closed. at is the largest time of its events.
type closing struct {
	windowKey
	WindowSum
	at int64
}

func (c closing) String() string {
	return fmt.Sprintf("window %s@%d with %d events, ids %d, at %d", c.key, c.start, c.Count, c.Sum, c.at)
}

// closings computes from the events of a partition, in the order of its log, which windows close,
// in their order. The time of the partition is the largest one of the events so far. An event that
// moves it closes the windows whose end and grace it has reached, and then counts itself. An event
// for a window that is closed is left out.
func closings(records []*kgo.Record) (closed []closing, err error) {
	open := map[windowKey]closing{}
	now := int64(-1)
	over := func(start int64) bool { return start+WindowSize.Milliseconds()+WindowGrace.Milliseconds() <= now }
	for _, r := range records {
		var m Moment
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return nil, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		now = max(now, m.At)
		first := len(closed)
		for k, c := range open {
			if over(k.start) {
				closed = append(closed, c)
				delete(open, k)
			}
		}
		slices.SortFunc(closed[first:], func(a, b closing) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
		})
		k := windowKey{string(r.Key), m.At - m.At%WindowSize.Milliseconds()}
		if over(k.start) {
			continue
		}
		c := open[k]
		open[k] = closing{k, WindowSum{c.Count + 1, c.Sum + m.ID}, max(c.at, m.At)}
	}
	return closed, nil
}

// decodeClosing reads a record of a window: its key ends with the start of the window.
func decodeClosing(r *kgo.Record) (c closing, err error) {
	const startBytes = 8
	if len(r.Key) < startBytes {
		return c, fmt.Errorf("the key %q has no window", r.Key)
	}
	key, start := r.Key[:len(r.Key)-startBytes], r.Key[len(r.Key)-startBytes:]
	c.windowKey = windowKey{string(key), int64(binary.BigEndian.Uint64(start))}
	c.at = r.Timestamp.UnixMilli()
	return c, json.Unmarshal(r.Value, &c.WindowSum)
}
