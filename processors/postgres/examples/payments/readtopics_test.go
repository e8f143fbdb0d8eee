package main

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// look reads everything that is there.
func (s *scene) look(poison []*kgo.Record) *seen {
	s.t.Helper()
	all := &seen{
		answers: s.clients.answers, reused: s.clients.reused,
		facts: decoded(s, s.topics.facts), refused: decoded(s, s.topics.refused), balances: decoded[ledger.Balance](s, s.topics.balances),
		states: map[string]stateRow{}, refusals: map[string]refusalRow{}, totals: map[string]totalRow{},
		shownPayments: map[string]paymentView{}, shownAccounts: map[string]accountView{},
	}
	for _, r := range s.cluster.Records(s.t, s.topics.dead) {
		headers := make([]topology.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = topology.Header{Key: h.Key, Value: h.Value}
		}
		info, err := graph.ParseDeadLetter(headers)
		if err != nil {
			s.t.Fatal(err)
		}
		all.letters = append(all.letters, info.Origin)
	}
	for _, r := range poison {
		all.poison = append(all.poison, graph.DeadLetterOrigin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset})
	}

	all.payments = int(s.db.Int(s.t, "SELECT count(*) FROM payments"))
	all.steps = int(s.db.Int(s.t, "SELECT count(*) FROM steps"))
	all.quarantined = int(s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine"))
	var id string
	var state stateRow
	each(s.t, s.db, "SELECT payment, state, version FROM payment_states", []any{&id, &state.state, &state.version}, func() { all.states[id] = state })
	var refused refusalRow
	each(s.t, s.db, "SELECT step, payment, state FROM refusals", []any{&id, &refused.payment, &refused.state}, func() { all.refusals[id] = refused })
	var total totalRow
	each(s.t, s.db, "SELECT account, cents, version FROM balances", []any{&id, &total.cents, &total.version}, func() { all.totals[id] = total })

	for id := range all.states {
		var view paymentView
		if err := s.clients.get("/payments/"+id, &view); err != nil {
			s.t.Fatal(err)
		}
		all.shownPayments[id] = view
	}
	for account := range all.totals {
		var view accountView
		if err := s.clients.get("/accounts/"+account, &view); err != nil {
			s.t.Fatal(err)
		}
		all.shownAccounts[account] = view
	}
	return all
}

// decoded returns the committed values of a topic, by their keys.
func decoded[V any](s *scene, topic topology.TopicOf[string, V]) map[string][]V {
	s.t.Helper()
	all := map[string][]V{}
	for _, r := range s.cluster.Records(s.t, topic.Name()) {
		key, value, err := topic.Decode(r.Key, r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		all[key] = append(all[key], value)
	}
	return all
}

// each calls f for each row, which is in the variables then.
func each(t *testing.T, db *pgtest.Database, sql string, into []any, f func()) {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.ForEachRow(rows, into, func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}
