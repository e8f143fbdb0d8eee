package produce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/produce"
)

const transactionalID = "app~a~0~0"

// scene is a sender with a cluster of two brokers on virtual time.
type scene struct {
	*virtual.Kafka
	t       *testing.T
	network *virtual.Network
	client  *kgo.Client
	admin   *kadm.Client
	sender  *produce.Sender
	unsent  atomic.Int64
	id      batch.Identity
	set     *batch.Set
	written map[batch.Destination][]string
	n       int
	// requests counts the Produce requests that have come to a broker.
	requests *kfake.FaultHandle
}

func newScene(t *testing.T) *scene {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	k := virtual.NewKafka(t, network, 2, kfake.SeedTopics(2, "A", "B"))
	s := &scene{Kafka: k, t: t, network: network, written: map[batch.Destination][]string{}}
	s.client = k.Client(t, "producer", kgo.RequestTimeoutOverhead(5*time.Second), kgo.MetadataMinAge(10*time.Millisecond))
	s.admin = k.Admin(t, "admin")
	s.requests = k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	s.sender = produce.New(produce.Config{
		Client: s.client, TransactionalID: transactionalID, Pause: func(int) time.Duration { return 100 * time.Millisecond }, Unsent: &s.unsent,
	})
	t.Cleanup(s.sender.Close)
	s.set = batch.NewSet(func(string) int { return 2000 })
	s.init()
	s.begin()
	return s
}

func (s *scene) init() {
	s.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = kmsg.StringPtr(transactionalID), 60_000, -1, -1
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = batch.Identity{ProducerID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func (s *scene) begin() {
	s.t.Helper()
	if err := s.sender.Begin(s.id); err != nil {
		s.t.Fatal(err)
	}
}

// add adds n records to each of the partitions and hands them over.
func (s *scene) add(n int, to ...batch.Destination) {
	s.t.Helper()
	for range n {
		for _, at := range to {
			s.n++
			value := fmt.Sprint(s.n, strings.Repeat(".", 200))
			if _, err := batch.Add[batch.Header](s.set, at.Topic, at.Partition, 1e12, nil, []byte(value), nil); err != nil {
				s.t.Fatal(err)
			}
			s.written[at] = append(s.written[at], value)
		}
	}
	s.sender.Send(s.set.Take(true, nil))
}

func (s *scene) flush() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return s.sender.Flush(ctx)
}

// end ends the transaction and begins another one.
func (s *scene) end(commit bool) {
	s.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = transactionalID, s.id.ProducerID, s.id.Epoch, commit
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = batch.Identity{ProducerID: resp.ProducerID, Epoch: resp.ProducerEpoch}
	s.begin()
}

// check commits and compares every partition with what was handed over, and the ends that the
// sender knows with the records.
func (s *scene) check() {
	s.t.Helper()
	ends := map[batch.Destination]int64{}
	for at := range s.written {
		end, known := s.sender.End(at)
		if !known {
			s.t.Errorf("the end of %v is not known", at)
		}
		ends[at] = end
	}
	s.end(true)
	s.compare()
	for at, end := range ends {
		if got := s.read(at); len(got) == 0 || got[len(got)-1].Offset+1 != end {
			s.t.Errorf("the end of %v is %d, and %d records are there", at, end, len(got))
		}
	}
}

// compare compares every partition with what was handed over.
func (s *scene) compare() {
	s.t.Helper()
	for at, want := range s.written {
		var got []string
		for _, r := range s.read(at) {
			got = append(got, string(r.Value))
		}
		if !slices.Equal(got, want) {
			s.t.Errorf("%v has %d records, want %d in their order", at, len(got), len(want))
		}
	}
}

// read returns the committed records of a partition.
func (s *scene) read(at batch.Destination) (out []*kgo.Record) {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), at.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup(at.Topic, at.Partition)
	cl := s.Kafka.Client(s.t, "reader", kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {at.Partition: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(s.t.Context())
		if err := fetches.Err(); err != nil {
			s.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
	return out
}

var (
	a0 = batch.Destination{Topic: "A", Partition: 0}
	a1 = batch.Destination{Topic: "A", Partition: 1}
	b0 = batch.Destination{Topic: "B", Partition: 0}
	b1 = batch.Destination{Topic: "B", Partition: 1}
)

// TestTransactions: records of many batches arrive once and in order, in one transaction after the
// other, and what is aborted does not appear.
func TestTransactions(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		for range 3 {
			s.add(50, a0, a1, b0)
			s.add(7, b1, a0)
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
			if n := s.unsent.Load(); n != 0 {
				t.Errorf("%d bytes wait after a flush", n)
			}
			s.check()
			before := map[batch.Destination][]string{}
			for at, values := range s.written {
				before[at] = slices.Clone(values)
			}
			s.add(20, a0, b1)
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
			s.written = before
			s.end(false)
			s.compare()
		}
	})
}

// TestRefusals: each code of an answer that may pass is answered by the same bytes, until they are
// taken, and everything arrives once. A code of the others fails the transaction with its
// partition, and nothing more is sent.
func TestRefusals(t *testing.T) {
	retried := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.KafkaStorageError, kerr.NetworkException, kerr.ConcurrentTransactions, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.ThrottlingQuotaExceeded, kerr.BrokerNotAvailable, kerr.InconsistentTopicID,
	}
	failing := []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation,
		kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat, kerr.CorruptMessage, kerr.InvalidProducerEpoch,
		kerr.InvalidProducerIDMapping, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.ProducerFenced, kerr.InvalidTxnState,
		kerr.TransactionAbortable, kerr.UnknownServerError, kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.OperationNotAttempted,
	}
	refuse := func(t *testing.T, s *scene, err *kerr.Error, count int) *kfake.FaultHandle {
		t.Helper()
		s.add(1, a0, a1, b0, b1) // the leaders are known from here on
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		return s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A", Partitions: []int32{1}, Err: err, Count: count})
	}
	for _, code := range retried {
		t.Run(code.Message, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newScene(t)
				fault := refuse(t, s, code, 3)
				s.add(30, a0, a1, b0, b1)
				if err := s.flush(); err != nil {
					t.Fatal(err)
				}
				if fault.Hits() != 3 {
					t.Errorf("the fault was met %d times, want 3", fault.Hits())
				}
				s.check()
			})
		})
	}
	for _, code := range failing {
		t.Run(code.Message, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newScene(t)
				fault := refuse(t, s, code, -1)
				s.add(30, a0, a1, b0, b1)
				err := s.flush()
				failed, ok := errors.AsType[*produce.Error](err)
				if !ok || failed.Destination != a1 || !errors.Is(err, code) {
					t.Fatalf("the error is %v, want %s of A[1]", err, code.Message)
				}
				if fault.Hits() != 1 {
					t.Errorf("the fault was met %d times, want once", fault.Hits())
				}
				if err := s.sender.Drop(t.Context()); err != nil {
					t.Fatal(err)
				}
				sent := s.requests.Hits()
				s.add(1, b0)
				if err := s.flush(); !errors.Is(err, code) {
					t.Errorf("the second flush returns %v", err)
				}
				if s.requests.Hits() != sent {
					t.Error("something was sent after the failure")
				}
			})
		})
	}
}

