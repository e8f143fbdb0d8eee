package broker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// fetchScene is a cluster of two brokers on virtual time, with two topics of four partitions.
type fetchScene struct {
	*virtual.Kafka
	network  *virtual.Network
	t        *testing.T
	fetcher  *broker.Fetcher
	cluster  *broker.Cluster
	producer *kgo.Client
	ids      map[string][16]byte
	// requests counts the fetches, partitions what was asked for in them.
	requests, partitions atomic.Int64
}

func newFetchScene(t *testing.T) *fetchScene {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	c := virtual.NewKafka(t, network, 2, kfake.SeedTopics(4, "one", "two"))
	s := &fetchScene{Kafka: c, network: network, t: t, ids: map[string][16]byte{}}
	var err error
	s.cluster, err = broker.Connect(t.Context(), broker.Config{
		Brokers: c.Brokers(), Dialer: network.Host("app").Dial, Logger: slog.New(slog.DiscardHandler)}, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cluster.Close)
	s.producer = s.Client(t, "producer", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	topics, err := s.cluster.Admin().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, topic := range topics {
		s.ids[name] = topic.ID
	}
	s.fetcher = s.cluster.NewFetcher()
	t.Cleanup(s.fetcher.Close)
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		s.requests.Add(1)
		for _, topic := range r.(*kmsg.FetchRequest).Topics {
			s.partitions.Add(int64(len(topic.Partitions)))
		}
		return nil, nil, false
	})
	return s
}

// write fills a partition with n records, 50 a batch.
func (s *fetchScene) write(topic string, partition int32, n int) {
	s.t.Helper()
	for i := 0; i < n; i += 50 {
		var records []*kgo.Record
		for j := i; j < min(i+50, n); j++ {
			key := fmt.Appendf(nil, "%s %d %d", topic, partition, j)
			records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: make([]byte, 100)})
		}
		if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// readTo reads a partition up to an offset and says how the records differ from those of write.
func (s *fetchScene) readTo(ctx context.Context, topic string, partition int32, end int64) error {
	stream := s.fetcher.Open(topic, s.ids[topic], partition)
	defer stream.Close()
	d, n := batch.NewDecoder(), 0
	for at := int64(0); at < end; {
		a, err := stream.Fetch(ctx, at, 8<<10)
		if err != nil {
			return err
		}
		next, err := a.Decode(d, func(r batch.Record) error {
			if want := fmt.Sprintf("%s %d %d", topic, partition, n); string(r.Key) != want {
				return fmt.Errorf("record %d is not that of %s[%d]", n, topic, partition)
			}
			n++
			return nil
		})
		if err != nil {
			return err
		}
		if next != a.Next {
			return fmt.Errorf("the headers say %d and the records %d", a.Next, next)
		}
		at = next
	}
	if int64(n) != end {
		return fmt.Errorf("%d records, want %d", n, end)
	}
	return nil
}

// TestFetcherReadsManyPartitions: of both topics and from both brokers at once, each its own
// records, in fewer requests than partitions.
func TestFetcherReadsManyPartitions(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newFetchScene(t)
		var all sync.WaitGroup
		for _, topic := range []string{"one", "two"} {
			for p := range int32(4) {
				s.write(topic, p, 500)
			}
		}
		// Each broker has one request for a second, and every stream asks meanwhile.
		s.network.Add(proxy.Match{Key: proxy.KeyFetch, Direction: proxy.ToBroker}, proxy.Delay(time.Second))
		for _, topic := range []string{"one", "two"} {
			for p := range int32(4) {
				all.Go(func() {
					if err := s.readTo(t.Context(), topic, p, 500); err != nil {
						t.Errorf("%s[%d]: %v", topic, p, err)
					}
				})
			}
		}
		all.Wait()
		if s.requests.Load() >= s.partitions.Load() {
			t.Errorf("%d requests for %d partitions: nothing was asked for together", s.requests.Load(), s.partitions.Load())
		}
	})
}

