package processing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
)

// Broken is a way to lose, to double or to mix up what the check must find.
type Broken string

// The ways. Each of them is right as long as nothing happens that it does not expect.
const (
	// Whole is not broken.
	Whole Broken = ""
	// NoInbox lets every delivery pass.
	NoInbox Broken = "no-inbox"
	// MarksBefore notes the events that it has met, in memory and before they have had their
	// effect, and leaves out what it has noted.
	MarksBefore Broken = "marks-before"
	// MarksInFloats takes two amounts for the same that a float64 does not tell apart.
	MarksInFloats Broken = "marks-in-floats"
	// ArchivesInMemory keeps in memory what is to be archived.
	ArchivesInMemory Broken = "archives-in-memory"
	// DelaysInMemory keeps what is not let in yet in memory, and moves on.
	DelaysInMemory Broken = "delays-in-memory"
	// DropsInOutage leaves out the events that come while its marks cannot be read.
	DropsInOutage Broken = "drops-in-outage"
	// AcceptsGaps does not wait for versions that are missing.
	AcceptsGaps Broken = "accepts-gaps"
	// AsksOnce notes what it has asked the source for, in memory and before that is asked, and
	// leaves out what it has noted.
	AsksOnce Broken = "asks-once"
	// KeepsUndone notes the events that had their whole effect, in memory, and leaves out what it
	// has noted: nothing, as long as no work is undone that was done to its end.
	KeepsUndone Broken = "keeps-undone"
	// CallsAtOnce calls the gateway in the handler of the request.
	CallsAtOnce Broken = "calls-at-once"
	// RepeatsUnknown repeats a call whose outcome is not known.
	RepeatsUnknown Broken = "repeats-unknown"
	// ShowsOnce notes the standings that it has passed on, in memory and before they are written,
	// and leaves out what it has noted.
	ShowsOnce Broken = "shows-once"
	// PaysAgain pays an order as often as it comes under another id.
	PaysAgain Broken = "pays-again"
	// CountsByArrival counts movements of money for the time of their records.
	CountsByArrival Broken = "counts-by-arrival"
	// OverlooksConflicts leaves out the events whose ids have said something else before.
	OverlooksConflicts Broken = "overlooks-conflicts"
)

// memory is what a broken pipeline keeps beside its stores. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	marks map[string]string
	// kept are records that wait, by their partitions.
	kept map[int32][]event
	// queue are those whose ids are to be archived.
	queue []event
	// out says that the marks cannot be read now.
	out bool
}

// mark notes what an id says, and returns what was noted before.
func (m *memory) mark(id, says string) (before string, seen, out bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.out {
		return "", false, true
	}
	if before, seen = m.marks[id]; !seen {
		m.marks[id] = says
	}
	return before, seen, false
}

// has reports whether an id is noted.
func (m *memory) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, seen := m.marks[id]
	return seen
}

// outage says whether the marks can be read.
func (m *memory) outage(out bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = out
}

// keep has a record wait.
func (m *memory) keep(partition int32, r event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[int32][]event{}
	}
	m.kept[partition] = append(m.kept[partition], r)
}

// release returns the records of a partition that wait, which do so no more.
func (m *memory) release(partition int32) []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.kept[partition]
	delete(m.kept, partition)
	return kept
}

// expire returns what is to be archived at a time, and is not any more.
func (m *memory) expire(before int64) []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.queue) && m.queue[n].Timestamp <= before {
		n++
	}
	expired := m.queue[:n:n]
	m.queue = m.queue[n:]
	return expired
}

// enter archives a record when its id expires.
func (m *memory) enter(r event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, r)
}

// waiting returns the ids that are to be archived.
func (m *memory) waiting() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.queue {
		ids = append(ids, r.Value.ID)
	}
	return ids
}

// archiveInMemory archives expired ids of an inbox, when the next record comes.
func (s Settings) archiveInMemory(in inbox.Inbox[string, Event], archive topology.TopicOf[string, inbox.Entry]) {
	type entry = topology.Record[string, inbox.Entry]
	all := in.Accepted().Merge("broken-all", in.Duplicates())
	topology.FlatMap(all, "broken-archive", func(r event, emit func(entry) error) error {
		for _, old := range s.seen.expire(r.Timestamp - Retention.Milliseconds()) {
			e := inbox.Entry{Outcome: inbox.Accepted, FirstSeen: old.Timestamp}
			if err := emit(entry{Key: old.Value.ID, Value: e, Timestamp: r.Timestamp, Headers: []topology.Header{}}); err != nil {
				return err
			}
		}
		if _, again := r.Header(inbox.HeaderFirstSeen); !again {
			s.seen.enter(r)
		}
		return nil
	}).IntoNamed("broken-archive-sink", archive)
}

