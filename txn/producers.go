package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
)

// producers initialises every transactional id that this instance has used since a start that found
// no hanging transaction. It does so before the instance joins the group, and so ends the
// transactions that the previous incarnation left open. Otherwise the first stable offsets would
// wait for transactions to time out. producers returns the producers of the workers. An id with a
// hanging transaction is not among them.
func (in *instance) producers(ctx context.Context) ([][2]*broker.Producer, error) {
	ctx, cancel := context.WithTimeout(ctx, in.app.cfg.ConnectTimeout)
	defer cancel()
	for highest := max(in.app.cfg.Workers, in.dir.MaxWorkers()); ; {
		if err := in.dir.RaiseMaxWorkers(highest); err != nil {
			return nil, err
		}
		all, err := in.settled(ctx, highest)
		if err != nil {
			return nil, err
		}
		hangs, clean := in.hangwatch.AtStart(ctx)
		out, missing := in.choose(all, hangs)
		if missing > 0 {
			highest += missing
			continue
		}
		if clean { // the ids of workers beyond those are initialised, and nothing of them hangs
			err = in.dir.LowerMaxWorkers(in.app.cfg.Workers)
		}
		return out, err
	}
}

// choose returns the producers of the workers, without those of which a transaction hangs, and
// closes the others. If pairs are missing, it closes all and returns how many are missing.
func (in *instance) choose(all [][2]*broker.Producer, hangs map[string]bool) (out [][2]*broker.Producer, missing int) {
	var ids []string
	var rest [][2]*broker.Producer
	for _, pair := range all {
		if len(out) == in.app.cfg.Workers || hangs[pair[0].TransactionalID()] || hangs[pair[1].TransactionalID()] {
			rest = append(rest, pair)
			continue
		}
		out = append(out, pair)
		ids = append(ids, pair[0].TransactionalID(), pair[1].TransactionalID())
	}
	if missing = in.app.cfg.Workers - len(out); missing > 0 {
		rest, out, ids = all, nil, nil
	}
	closePairs(rest)
	in.hangwatch.Use(ids...)
	return out, missing
}

func closePairs(pairs [][2]*broker.Producer) {
	for _, pair := range pairs {
		pair[0].Close()
		pair[1].Close()
	}
}

// settled returns the producers of so many workers once all of them are initialised.
func (in *instance) settled(ctx context.Context, workers int) ([][2]*broker.Producer, error) {
	out := make([][2]*broker.Producer, workers)
	errs := make([]error, 2*workers)
	var ids []string
	for w := range out {
		for turn := range 2 {
			id := broker.TransactionalID(in.app.topology.Application(), in.dir.Instance(), w, turn)
			ids = append(ids, id)
			out[w][turn] = broker.NewProducer(in.brokerCfg, id, in.app.cfg.TransactionTimeout)
		}
	}
	in.hangwatch.Note(ctx, false, ids...)
	var wg sync.WaitGroup
	for w, pair := range out {
		for turn, p := range pair {
			wg.Go(func() { errs[2*w+turn] = settle(ctx, p, in.app.cfg.failpoints) })
		}
	}
	in.watch.used(ids)
	wg.Wait()
	err := errors.Join(errs...)
	for _, one := range errs {
		if broker.Permanent(one) {
			err = one // the others say the same
		}
	}
	if err != nil {
		closePairs(out)
		return nil, fmt.Errorf("%w: %w", errNotBegun, err)
	}
	for _, pair := range out {
		in.hangwatch.Settled(ctx, pair[:]...)
	}
	return out, nil
}

// settle tries until ctx ends: coordinators may still be loading.
func settle(ctx context.Context, p *broker.Producer, points failpoint.Set) error {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		err := points.Hit(ctx, failpoint.InitBefore)
		if err == nil {
			err = p.Settle(ctx)
		}
		if err == nil {
			err = points.Hit(ctx, failpoint.InitAfter)
		}
		if err == nil || broker.Permanent(err) || ctx.Err() != nil {
			return err
		}
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}
