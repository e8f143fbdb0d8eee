//go:build onceward_failpoints

package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestGlobalTableInterrupted: a restore that ends in the middle goes on from where its rows are.
// Until it is over nothing is processed and queries are refused.
func TestGlobalTableInterrupted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.connect(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
		const records = 120
		for i := range records { // 64 KiB each, so that the restore has several steps
			name := fmt.Sprint("r", i)
			value := append(bytes.Repeat([]byte(" "), 64<<10), fmt.Append(nil, i)...)
			r.produce(t, rate(name, string(value)))
			r.want[name] = i
		}
		var steps atomic.Int32
		const before = 3
		app, stop := start(t, ratedTopology(t), r.cfg.WithFailpoints(func(ctx context.Context, point string) error {
			if point == "restore-batch" && steps.Add(1) > before {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}))
		waitFor(t, "the restore to be held", func() bool { return steps.Load() > before })
		if s := app.Status(); s.State != txn.Starting || len(s.Tasks) > 0 {
			t.Errorf("the application is %s with %d tasks", s.State, len(s.Tasks))
		}
		if _, err := txn.Read(app, ratesStore, 0); !errors.Is(err, txn.ErrRestoring) {
			t.Errorf("a query answers %v", err)
		}
		view, err := txn.Read(app, ratesStore, 0, txn.Stale())
		if err != nil || !errors.Is(view.WhyStale(), txn.ErrRestoring) || view.Close() != nil {
			t.Errorf("a stale query answers %v", err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := r.lives("r7=7 none=?", "r7", "none"); got == 0 || got >= records {
			t.Errorf("the next life has read %d records of %d", got, records)
		}
	})
}
