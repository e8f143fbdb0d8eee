package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/pgapply"
	"github.com/onceward/onceward/processors/postgres/pgsink"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// sink writes the read model. A record and the offset behind it commit together.
func (s settings) sink(ctx context.Context, pool *pgxpool.Pool) error {
	model, err := newReadModel(topicsOf(s.prefix))
	if err != nil {
		return err
	}
	client := []kgo.Opt{kgo.SeedBrokers(s.brokerList()...)}
	if s.instance != "" { // a process with the name of one that died gets its partitions at once
		client = append(client, kgo.InstanceID(s.instance))
	}
	sink, err := pgsink.New(pgsink.Config{
		Name:   s.prefix + "read-model",
		Topics: []string{model.facts.Name(), model.refused.Name(), model.balances.Name()},
		Pool:   pool,
		Client: client,
		Apply:  pgsink.Each(model.apply),
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	return sink.Run(ctx)
}

// readModel has the tables that the sink writes.
type readModel struct {
	topics
	states   *pgapply.Transitions
	refusals *pgapply.Contributions
	accounts *pgapply.Versions
}

func newReadModel(t topics) (m readModel, err error) {
	m.topics = t
	if m.states, err = pgapply.NewTransitions(pgapply.Table{Name: "payment_states", Key: []string{"payment"}}, "state", "version", machine); err != nil {
		return m, err
	}
	m.refusals, err = pgapply.NewContributions(pgapply.Table{Name: "refusals", Key: []string{"step"}, Columns: []string{"payment", "state", "reason"}})
	if err != nil {
		return m, err
	}
	m.accounts, err = pgapply.NewVersions(pgapply.Table{Name: "balances", Key: []string{"account"}, Columns: []string{"cents"}}, "version")
	return m, err
}

// apply writes what a record says. No record comes twice, and none is left out. So every outcome
// but applied means that the topics were written by another program, and the record is refused.
func (m readModel) apply(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
	outcome, err := m.write(ctx, tx, r)
	if err == nil && outcome != pgapply.Applied {
		return topology.Fail(topology.Conflict, schemas.Reason("the record does not continue the read model: "+outcome.String()))
	}
	return err
}

func (m readModel) write(ctx context.Context, tx pgx.Tx, r *kgo.Record) (pgapply.Outcome, error) {
	switch r.Topic {
	case m.facts.Name():
		payment, f, err := m.facts.Decode(r.Key, r.Value)
		if err != nil {
			return 0, err
		}
		return m.states.Move(ctx, tx, pgapply.Transition{From: f.From, To: f.To, Version: f.Version}, payment)
	case m.refused.Name():
		payment, f, err := m.refused.Decode(r.Key, r.Value)
		if err != nil {
			return 0, err
		}
		return m.refusals.Add(ctx, tx, f.Transition.ID, payment, f.Transition.To, f.Reason)
	default:
		account, b, err := m.balances.Decode(r.Key, r.Value)
		if err != nil {
			return 0, err
		}
		return m.accounts.Put(ctx, tx, b.Count, account, b.Amounts[0])
	}
}
