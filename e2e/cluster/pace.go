package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Pace measures what the broker and the machine do to everybody: a transaction of one record, around all proxies, again and again. With
// it a bound in time can be sharp on an idle machine and true on a loaded one. It may be used from any goroutine.
type Pace struct {
	mu    sync.Mutex
	began time.Time // of the one under way
	done  []paced
}

type paced struct {
	end  time.Time
	took time.Duration
}

// pacePause is between two transactions.
const pacePause = 100 * time.Millisecond

// Pace measures until the test ends. It fails the test if the broker does not take the transactions, so that it is not for tests that
// take the broker down.
func (c *Cluster) Pace(t testing.TB) *Pace {
	t.Helper()
	p := &Pace{began: time.Now()}
	topic := c.Name(t, "pace")
	if err := c.CreateTopic(t.Context(), topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	cl := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
	ctx, cancel := context.WithCancel(context.Background())
	var measuring sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		measuring.Wait()
	})
	measuring.Go(func() {
		for ctx.Err() == nil {
			if err := p.once(ctx, cl); err != nil && ctx.Err() == nil {
				t.Errorf("measuring the pace: %v", err)
				return
			}
			select {
			case <-time.After(pacePause):
			case <-ctx.Done():
			}
		}
	})
	return p
}

func (p *Pace) once(ctx context.Context, cl *kgo.Client) error {
	p.mu.Lock()
	p.began = time.Now()
	p.mu.Unlock()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("tick")).FirstErr(); err != nil {
		return err
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, paced{time.Now(), time.Since(p.began)})
	return nil
}

// Worst returns the longest transaction that was under way at or after a time.
func (p *Pace) Worst(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst time.Duration
	for i := len(p.done) - 1; i >= 0 && p.done[i].end.After(since); i-- {
		worst = max(worst, p.done[i].took)
	}
	if len(p.done) == 0 || p.done[len(p.done)-1].end.Before(p.began) {
		worst = max(worst, time.Since(p.began))
	}
	return worst
}
