package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
)

const (
	// endRetryFirst and endRetryMax are the pauses between two requests for the end of one
	// transaction. Its markers are written meanwhile.
	endRetryFirst, endRetryMax = 5 * time.Millisecond, 500 * time.Millisecond
	// endAtOnce is how many transactions are ended at a time.
	endAtOnce = 16
)

// EndTransactions ends the open transactions of transactional ids whose process is gone (protocol
// rule 13.4). A transaction that was being committed is committed, every other one is aborted. A
// process that lives after all is fenced: its next request gets INVALID_PRODUCER_EPOCH or
// PRODUCER_FENCED. The producer ids and epochs that the coordinators answer with are not used. The
// timeout is that of the transactions of the application. Ids are independent of each other: the
// error joins what became of those that did not end.
func (c *Cluster) EndTransactions(ctx context.Context, timeout time.Duration, ids ...string) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	free := make(chan struct{}, endAtOnce)
	for i, id := range ids {
		free <- struct{}{}
		all.Go(func() {
			errs[i] = c.endTransaction(ctx, timeout, id)
			<-free
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) endTransaction(ctx context.Context, timeout time.Duration, id string) error {
	pause := backoff.Backoff{Next: endRetryFirst, Max: endRetryMax}
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1 // none of ours: the coordinator goes by the id alone
		resp, err := req.RequestWith(ctx, c.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case err == nil:
			brokenIdentity(c, id, resp)
			return nil
		case !errors.Is(err, kerr.ConcurrentTransactions): // the client repeats what is about the coordinator itself
			return fmt.Errorf("ending the transaction of %s: %w", id, c.cfg.denied(err, attempt{operation: Write, transactionalID: id}))
		}
		if err := pause.Wait(ctx); err != nil {
			return fmt.Errorf("ending the transaction of %s: %w", id, err)
		}
	}
}

// Transaction is what a coordinator knows of a transactional id.
type Transaction struct {
	// State is that of the coordinator, such as Empty, Ongoing and CompleteCommit.
	State      string
	ProducerID int64
	Epoch      int16
	// Started is when the last transaction began, by the clock of the coordinator; zero if that
	// does not say it.
	Started time.Time
}

// Transactions returns what the coordinators know of transactional ids. One that no coordinator
// knows is missing. With an error it returns what the coordinators that have answered know: one
// that is away costs nothing about the ids of the others.
func (c *Cluster) Transactions(ctx context.Context, ids ...string) (map[string]Transaction, error) {
	if len(ids) == 0 {
		return nil, nil // none would stand for all of the cluster
	}
	described, err := c.adm.DescribeTransactions(ctx, ids...)
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("describing transactions: %w", err))
	}
	out := map[string]Transaction{}
	for _, id := range slices.Sorted(maps.Keys(described)) {
		d := described[id]
		switch {
		case errors.Is(d.Err, kerr.TransactionalIDNotFound):
			continue
		case d.Err != nil:
			errs = append(errs, fmt.Errorf("describing the transaction of %s: %w", id,
				c.cfg.denied(d.Err, attempt{operation: Describe, transactionalID: id})))
			continue
		}
		t := Transaction{State: d.State, ProducerID: d.ProducerID, Epoch: d.ProducerEpoch}
		if d.StartTimestamp > 0 {
			t.Started = time.UnixMilli(d.StartTimestamp)
		}
		out[id] = t
	}
	return out, errors.Join(errs...)
}