// keepOutside returns a door behind which those wait in memory that are not let in.
func (s Settings) keepOutside(t *topology.Setup, pass topology.Emit[string, Event]) topology.Handler[string, Event] {
	partition := t.Task().Partition
	t.OnWallClock(delays[0], func(c *topology.Context, _ time.Time) error {
		for _, r := range s.seen.release(partition) {
			if err := pass(c, r); err != nil {
				return err
			}
		}
		return nil
	})
	return func(c *topology.Context, r event) error {
		if refusals(r.Value.ID) == 0 {
			return pass(c, r)
		}
		s.seen.keep(partition, event{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers})
		return nil
	}
}

// breakInbox looks at what comes to the inbox.
func (s Settings) breakInbox(in topology.Stream[string, Event]) topology.Stream[string, Event] {
	if s.Broken != MarksInFloats {
		return in
	}
	return in.Filter("broken-compare", func(r event) (bool, error) {
		exact, rough := r.Value.Amount, r.Value
		rough.Amount = int64(float64(exact))
		before, seen, _ := s.seen.mark(r.Value.ID, fmt.Sprintf("%+v", rough)+fmt.Sprint("/", exact))
		same := seen && strings.HasPrefix(before, fmt.Sprintf("%+v", rough)+"/")
		return !same || strings.HasSuffix(before, fmt.Sprint("/", exact)), nil
	})
}

// breakRepairs looks at what is asked for.
func (s Settings) breakRepairs(repairs topology.Stream[string, projection.Repair]) topology.Stream[string, projection.Repair] {
	if s.Broken != AsksOnce {
		return repairs
	}
	return repairs.Filter("broken-ask", func(r topology.Record[string, projection.Repair]) (bool, error) {
		_, seen, _ := s.seen.mark(fmt.Sprint("repair ", r.Key, r.Value), "")
		return !seen, nil
	})
}

// breakOrders lets pass what the inbox of orders does.
func (s Settings) breakOrders(orders inbox.Inbox[string, Event]) topology.Stream[string, Event] {
	if s.Broken != PaysAgain {
		return orders.Accepted()
	}
	return orders.Accepted().Merge("broken-orders", orders.Duplicates())
}

// breakChoice looks at what is passed on of the standings.
func (s Settings) breakChoice(rows topology.Stream[string, projection.Row[string]]) topology.Stream[string, projection.Row[string]] {
	if s.Broken != ShowsOnce {
		return rows
	}
	return rows.Filter("broken-show", func(r topology.Record[string, projection.Row[string]]) (bool, error) {
		_, seen, _ := s.seen.mark(fmt.Sprint("standing ", r.Key, r.Value.Version, r.Value.Value), "")
		return !seen, nil
	})
}

// breakEffects looks at what comes to the rest.
func (s Settings) breakEffects(accepted topology.Stream[string, Event]) topology.Stream[string, Event] {
	if s.Broken == KeepsUndone {
		return accepted.Filter("broken-mark", func(r event) (bool, error) { return !s.seen.has(r.Value.ID), nil })
	}
	if s.Broken != MarksBefore && s.Broken != DropsInOutage {
		return accepted
	}
	return accepted.Filter("broken-mark", func(r event) (bool, error) {
		_, seen, out := s.seen.mark(r.Value.ID, "")
		if s.Broken == DropsInOutage {
			return !out, nil
		}
		return !seen, nil
	})
}

// breakEnd looks at what is behind everything. Nothing fails there, but for frail accounts.
func (s Settings) breakEnd(accepted topology.Stream[string, Event]) {
	if s.Broken != KeepsUndone {
		return
	}
	accepted.Peek("broken-end", func(r event) error {
		if !strings.HasPrefix(r.Key, frail) {
			s.seen.mark(r.Value.ID, "")
		}
		return nil
	})
}

// breakCalls calls the provider where the effect has no claim.
func (s Settings) breakCalls(payouts topology.Stream[string, Event], pays provider) topology.Stream[string, Event] {
	if s.Broken != CallsAtOnce {
		return payouts
	}
	return payouts.Peek("broken-call", func(r event) error {
		_, _ = pays.pay(context.Background(), effect.IdempotencyKey(nodePayouts, r.Value.ID))
		return nil
	})
}
