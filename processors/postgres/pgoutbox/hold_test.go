package pgoutbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

const heldNow = "SELECT count(*) FROM onceward.outbox WHERE status = 'PENDING' AND retry_at = 'infinity'"

// stuck appends n events of one aggregate behind one that cannot be published, and runs relays
// until all of them are held.
func (s *stage) stuck(n, relays int) (topic string) {
	s.t.Helper()
	topic = s.c.Name(s.t, "missing")
	s.append(Event{ID: "x", Topic: topic, Aggregate: "one"})
	s.append(s.numbered("a", n, "one")...)
	s.append(s.numbered("b", 20, "two", "")...)
	s.count-- // the event x has its record elsewhere, if at all
	for i := range relays {
		s.start(s.outbox(fmt.Sprint("relay ", i), func(c *Config) {
			c.BatchRecords, c.RetryMin, c.RetryMax = 8, time.Millisecond, time.Millisecond
			c.Client = append(c.Client, kgo.UnknownTopicRetries(1))
		}))
	}
	pgtest.Await(s.t, "the others are published, and those behind the failed one are held", func() bool {
		return s.with(Published) == 20 && s.db.Int(s.t, heldNow) == int64(n)
	})
	return topic
}

// TestHeldEntriesGoOn: entries that are held are published, in their order, when the one before
// them is published or taken out; some relays look at the aggregate meanwhile, and more is
// appended.
func TestHeldEntriesGoOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		action func(s *stage, topic string)
	}{
		{"published", func(s *stage, topic string) { s.c.CreateTopics(s.t, 1, topic) }},
		{"quarantined", func(s *stage, _ string) {
			entry := s.db.Int(s.t, "SELECT entry FROM onceward.outbox WHERE event_id = 'x'")
			if err := s.outbox("person", nil).Quarantine(s.t.Context(), entry, "someone", ""); err != nil {
				s.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				topic := s.stuck(100, 3)
				c.action(s, topic)
				s.append(s.numbered("c", 10, "one")...)
				s.awaitPublished()
				if copies := s.judge(); copies != 0 {
					s.t.Errorf("%d copies", copies)
				}
			})
		})
	}
}

// TestPersonsDecideOnHeldEntries: a held entry can be quarantined, and requeued; the ones around it
// stay in their order.
func TestPersonsDecideOnHeldEntries(t *testing.T) {
	onStage(t, func(s *stage) {
		topic := s.stuck(20, 1)
		o := s.outbox("person", nil)
		held := func(id string) int64 {
			return s.db.Int(s.t, "SELECT entry FROM onceward.outbox WHERE event_id = $1", id)
		}
		shown, err := o.Show(s.t.Context(), held("a00003"))
		if err != nil || !shown.RetryAt.IsZero() || shown.Status != Pending {
			s.t.Errorf("a held entry is %+v, %v; want one that waits for no time", shown, err)
		}
		if err := o.Quarantine(s.t.Context(), held("a00003"), "someone", ""); err != nil {
			s.t.Fatal(err)
		}
		if err := o.Requeue(s.t.Context(), held("a00007"), "someone", ""); err != nil {
			s.t.Fatal(err)
		}
		pgtest.Await(s.t, "the requeued entry is held again", func() bool { return s.db.Int(s.t, heldNow) == 19 })
		s.c.CreateTopics(s.t, 1, topic)
		s.count-- // the one in quarantine
		s.awaitPublished()
		s.judge()
	})
}
