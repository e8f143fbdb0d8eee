package testapp

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
)

// Feeder produces inputs and records them. Its client is idempotent and retries without end, so
// that records of one partition keep their order over a bounce of the broker.
type Feeder struct {
	Client  *kgo.Client
	History *Recorder
	Topic   string
	Rng     *rand.Rand
	Rate    int // inputs a second
	// Keys and Others bound the keys of the inputs, and those that they are repartitioned by.
	Keys, Others uint32
	// RepeatShare is how often a message is delivered again, PoisonShare how often an input is
	// poison.
	RepeatShare, PoisonShare float64

	next   uint32
	recent []Input // messages that may be delivered again
}

const (
	// recentMax is how many messages are remembered for another delivery.
	recentMax = 20_000
	feedTick  = 50 * time.Millisecond
)

// Run produces at the rate until ctx ends, and then waits for what is under way. It returns the
// number of inputs.
func (f *Feeder) Run(ctx context.Context) (uint32, error) {
	var inflight sync.WaitGroup
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			inflight.Wait()
			return f.next, f.History.err()
		case <-tick.C:
		}
		// A broker that is down makes the Feeder late. It makes up for a second of that at most, or
		// every bounce would end in a flood.
		total := int(time.Since(began).Seconds() * float64(f.Rate))
		f.Batch(context.WithoutCancel(ctx), min(total-sent, f.Rate), &inflight)
		sent = total
	}
}

// Batch produces n inputs and records them when the last one is answered; inflight waits for that.
// It blocks while too many are in flight. Requests without an answer when ctx ends are recorded as
// unknown.
func (f *Feeder) Batch(ctx context.Context, n int, inflight *sync.WaitGroup) {
	if n == 0 {
		return
	}
	records, sent := f.records(n)
	var mu sync.Mutex
	left := n
	inflight.Add(1)
	for _, r := range records {
		f.Client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				sent.Outcome = check.Unknown // one of them is unknown, and then nothing is claimed about the others
			}
			if left--; left == 0 {
				f.History.Write(check.Event{Sent: sent})
				inflight.Done()
			}
		})
	}
}

// Transaction produces n inputs in one transaction, commits or aborts it, and records them. The
// client needs a transactional id. Messages of an aborted transaction are not delivered again.
func (f *Feeder) Transaction(ctx context.Context, n int, commit bool) error {
	known := len(f.recent)
	records, sent := f.records(n)
	if err := f.Client.BeginTransaction(); err != nil {
		return err
	}
	if err := f.Client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	if !commit {
		sent.Outcome, f.recent = check.Fail, f.recent[:min(known, len(f.recent))]
	}
	f.History.Write(check.Event{Sent: sent})
	return f.Client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// records makes up n inputs, and what the history says about them if they are acknowledged.
func (f *Feeder) records(n int) ([]*kgo.Record, *check.Sent) {
	sent := &check.Sent{First: f.next + 1, Outcome: check.OK}
	records := make([]*kgo.Record, n)
	for i := range records {
		in := f.input()
		value, err := json.Marshal(in)
		if err != nil {
			panic(fmt.Sprintf("an Input has a JSON form: %v", err)) // five integers and a flag
		}
		records[i] = &kgo.Record{Topic: f.Topic, Key: strconv.AppendUint(nil, uint64(in.Key), 10), Value: value}
		sent.Message, sent.Key = append(sent.Message, in.Message), append(sent.Key, in.Key)
		sent.Other, sent.Amount = append(sent.Other, in.Other), append(sent.Amount, in.Amount)
		if in.Poison {
			sent.Poison = append(sent.Poison, in.ID)
		}
	}
	return records, sent
}

// input makes the next one up.
func (f *Feeder) input() Input {
	f.next++
	if len(f.recent) > 0 && f.Rng.Float64() < f.RepeatShare {
		in := f.recent[f.Rng.IntN(len(f.recent))]
		in.ID = f.next
		return in
	}
	in := Input{
		ID: f.next, Message: f.next, Key: f.Rng.Uint32N(f.Keys), Other: f.Rng.Uint32N(f.Others), Amount: f.Rng.Int64N(2001) - 1000,
	}
	if f.Rng.Float64() < f.PoisonShare {
		in.Poison = true
		return in // never again: the other delivery would be judged by another input's fate
	}
	if len(f.recent) < recentMax {
		f.recent = append(f.recent, in)
	} else {
		f.recent[f.Rng.IntN(recentMax)] = in
	}
	return in
}