// TestUnknownForGood: a topic or partition that stays unknown is a failure of the transaction.
func TestUnknownForGood(t *testing.T) {
	for _, tc := range []struct {
		name  string
		make  func(s *scene)
		to    batch.Destination
		cause error
	}{
		{"answers say so", func(s *scene) {
			s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A", Err: kerr.UnknownTopicOrPartition, Count: -1})
		}, a0, kerr.UnknownTopicOrPartition},
		{"no such topic", func(*scene) {}, batch.Destination{Topic: "C"}, kerr.UnknownTopicOrPartition},
		{"no such partition", func(*scene) {}, batch.Destination{Topic: "A", Partition: 7}, nil},
		{"created anew", func(s *scene) {
			s.add(1, a0)
			if err := s.flush(); err != nil {
				s.t.Fatal(err)
			}
			if _, err := s.admin.DeleteTopics(s.t.Context(), "A"); err != nil {
				s.t.Fatal(err)
			}
			if _, err := s.admin.CreateTopic(s.t.Context(), 2, 1, nil, "A"); err != nil {
				s.t.Fatal(err)
			}
		}, a0, kerr.UnknownTopicID},
		{"no permission", func(s *scene) {
			s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "A", Err: kerr.TopicAuthorizationFailed, Count: -1})
		}, a0, kerr.TopicAuthorizationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newScene(t)
				tc.make(s)
				s.add(1, tc.to)
				err := s.flush()
				failed, ok := errors.AsType[*produce.Error](err)
				if !ok || failed.Destination != tc.to || tc.cause != nil && !errors.Is(err, tc.cause) {
					t.Fatalf("the error is %v, want %v of %v", err, tc.cause, tc.to)
				}
				var code *kerr.Error
				if tc.cause == nil && errors.As(err, &code) {
					t.Errorf("the error is %v, and no broker has refused", err)
				}
			})
		})
	}
}

