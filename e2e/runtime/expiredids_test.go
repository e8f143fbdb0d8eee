package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
)

// TestExpiredTransactionalIDs: the broker removes a transactional id that no transaction has used
// for a while, 7 days by default, and the logs remove its producer. An instance that was away for
// longer, or had nothing to do, continues without an error.
func TestExpiredTransactionalIDs(t *testing.T) {
	t.Parallel()
	t.Run("virtual", func(t *testing.T) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) { expiredTransactionalIDs(t, c, time.Hour) },
			kfake.BrokerConfigs(map[string]string{"transactional.id.expiration.ms": "600000"}))
	})
	t.Run("kafka", func(t *testing.T) {
		c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{ShortLived: true, Settings: map[string]string{
			"transactional.id.expiration.ms":                             "3000",
			"transaction.remove.expired.transaction.cleanup.interval.ms": "500",
			"producer.id.expiration.ms":                                  "3000",
			"producer.id.expiration.check.interval.ms":                   "500",
		}})
		expiredTransactionalIDs(t, c, instance.Patience)
	})
}

func expiredTransactionalIDs(t *testing.T, c *cluster.Cluster, patience time.Duration) {
	e := newAppScene(t, c)
	const perPart = 300
	seen := false // without it, it is unknown whether they were removed
	r := e.start(e.count())
	for part := range int64(2) {
		e.feed(perPart, plain)
		e.until(r, perPart*(part+1))
		seen = e.awaitForgotten(patience) || seen // while the application runs
	}
	e.feed(perPart, plain)
	e.until(r, 3*perPart)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	seen = e.awaitForgotten(patience) || seen // while it is away
	if !seen {
		t.Error("the broker never knew a transactional id of the application")
	}
	r = e.start(e.count())
	e.feed(perPart, plain)
	e.until(r, perPart)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.Status().Totals.Records; got != perPart {
		t.Errorf("after the return %d records were processed, want %d", got, perPart)
	}
	for k, n := range testapp.LastCounts(t, e.Records(t, e.out)) {
		if n != 4*perPart/10 {
			t.Errorf("%s was counted to %d, want %d", k, n, 4*perPart/10)
		}
	}
	e.checkClosed()
}

// awaitForgotten waits until the broker knows none of the application's transactional ids, and
// returns whether it has seen any before.
func (e *appScene) awaitForgotten(patience time.Duration) (seen bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(patience / 1000)
	defer tick.Stop()
	for {
		known, err := e.Admin().ListTransactions(ctx, nil, nil)
		if err != nil {
			e.t.Fatal(err)
		}
		ids := slices.DeleteFunc(known.TransactionalIDs(), func(id string) bool { return !strings.HasPrefix(id, e.application+"~") })
		if len(ids) == 0 {
			return seen
		}
		seen = true
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.t.Fatal(fmt.Errorf("the broker still knows %q: %w", ids, ctx.Err()))
		}
	}
}
