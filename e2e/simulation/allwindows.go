package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The topics of the subject of all windows, beside those of [Windows].
const (
	// HopsTopic has every update of hopping windows, and CalmTopic those that a suppression lets
	// pass.
	HopsTopic = "hops"
	CalmTopic = "calm"
	// NearTopic has sliding windows that have closed.
	NearTopic = "near"
	// VisitsTopic has every update of sessions, and OverTopic those that have closed.
	VisitsTopic = "visits"
	OverTopic   = "over"
)

const (
	hopSize    = 10 * time.Second
	hopAdvance = 5 * time.Second
	hopGrace   = 5 * time.Second
	calmLimit  = 7 * time.Second
	nearLimit  = 3 * time.Second
	visitGap   = time.Second
	// patience is the grace of sliding windows and sessions. No event comes later, because a producer
	// keeps the order within a partition. So the order of the events makes no difference.
	patience = latenessMax + 5*time.Second
	// keptFor is longer than any run: what has expired cannot be compared with the changelog.
	keptFor = 24 * time.Hour
)

// allWindows has windows of every kind. Its tumbling windows are those of [Windows].
type allWindows struct{ *windows }

// AllWindows adds up the events of [Windows] in tumbling, hopping and sliding windows and in
// sessions. It writes updates, those that a suppression lets pass, and closed windows.
func AllWindows() (Subject, error) {
	b := topology.NewBuilder("all-windows")
	events := declareWindows(b)
	key, sum := schemas.String(), schemas.JSON[WindowSum]()
	text := topology.WindowedTextCodec(key)
	hopping := topology.Hopping(hopSize, hopAdvance).Grace(hopGrace)
	hops := topology.AggregateWindows(events, hopping, topology.WindowStore("hops", key, sum, keptFor), nil, addUp)
	hops.Into(topology.Topic(HopsTopic, text, sum))
	hops.Suppress("calm", text, sum, topology.UntilTimeLimit(calmLimit)).Into(topology.Topic(CalmTopic, text, sum))
	sliding := topology.Sliding(nearLimit).Grace(patience)
	topology.AggregateWindows(events, sliding, topology.WindowStore("near", key, sum, keptFor), nil, addUp).
		Closed().Into(topology.Topic(NearTopic, text, sum))
	sessions := topology.Sessions(visitGap).Grace(patience)
	visits := topology.AggregateSessions(events, sessions, topology.SessionStore("visits", key, sum, keptFor), nil, addUp,
		func(_ string, a, b WindowSum) (WindowSum, error) {
			return WindowSum{a.Count + b.Count, a.Sum + b.Sum}, nil
		})
	visits.Into(topology.Topic(VisitsTopic, text, sum))
	visits.Closed().Into(topology.Topic(OverTopic, text, sum))
	t, err := b.Build()
	return &allWindows{newWindows("all-windows", t)}, err
}

// windowState is a window with its value, and the largest time of its events.
type windowState struct {
	topology.Windowed[string]
	WindowSum
	at int64
}

// Judge computes all windows again. Updates and what is left of them depend on the order of the
// events, which is that of the log of a partition.
func (s *allWindows) Judge(log map[string][][]*kgo.Record) []string {
	wrong := s.windows.Judge(log)
	add := func(topic string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s: %v", s.name, topic, err))
		}
	}
	var updates, calm, near, over []windowState
	for p, records := range log[EventsTopic] {
		events, err := momentsOf(records)
		if err != nil {
			add(fmt.Sprintf("%s[%d]", EventsTopic, p), err)
			return wrong
		}
		add(fmt.Sprintf("%s[%d]", EventsTopic, p), patient(events))
		hops := hopsOf(events)
		updates, calm = append(updates, hops...), append(calm, calmOf(hops)...)
		near, over = append(near, nearOf(events)...), append(over, visitsOf(events)...)
	}
	add(HopsTopic, judgeHistories(log[HopsTopic], updates))
	add(CalmTopic, judgeHistories(log[CalmTopic], calm))
	// The last events are far ahead: they close all windows but those that they are in themselves.
	last := int64(0)
	for _, v := range over {
		last = max(last, v.End)
	}
	closed := func(of []windowState) []windowState {
		return slices.DeleteFunc(slices.Clone(of), func(w windowState) bool { return w.End >= last })
	}
	add(NearTopic, judgeHistories(log[NearTopic], closed(near)))
	add(OverTopic, judgeHistories(log[OverTopic], closed(over)))
	add(VisitsTopic, judgeLast(log[VisitsTopic], over))
	return wrong
}

// patient returns an error if an event is later than the grace of sliding windows and sessions, whose
// results are not known then.
func patient(events []keyedMoment) error {
	now := int64(-1)
	for _, e := range events {
		if now = max(now, e.At); now-e.At > patience.Milliseconds() {
			return fmt.Errorf("event %d is %d ms late, which is not judged", e.ID, now-e.At)
		}
	}
	return nil
}

// hopsOf returns every update of the hopping windows of a partition, in the order of its events.
func hopsOf(events []keyedMoment) (updates []windowState) {
	open, now := map[topology.Windowed[string]]windowState{}, int64(-1)
	size, advance := hopSize.Milliseconds(), hopAdvance.Milliseconds()
	for _, e := range events {
		now = max(now, e.At)
		for start := e.At - e.At%advance - size + advance; start <= e.At; start += advance {
			if start+size+hopGrace.Milliseconds() <= now {
				continue // the window is closed
			}
			w := topology.Windowed[string]{Key: e.key, Start: start, End: start + size}
			before := open[w]
			open[w] = windowState{w, WindowSum{before.Count + 1, before.Sum + e.ID}, max(before.at, e.At)}
			updates = append(updates, open[w])
		}
	}
	return updates
}