// TestFrames: requests and replies that are lost, late or cut lead to the same bytes again, and
// everything arrives once and in order.
func TestFrames(t *testing.T) {
	for _, direction := range []proxy.Direction{proxy.ToBroker, proxy.ToClient} {
		for name, action := range map[string]proxy.Action{
			"lost": proxy.Drop(), "cut": proxy.Cut(), "late": proxy.Delay(25 * time.Second), "slow": proxy.Delay(3 * time.Second),
		} {
			t.Run(fmt.Sprint(name, " ", direction), func(t *testing.T) {
				virtual.Test(t, func(t *testing.T) {
					s := newScene(t)
					rule := s.network.Add(proxy.Match{Key: proxy.KeyProduce, Direction: direction, Skip: 2, Limit: 2}, action)
					s.add(40, a0, a1, b0, b1)
					if err := s.flush(); err != nil {
						t.Fatal(err)
					}
					if rule.Counts().Matched != 2 {
						t.Errorf("%d frames were met, want 2", rule.Counts().Matched)
					}
					s.check()
					time.Sleep(time.Minute) // virtual: what is late has come
					s.add(1, a0, a1, b0, b1)
					if err := s.flush(); err != nil {
						t.Fatal(err)
					}
					s.check()
				})
			})
		}
	}
}

// TestLeadersMove: batches follow the leaders of their partitions, also while a broker is away.
func TestLeadersMove(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		for i := range 6 {
			s.add(10, a0, a1, b0, b1)
			for p := range int32(2) {
				for _, topic := range []string{"A", "B"} {
					if err := s.MoveTopicPartition(topic, p, (s.LeaderFor(topic, p)+1)%2); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.add(10, a0, a1, b0, b1)
			if i == 3 {
				s.Stop(1)
				time.AfterFunc(10*time.Second, func() { s.Start(1) })
			}
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
		}
		s.check()
	})
}

// TestThrottled: what a broker asks to wait for is waited for, and everything arrives.
func TestThrottled(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.add(1, a0)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		throttle := int32(7000)
		node := s.LeaderFor("A", 0)
		s.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			if s.CurrentNode() != node {
				s.KeepControl()
				return nil, nil, false
			}
			resp := kreq.ResponseKind().(*kmsg.ProduceResponse)
			resp.ThrottleMillis = throttle
			for _, rt := range kreq.(*kmsg.ProduceRequest).Topics {
				topic := kmsg.NewProduceResponseTopic()
				topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
				for _, p := range rt.Partitions {
					part := kmsg.NewProduceResponseTopicPartition()
					part.Partition, part.ErrorCode = p.Partition, kerr.ThrottlingQuotaExceeded.Code
					topic.Partitions = append(topic.Partitions, part)
				}
				resp.Topics = append(resp.Topics, topic)
			}
			return resp, nil, true
		})
		s.add(3, a0)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 7*time.Second {
			t.Errorf("the batches were sent after %s, and the broker has asked for 7 s", took)
		}
		s.check()
	})
}

// TestDuplicate: a broker that says that it has the batch leaves the end of the partition unknown,
// whatever its answer has as an offset. The sequence numbers go on behind the batch.
func TestDuplicate(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A", Err: kerr.DuplicateSequenceNumber})
		s.add(1, a0)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if end, known := s.sender.End(a0); known {
			t.Errorf("the end is %d, and no answer has named it", end)
		}
		s.add(1, a0)
		if err := s.flush(); err == nil { // the broker has not got the first batch
			t.Error("a batch behind one that is missing was acknowledged")
		}
	})
}

// TestDrop: an abort waits for the request that is in flight, and drops what waits; the next
// transaction does not begin before.
func TestDrop(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		if s.sender.Attempted() {
			t.Error("a request was sent before there was a batch")
		}
		rule := s.network.Add(proxy.Match{Key: proxy.KeyProduce, Direction: proxy.ToClient}, proxy.Hold())
		s.add(30, a0)
		if err := rule.AwaitMatched(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.sender.Drop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dropping returns %v while a request is in flight", err)
		}
		if err := s.sender.Begin(s.id); err == nil {
			t.Error("a transaction has begun while a request of the one before is in flight")
		}
		if !s.sender.Attempted() {
			t.Error("no request was attempted")
		}
		rule.Lift()
		if err := s.sender.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.requests.Hits(); n != 1 {
			t.Errorf("%d requests were sent, want 1", n)
		}
		s.written = map[batch.Destination][]string{}
		s.set = batch.NewSet(func(string) int { return 2000 })
		s.end(false)
		s.add(2, a0)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		s.check()
	})
}

// TestDeadline: a flush that ends without a failure says what it was waiting for, and its error is
// no answer of a broker.
func TestDeadline(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
		s.add(1, a0)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		err := s.sender.Flush(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kerr.NotEnoughReplicas) || !strings.Contains(err.Error(), "NOT_ENOUGH_REPLICAS") {
			t.Errorf("the error is %v", err)
		}
		s.sender.Close()
		if err := s.sender.Flush(t.Context()); !errors.Is(err, kgo.ErrClientClosed) {
			t.Errorf("a closed sender returns %v", err)
		}
		if err := s.sender.Begin(s.id); err == nil {
			t.Error("a closed sender begins a transaction")
		}
	})
}
