package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
)

// pace measures what the broker and the machine do to everybody: a transaction of one record, around all proxies, again and again. With
// it a bound in time can be sharp on an idle machine and true on a loaded one.
type pace struct {
	mu    sync.Mutex
	began time.Time // of the one under way
	done  []paced
}

type paced struct {
	end  time.Time
	took time.Duration
}

// allowance is how many such transactions the resolution of a round may come to in work: a producer made anew, the stable offsets, the
// round again, and what the other applications of the table have the broker do meanwhile.
const allowance = 10

func newPace(t *testing.T, c *cluster.Cluster) *pace {
	t.Helper()
	p := &pace{began: time.Now()}
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
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return p
}

func (p *pace) once(ctx context.Context, cl *kgo.Client) error {
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

// worst returns the longest transaction that was under way at or after a time.
func (p *pace) worst(since time.Time) time.Duration {
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
