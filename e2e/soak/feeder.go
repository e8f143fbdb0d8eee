package soak

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
	"github.com/onceward/onceward/e2e/soak/app"
)

// feeder produces inputs and records them. Its client is idempotent and retries without end, so that records of one partition keep their
// order over a bounce of the broker.
type feeder struct {
	client  *kgo.Client
	history *Recorder
	topic   string
	rng     *rand.Rand
	rate    int // inputs a second
	keys    uint32
	others  uint32

	next   uint32
	recent []app.Input // messages that may be delivered again
}

// recentMax is how many messages are remembered for another delivery, repeatShare how often there is one, and poisonShare how often an
// input is poison.
const (
	recentMax   = 20_000
	repeatShare = 0.05
	poisonShare = 0.0005
	feedTick    = 50 * time.Millisecond
)

// run produces until ctx ends, and then waits for what is under way. It returns the number of inputs.
func (f *feeder) run(ctx context.Context) (uint32, error) {
	var inflight sync.WaitGroup
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			inflight.Wait()
			return f.next, f.history.err()
		case <-tick.C:
		}
		// A broker that is down makes the feeder late. It makes up for a second of that at most, or every bounce would end in a flood.
		total := int(time.Since(began).Seconds() * float64(f.rate))
		f.batch(min(total-sent, f.rate), &inflight)
		sent = total
	}
}

// batch produces n inputs and records them when the last one is answered. It blocks while too much is under way.
func (f *feeder) batch(n int, inflight *sync.WaitGroup) {
	if n == 0 {
		return
	}
	sent := &check.Sent{First: f.next + 1, Outcome: check.OK}
	records := make([]*kgo.Record, n)
	for i := range records {
		in := f.input()
		value, err := json.Marshal(in)
		if err != nil {
			panic(fmt.Sprintf("an Input has a JSON form: %v", err)) // five integers and a flag
		}
		records[i] = &kgo.Record{Topic: f.topic, Key: strconv.AppendUint(nil, uint64(in.Key), 10), Value: value}
		sent.Message, sent.Key = append(sent.Message, in.Message), append(sent.Key, in.Key)
		sent.Other, sent.Amount = append(sent.Other, in.Other), append(sent.Amount, in.Amount)
		if in.Poison {
			sent.Poison = append(sent.Poison, in.ID)
		}
	}
	var mu sync.Mutex
	left := n
	inflight.Add(1)
	for _, r := range records {
		f.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				sent.Outcome = check.Unknown // of one of them, and then nothing is claimed of the others either
			}
			if left--; left == 0 {
				f.history.Write(check.Event{Sent: sent})
				inflight.Done()
			}
		})
	}
}

// input makes the next one up.
func (f *feeder) input() app.Input {
	f.next++
	if len(f.recent) > 0 && f.rng.Float64() < repeatShare {
		in := f.recent[f.rng.IntN(len(f.recent))]
		in.ID = f.next
		return in
	}
	in := app.Input{
		ID: f.next, Message: f.next, Key: f.rng.Uint32N(f.keys), Other: f.rng.Uint32N(f.others), Amount: f.rng.Int64N(2001) - 1000,
	}
	if f.rng.Float64() < poisonShare {
		in.Poison = true
		return in // never again: the other delivery would be judged by another input's fate
	}
	if len(f.recent) < recentMax {
		f.recent = append(f.recent, in)
	} else {
		f.recent[f.rng.IntN(recentMax)] = in
	}
	return in
}
