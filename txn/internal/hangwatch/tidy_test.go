package hangwatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestRemove: an answer is removed once the id was initialised and no partition holds the
// transaction open, and not before.
func TestRemove(t *testing.T) {
	for _, test := range []struct {
		name                 string
		hangs, uninitialised bool
		fault                *kfake.Fault
		noOffsets            bool
		kept                 bool
	}{
		{name: "nothing is open"},
		{name: "it hangs", hangs: true, kept: true},
		{name: "the id is not initialised yet", uninitialised: true, kept: true},
		{name: "a partition does not answer", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: -1}, kept: true},
		{name: "a topic may not be read", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1}, kept: true},
		{name: "the coordinator may not be asked", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1}, kept: true},
		{name: "the topic of the offsets is not named, and was not looked at", noOffsets: true, kept: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, false, func(t *testing.T, s *scene) {
				p := s.producer()
				s.end(p, func(virtual.End) virtual.Loss { return func(string, int32) bool { return !test.hangs } })
				s.watch.Note(t.Context(), false, own)
				if len(s.watch.before) != 1 {
					t.Fatal("no answer is there: the test tests nothing")
				}
				if !test.uninitialised {
					if err := p.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if test.fault != nil {
					s.kafka.Fault(*test.fault)
				}
				if test.noOffsets {
					s.kafka.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
						s.kafka.KeepControl()
						if req := kreq.(*kmsg.MetadataRequest); req.IncludeTopicAuthorizedOperations {
							req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return *t.Topic == broker.OffsetsTopic })
						}
						return nil, nil, false
					})
				}
				if over := s.watch.tidy(t.Context()); over == (test.fault != nil || test.noOffsets) {
					t.Errorf("all has answered: %t", over)
				}
				if kept := len(s.watch.before) == 1; kept != test.kept {
					t.Errorf("kept is %+v", s.watch.before)
				}
			})
		})
	}
}

// all loses no marker, and lets the coordinator know how the transaction ended.
func all(virtual.End) virtual.Loss { return func(string, int32) bool { return true } }

// TestCoordinatorsAreAskedFirst: what is written between a look and the initialisation of an id is
// not seen by the look. So the coordinators are asked before it.
func TestCoordinatorsAreAskedFirst(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		p := s.producer()
		s.end(p, all)
		s.watch.Note(t.Context(), false, own)
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []kmsg.Key
		for _, key := range []kmsg.Key{kmsg.DescribeProducers, kmsg.DescribeTransactions} {
			s.kafka.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.kafka.KeepControl()
				order = append(order, key)
				return nil, nil, false
			})
		}
		s.watch.tidy(t.Context())
		if last := slices.Index(order, kmsg.DescribeProducers); len(order) < 2 || last < 1 || slices.Contains(order[last:], kmsg.DescribeTransactions) || len(s.watch.before) != 0 {
			t.Errorf("asked is %v, kept %+v", order, s.watch.before)
		}
	})
}

// TestNoStartWaitsForTidy: a coordinator that does not answer holds up neither a start nor the end
// of a membership. Answers are removed once it does.
func TestNoStartWaitsForTidy(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		p := s.producer()
		s.end(p, all)
		s.watch.Note(t.Context(), false, own)
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		var asked, answers atomic.Int32
		kept := func() int {
			s.watch.mu.Lock()
			defer s.watch.mu.Unlock()
			return len(s.watch.before)
		}
		s.kafka.ControlKey(int16(kmsg.DescribeTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.kafka.KeepControl()
			asked.Add(1)
			if answers.Load() == 0 {
				s.kafka.SleepControl(func() { time.Sleep(time.Minute) })
			}
			return nil, nil, false
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tidy sync.WaitGroup
		defer tidy.Wait()
		tidy.Go(func() { s.watch.Tidy(ctx) })
		defer cancel()
		began := time.Now()
		if _, clean := s.watch.AtStart(t.Context()); !clean || time.Since(began) >= describeMax {
			t.Errorf("clean is %t after %s", clean, time.Since(began))
		}
		time.Sleep(2 * describeMax)
		if asked.Load() == 0 || kept() != 1 {
			t.Errorf("coordinators were asked %d times, %d answers are kept", asked.Load(), kept())
		}
		answers.Store(1)
		time.Sleep(3 * hangingWatch) // nothing wants a look
		if kept() != 0 {
			t.Errorf("%d answers are kept", kept())
		}
	})
}
