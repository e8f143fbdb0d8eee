package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
)

const (
	// endsEvery is how often the ends of the inputs are listed, for the lag.
	endsEvery = 5 * time.Second
	// endsKept is for how many of these periods an answer is shown when no newer one comes.
	endsKept = 6
)

// PartitionEnds are the ends of input partitions.
type PartitionEnds map[string]map[int32]broker.End

// inputEnds are the last ends that were listed.
type inputEnds struct {
	last atomic.Pointer[listedEnds]
}

type listedEnds struct {
	at   time.Time
	ends PartitionEnds
}

// read returns the ends unless they are older than kept: no lag is better than a wrong one.
func (e *inputEnds) read(now time.Time, kept time.Duration) PartitionEnds {
	last := e.last.Load()
	if last == nil || now.Sub(last.at) > kept {
		return nil
	}
	return last.ends
}

// watchInputs follows for which transactions inputs wait, by each listing that it gets, until the session ends.
func (s *Session) watchInputs(listed <-chan map[string]map[int32]broker.End) {
	waiting := inputWaits{}
	defer waiting.over(nil)
	for {
		select {
		case <-s.ctx.Done():
			return
		case ends := <-listed:
			waiting.look(s, ends)
		}
	}
}

// watchEnds lists the ends of all inputs again and again, until the session ends. Fetches would tell them too, but not of partitions
// that are paused, restored or stopped, nor while an open transaction keeps a fetch from returning: exactly when lag is looked at.
func (s *Session) watchEnds() {
	var topics []string
	for _, sub := range s.subs {
		for _, src := range sub.Sources {
			topics = append(topics, src.Topic)
		}
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	// A look at what holds an input can take long, and each held partition needs one. The listing does not wait for them.
	listed := make(chan map[string]map[int32]broker.End, 1)
	var looking sync.WaitGroup
	looking.Go(func() { s.watchInputs(listed) })
	defer looking.Wait()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, endsEvery)
		ends, err := s.cfg.Cluster.Ends(ctx, topics...)
		cancel()
		if err == nil {
			s.ends.last.Store(&listedEnds{time.Now(), ends})
			select {
			case listed <- ends:
			default: // still at the one before
			}
		} else if s.ctx.Err() == nil {
			s.cfg.Logger.Debug("the lag is not known", "error", err)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Ends returns the ends of all inputs, as of a few seconds ago; what is not known is missing.
func (s *Session) Ends() PartitionEnds { return s.ends.read(time.Now(), endsEvery*endsKept) }
