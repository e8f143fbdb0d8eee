package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
)

// requireEmptyGroup refuses while the group has members: they would go on from what they know. It
// is asked for a clear answer; what counts is that the commit itself is one that brokers refuse
// unless the group is empty.
func (op *operation) requireEmptyGroup(ctx context.Context) error {
	group := op.topology.Application()
	if skipGroupCheck {
		return nil
	}
	names, err := op.client.members(ctx, group)
	if err != nil || len(names) == 0 {
		return err
	}
	return refuse("the group %q has members (%s): stop every instance first", group, strings.Join(names, ", "))
}

// transactionalIDs returns those that the brokers remember of the application, sorted.
func (op *operation) transactionalIDs(ctx context.Context) ([]string, error) {
	listed, err := op.client.adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("listing transactions: %w", err)
	}
	var ids []string
	for id := range listed {
		if strings.HasPrefix(id, broker.TransactionalPrefix(op.topology.Application())) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// fence initialises transactional ids: what they have open is aborted or completed, and requests of
// the processes that had them are refused from then on. After it no offset can be pending any more.
func (op *operation) fence(ctx context.Context, ids []string) error {
	cfg := op.client.cfg
	for _, id := range ids {
		p := broker.NewProducer(cfg, id, 10*time.Second)
		err := p.Settle(ctx)
		p.Close()
		if err != nil {
			return fmt.Errorf("ending what %q may have open: %w", id, err)
		}
	}
	return nil
}