// TestFetcherIsNotHeldUp: a partition of which nothing can be read lets its broker wait for long
// only while nobody else reads: a broker works on one request of a connection at a time.
func TestFetcherIsNotHeldUp(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newFetchScene(t)
		foreign := s.Client(t, "foreign", kgo.TransactionalID("foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		held := &kgo.Record{Topic: "one", Partition: 1, Value: []byte("v")}
		if err := foreign.ProduceSync(t.Context(), held).FirstErr(); err != nil {
			t.Fatal(err)
		}
		s.write("two", 0, 1000)
		for topic, p := range map[string]int32{"one": 1, "two": 0} {
			if err := s.MoveTopicPartition(topic, p, 0); err != nil {
				t.Fatal(err)
			}
		}
		var others, alone, long, patient atomic.Int64 // others are open; requests for the held partition alone
		s.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			req := r.(*kmsg.FetchRequest)
			switch {
			case len(req.Topics) > 1 || req.Topics[0].TopicID != s.ids["one"]:
			case others.Load() == 0:
				patient.Store(max(patient.Load(), int64(req.MaxWaitMillis)))
			default:
				alone.Add(1)
				long.Store(max(long.Load(), int64(req.MaxWaitMillis)))
			}
			return nil, nil, false
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var waits sync.WaitGroup
		waits.Go(func() {
			stream := s.fetcher.Open("one", s.ids["one"], 1)
			defer stream.Close()
			for ctx.Err() == nil {
				if a, err := stream.Fetch(ctx, 0, 1000); err == nil && a.Next != 0 {
					t.Error("an uncommitted record was returned")
					return
				}
			}
		})
		for patient.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		stream := s.fetcher.Open("two", s.ids["two"], 0)
		at := int64(0)
		for n := 0; at < 1000 || alone.Load() < 3; n++ { // it reads, and is at work on what it has read
			a, err := stream.Fetch(t.Context(), min(at, 999), 8<<10)
			if err != nil {
				t.Fatal(err)
			}
			at = a.Next
			others.Store(1) // both leaders are known from here on
			time.Sleep(5 * time.Millisecond)
		}
		others.Store(0)
		stream.Close()
		cancel()
		waits.Wait()
		if long.Load() > 50 || patient.Load() < 100 {
			t.Errorf("a broker may wait for %d ms while others read, and for %d ms otherwise", long.Load(), patient.Load())
		}
		if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFetcherFollowsTheLeader: a partition that moves to another broker in the middle is read on
// there.
func TestFetcherFollowsTheLeader(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newFetchScene(t)
		s.write("one", 0, 2000)
		var moves atomic.Int64
		s.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			if n := moves.Add(1); n%2 == 0 {
				if err := s.MoveTopicPartition("one", 0, int32(n/2%2)); err != nil {
					t.Error(err)
				}
			}
			return nil, nil, false
		})
		if err := s.readTo(t.Context(), "one", 0, 2000); err != nil {
			t.Error(err)
		}
		if moves.Load() < 4 {
			t.Errorf("%d fetches: the partition has hardly moved", moves.Load())
		}
	})
}

// TestFetcherEnds: a fetch ends with its context and with the fetcher, whatever the broker does,
// and an offset that is not in the log is not tried again.
func TestFetcherEnds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newFetchScene(t)
		s.write("one", 0, 10)
		stream := s.fetcher.Open("one", s.ids["one"], 0)
		defer stream.Close()
		if _, err := stream.Fetch(t.Context(), 11, 1000); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("an offset behind the end: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := stream.Fetch(ctx, 0, 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		s.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			s.SleepControl(func() { <-t.Context().Done() }) // until the test is over
			return nil, nil, false
		})
		done := make(chan error, 2)
		ctx, cancel = context.WithCancel(t.Context())
		go func() { _, err := stream.Fetch(ctx, 0, 1000); done <- err }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ends meanwhile: %v", err)
		}
		other := s.fetcher.Open("one", s.ids["one"], 1)
		defer other.Close()
		go func() { _, err := other.Fetch(t.Context(), 0, 1000); done <- err }()
		s.fetcher.Close()
		if err := <-done; err == nil {
			t.Error("a fetch of a fetcher that is closed has an answer")
		}
		if _, err := other.Fetch(t.Context(), 0, 1000); err == nil {
			t.Error("a fetch after the end has an answer")
		}
	})
}