// calmOf returns the updates of a partition that a suppression lets pass. The first update of a
// window waits for the limit, later ones take its place, and the last one is emitted.
func calmOf(updates []windowState) (emitted []windowState) {
	type waiting struct {
		since int64
		windowState
	}
	var held []waiting // in the order in which they began to wait
	now := int64(-1)
	for _, u := range updates {
		i := slices.IndexFunc(held, func(w waiting) bool { return w.Windowed == u.Windowed })
		if i < 0 {
			i = len(held)
			held = append(held, waiting{since: u.at})
		}
		held[i].windowState = u
		now = max(now, u.at)
		held = slices.DeleteFunc(held, func(w waiting) bool {
			due := w.since+calmLimit.Milliseconds() <= now
			if due {
				emitted = append(emitted, w.windowState)
			}
			return due
		})
	}
	return emitted
}

// byTime returns the events of each key, by their times.
func byTime(events []keyedMoment) map[string][]keyedMoment {
	of := map[string][]keyedMoment{}
	for _, e := range events {
		of[e.key] = append(of[e.key], e)
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b keyedMoment) int { return cmp.Compare(a.At, b.At) })
	}
	return of
}

// sumOf adds up the events with times from start to end.
func sumOf(key string, events []keyedMoment, start, end int64) windowState {
	w := windowState{Windowed: topology.Windowed[string]{Key: key, Start: start, End: end}}
	for _, e := range events {
		if e.At >= start && e.At <= end {
			w.Count, w.Sum, w.at = w.Count+1, w.Sum+e.ID, max(w.at, e.At)
		}
	}
	return w
}

// nearOf returns the sliding windows of a partition. One ends with each event. Another one begins a
// millisecond behind it, if there is an event in it.
func nearOf(events []keyedMoment) (windows []windowState) {
	for key, list := range byTime(events) {
		starts := map[int64]bool{}
		for _, e := range list {
			starts[e.At-nearLimit.Milliseconds()], starts[e.At+1] = true, true
		}
		for start := range starts {
			if w := sumOf(key, list, start, start+nearLimit.Milliseconds()); w.Count > 0 {
				windows = append(windows, w)
			}
		}
	}
	return windows
}

// visitsOf returns the sessions of a partition.
func visitsOf(events []keyedMoment) (sessions []windowState) {
	for key, list := range byTime(events) {
		start := list[0].At
		for i, e := range list {
			if i+1 < len(list) && list[i+1].At-e.At <= visitGap.Milliseconds() {
				continue
			}
			sessions = append(sessions, sumOf(key, list, start, e.At))
			if i+1 < len(list) {
				start = list[i+1].At
			}
		}
	}
	return sessions
}

// windowRecords reads the windows in a topic. A window without a value is deleted, and has no
// events.
func windowRecords(partitions [][]*kgo.Record) (windows []windowState, err error) {
	codec := topology.WindowedTextCodec(schemas.String())
	for _, r := range slices.Concat(partitions...) {
		w := windowState{at: r.Timestamp.UnixMilli()}
		if w.Windowed, err = codec.Decode(r.Key); err == nil && r.Value != nil {
			err = json.Unmarshal(r.Value, &w.WindowSum)
		}
		if err != nil {
			return nil, fmt.Errorf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
		}
		windows = append(windows, w)
	}
	return windows, nil
}

// histories returns the values of each window, in their order.
func histories(windows []windowState) map[topology.Windowed[string]][]windowState {
	of := map[topology.Windowed[string]][]windowState{}
	for _, w := range windows {
		of[w.Windowed] = append(of[w.Windowed], w)
	}
	return of
}

// judgeHistories wants the windows in a topic to have exactly these values, each window in their
// order.
func judgeHistories(partitions [][]*kgo.Record, want []windowState) error {
	got, err := windowRecords(partitions)
	if err != nil {
		return err
	}
	if len(want) == 0 {
		return errors.New("there is nothing to judge")
	}
	written, wanted := histories(got), histories(want)
	for w, values := range wanted {
		if !slices.Equal(written[w], values) {
			return fmt.Errorf("window %+v has the values %+v, want %+v", w, written[w], values)
		}
		delete(written, w)
	}
	for w, values := range written {
		return fmt.Errorf("window %+v has the values %+v, want none", w, values)
	}
	return nil
}

// judgeLast wants the windows in a topic to end with these values, and every other one deleted.
func judgeLast(partitions [][]*kgo.Record, want []windowState) error {
	got, err := windowRecords(partitions)
	if err != nil {
		return err
	}
	last, wanted := map[topology.Windowed[string]]WindowSum{}, map[topology.Windowed[string]]WindowSum{}
	for _, w := range got {
		if last[w.Windowed] = w.WindowSum; w.Count == 0 {
			delete(last, w.Windowed)
		}
	}
	for _, w := range want {
		wanted[w.Windowed] = w.WindowSum
	}
	if maps.Equal(last, wanted) {
		return nil
	}
	for w, v := range wanted {
		if last[w] != v {
			return fmt.Errorf("session %+v ends as %+v, want %+v", w, last[w], v)
		}
	}
	return fmt.Errorf("%d sessions are left, want %d", len(last), len(wanted))
}
