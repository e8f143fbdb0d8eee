package pgoutbox

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The traps are ways to publish events that look like an outbox. Each test shows that a schedule
// breaks the naive way, which is the negative control.

// TestTrapPublishBesideTheTransaction: a service publishes by itself, and is killed between the
// record and the COMMIT. It leaves a change without an event, or an event without a change. With
// the outbox there are both or neither.
func TestTrapPublishBesideTheTransaction(t *testing.T) {
	onStage(t, func(s *stage) {
		s.db.Exec(s.t, "CREATE TABLE payments (id text)")
		killed := errors.New("killed")
		pay := func(id string, then func(tx pgx.Tx) error) {
			s.t.Helper()
			err := pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(s.t.Context(), "INSERT INTO payments VALUES ($1)", id); err != nil {
					return err
				}
				return then(tx)
			})
			if err != nil && !errors.Is(err, killed) {
				s.t.Fatal(err)
			}
		}
		client := s.c.Client(s.t)
		pay("published behind the COMMIT", func(pgx.Tx) error { return nil }) // the process is killed before it publishes
		pay("published before the COMMIT", func(pgx.Tx) error {
			r := &kgo.Record{Topic: s.topic, Value: []byte("published before the COMMIT")}
			if err := client.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
				return err
			}
			return killed
		})
		o := s.outbox("service", nil)
		for id, end := range map[string]error{"outbox, killed behind the COMMIT": nil, "outbox, killed before the COMMIT": killed} {
			pay(id, func(tx pgx.Tx) error {
				if err := o.Append(s.t.Context(), tx, Event{ID: id, Topic: s.topic, Value: []byte(id)}); err != nil {
					return err
				}
				return end
			})
		}
		s.start(s.outbox("relay", nil))
		s.awaitPublished()

		published := map[string]bool{}
		for _, r := range s.c.Records(s.t, s.topic) {
			published[string(r.Value)] = true
		}
		for id, want := range map[string]struct{ change, event bool }{
			"published behind the COMMIT": {true, false}, "published before the COMMIT": {false, true},
			"outbox, killed behind the COMMIT": {true, true}, "outbox, killed before the COMMIT": {false, false},
		} {
			change := s.db.Int(s.t, "SELECT count(*) FROM payments WHERE id = $1", id) == 1
			if change != want.change || published[id] != want.event {
				s.t.Errorf("%s: change %v, event %v", id, change, published[id])
			}
		}
	})
}

// TestTrapMarkedBeforePublished: a relay that marks events before it publishes them, and is killed
// in between, loses them. TestKilledAtEveryPoint has the same schedule with the relay of this
// package.
func TestTrapMarkedBeforePublished(t *testing.T) {
	onStage(t, func(s *stage) {
		s.append(s.numbered("lost", 3)...)
		s.db.Exec(s.t, "UPDATE onceward.outbox SET status = 'PUBLISHED', published_at = now()") // the naive relay, which is killed now
		s.append(s.numbered("kept", 2)...)
		s.start(s.outbox("relay", nil))
		s.awaitPublished()
		if n := len(s.c.Records(s.t, s.topic)); n != 2 {
			s.t.Errorf("%d records, want the 2 of the events behind the lost ones", n)
		}
		if _, wrong := s.verdict(); len(wrong) == 0 {
			s.t.Error("the verdict does not see that events are lost")
		}
	})
}
