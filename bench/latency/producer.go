package latency

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producerTick is how often the producer sends the due events. Sending each event alone would
// be 10,000 requests a second on a machine that the application shares.
const producerTick = time.Millisecond

// Producer sends the events of a schedule, open loop.
type Producer struct {
	cl       *kgo.Client
	topics   Topics
	schedule Schedule
	sent     atomic.Uint64
	// acknowledged is written by the client's goroutine until Run returns.
	acknowledged []time.Duration
	lateMax      time.Duration
}

// NewProducer returns a producer; Run sends. The caller closes it.
func NewProducer(brokers []string, topics Topics, s Schedule) (*Producer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), // the tick gathers already
		kgo.MaxBufferedRecords(1<<20))
	if err != nil {
		return nil, fmt.Errorf("the measurement's producer: %w", err)
	}
	return &Producer{cl: cl, topics: topics, schedule: s}, nil
}

// Close ends the client.
func (p *Producer) Close() { p.cl.Close() }

// Sent returns how many events were handed to the client so far; it may be called from any
// goroutine.
func (p *Producer) Sent() uint64 { return p.sent.Load() }

// Run sends events as they become due, until the number `until` or the end of ctx, and returns when
// all that were sent are acknowledged. The first failed event ends it: a measurement with events
// missing is none.
func (p *Producer) Run(ctx context.Context, until uint64) error {
	produce, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	tick := time.NewTicker(producerTick)
	defer tick.Stop()
	next := uint64(0)
	for next < until {
		select {
		case <-ctx.Done():
			until = next
			continue
		case <-produce.Done():
			return fmt.Errorf("producing event %d: %w", next, context.Cause(produce))
		case <-tick.C:
		}
		now := time.Now()
		for due := min(p.schedule.DueAt(now), until); next < due; next++ {
			p.lateMax = max(p.lateMax, now.Sub(p.schedule.Due(next)))
			p.send(produce, cancel, next)
		}
		p.sent.Store(next)
	}
	if err := p.cl.Flush(produce); err != nil {
		return fmt.Errorf("producing: %w", context.Cause(produce))
	}
	if err := context.Cause(produce); err != nil {
		return fmt.Errorf("producing: %w", err)
	}
	return nil
}

func (p *Producer) send(ctx context.Context, cancel context.CancelCauseFunc, event uint64) {
	key, value := encode(p.schedule, event)
	due := p.schedule.Due(event)
	r := &kgo.Record{Topic: p.topics.In, Partition: p.topics.lane(event), Key: key, Value: value, Timestamp: due}
	p.cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			cancel(err)
			return
		}
		p.acknowledged = append(p.acknowledged, time.Since(due))
	})
}
