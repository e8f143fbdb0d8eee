package broker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// commitScene is a producer with a cluster of one broker on virtual time.
type commitScene struct {
	*virtual.Kafka
	cfg      Config
	cluster  *Cluster
	producer *Producer
}

func newCommitScene(t *testing.T, topics ...string) *commitScene {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	c := virtual.NewKafka(t, network, 1, kfake.SeedTopics(2, topics...))
	cfg := Config{
		Brokers: c.Brokers(), Dialer: network.Host("a").Dial, Logger: slog.New(slog.DiscardHandler),
	}
	cluster, err := Connect(t.Context(), cfg, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := NewProducer(cfg, "app~a~0~0", 10*time.Second)
	if err := p.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &commitScene{c, cfg, cluster, p}
}

// begun starts a transaction and flushes one record.
func (s *commitScene) begun(t *testing.T) Identity {
	t.Helper()
	began, err := s.producer.Begin()
	if err != nil {
		t.Fatal(err)
	}
	s.producer.Add("out", 0, 0, nil, []byte("v"), nil)
	if outcome, err := s.producer.Flush(t.Context(), began); outcome != Accepted {
		t.Fatalf("flushing is %s: %v", outcome, err)
	}
	return began
}

// answers returns a complete answer to an offset commit; codeOf says what each partition gets.
func answers(req *kmsg.TxnOffsetCommitRequest, codeOf func(partition int32) int16) *kmsg.TxnOffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, codeOf(p.Partition)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TestCommitOffsetsIsSentOnce: whatever the answer, the request is sent once, at version 5. One
// refused partition among accepted ones refuses the whole. An answer that says that the coordinator
// has moved makes the next Find ask (rule 2.3).
func TestCommitOffsetsIsSentOnce(t *testing.T) {
	code := func(of int32, err *kerr.Error) func(int32) int16 {
		return func(p int32) int16 {
			if p == of {
				return err.Code
			}
			return 0
		}
	}
	for _, tc := range []struct {
		name    string
		codeOf  func(int32) int16 // nil closes the connection
		outcome Outcome
		cause   error
		forgets bool
	}{
		{"accepted", func(int32) int16 { return 0 }, Accepted, nil, false},
		{"first of two refused", code(0, kerr.OffsetMetadataTooLarge), Refused, kerr.OffsetMetadataTooLarge, false},
		{"last of two refused", code(1, kerr.OffsetMetadataTooLarge), Refused, kerr.OffsetMetadataTooLarge, false},
		{"one of two with an unknown code", code(1, &kerr.Error{Code: 9999}), Lost, nil, false},
		{"not the coordinator", code(0, kerr.NotCoordinator), Refused, kerr.NotCoordinator, true},
		{"loading", code(1, kerr.CoordinatorLoadInProgress), Refused, kerr.CoordinatorLoadInProgress, true},
		{"connection closed", nil, Refused, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newCommitScene(t, "in", "out")
				coordinator := NewCoordinator(s.cluster)
				if _, err := coordinator.Find(t.Context()); err != nil {
					t.Fatal(err)
				}
				began := s.begun(t)
				var sent, wrongVersion atomic.Int64
				s.ControlKey(keyTxnOffsetCommit, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					s.KeepControl()
					sent.Add(1)
					if kreq.GetVersion() != 5 {
						wrongVersion.Add(1)
					}
					if tc.codeOf == nil {
						return nil, io.ErrClosedPipe, true
					}
					return answers(kreq.(*kmsg.TxnOffsetCommitRequest), tc.codeOf), nil, true
				})
				outcome, err := s.producer.CommitOffsets(t.Context(), coordinator, began, Membership{"member", 1, "a"}, []Offset{
					{Topic: "in", Partition: 0, At: 1}, {Topic: "in", Partition: 1, At: 2},
				})
				if outcome != tc.outcome || (outcome == Accepted) != (err == nil) || tc.cause != nil && !errors.Is(err, tc.cause) {
					t.Errorf("the outcome is %s (%v), want %s", outcome, err, tc.outcome)
				}
				if n := sent.Load(); n != 1 {
					t.Errorf("the request was sent %d times, want once", n)
				}
				if wrongVersion.Load() != 0 {
					t.Error("the request has another version than 5")
				}
				if _, known := coordinator.known(); known == tc.forgets {
					t.Errorf("the coordinator is known: %t, want %t", known, !tc.forgets)
				}
			})
		})
	}
}

// TestCommitOffsetsNeverLooksUp: another worker has dropped the coordinator since the transaction
// began. The round is refused and its transaction can be aborted. Nothing is looked up and nothing
// is sent; the next round finds the coordinator again (rule 2.3).
func TestCommitOffsetsNeverLooksUp(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "in", "out")
		coordinator := NewCoordinator(s.cluster)
		var lookups, sent atomic.Int64
		s.ControlKey(int16(kmsg.FindCoordinator), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			if kreq.(*kmsg.FindCoordinatorRequest).CoordinatorType == 0 {
				lookups.Add(1)
			}
			return nil, nil, false
		})
		s.ControlKey(keyTxnOffsetCommit, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			sent.Add(1)
			return answers(kreq.(*kmsg.TxnOffsetCommitRequest), func(int32) int16 { return 0 }), nil, true
		})
		find := func() {
			t.Helper()
			if _, err := coordinator.Find(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		commit := func(began Identity) (Outcome, error) {
			return s.producer.CommitOffsets(t.Context(), coordinator, began, Membership{"member", 1, "a"}, []Offset{{Topic: "in", At: 1}})
		}
		find()
		if n := lookups.Load(); n != 1 {
			t.Fatalf("%d lookups were counted, want 1: the test would see none", n)
		}
		began := s.begun(t)
		coordinator.Forget() // as another worker does
		outcome, err := commit(began)
		if outcome != Refused || !errors.Is(err, errForgotten) || ScopeOf(err) != ScopeRound || NewerGeneration(err) {
			t.Errorf("the outcome is %s (%v), want refused for this round alone", outcome, err)
		}
		if lookups.Load() != 1 || sent.Load() != 0 {
			t.Errorf("%d lookups and %d offset commits inside the open transaction, want none", lookups.Load()-1, sent.Load())
		}
		if outcome, err := s.producer.Abort(t.Context()); outcome != Accepted {
			t.Fatalf("aborting is %s: %v", outcome, err)
		}
		find()
		if outcome, err := commit(s.begun(t)); outcome != Accepted || lookups.Load() != 2 || sent.Load() != 1 {
			t.Errorf("the next round is %s (%v) after %d lookups", outcome, err, lookups.Load())
		}
	})
}

// TestLostProducer: rule 2.2. A broker does not know the producer any more, because its records
// were deleted. The producer takes no new identity in the middle of a transaction, or the second
// half alone would commit. Nothing more is sent, and the producer has to be settled.
func TestLostProducer(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "A", "B", "out")
		send := func(topic string, began Identity) (Outcome, error) {
			s.producer.Add(topic, 0, 0, nil, []byte("v"), nil)
			return s.producer.Flush(t.Context(), began)
		}
		begin := func() Identity {
			began, err := s.producer.Begin()
			if err != nil {
				t.Fatal(err)
			}
			return began
		}
		began := begin()
		for _, topic := range []string{"A", "B"} {
			if outcome, err := send(topic, began); outcome != Accepted {
				t.Fatalf("the outcome is %s: %v", outcome, err)
			}
		}
		if outcome, err := s.producer.Commit(t.Context()); outcome != Accepted {
			t.Fatalf("committing is %s: %v", outcome, err)
		}
		began = begin()
		if outcome, err := send("A", began); outcome != Accepted {
			t.Fatalf("the outcome is %s: %v", outcome, err)
		}
		s.loseProducer(t, "B")
		if outcome, err := send("B", began); outcome != Lost || !errors.Is(err, kerr.InvalidProducerEpoch) {
			t.Errorf("the outcome is %s (%v), want lost", outcome, err)
		}
		if outcome, err := send("A", began); outcome != Lost {
			t.Errorf("after it the outcome is %s (%v), want lost", outcome, err)
		}
		if now, err := s.producer.Identity(); now != began || err != nil {
			t.Errorf("the identity is %v (%v), want %v still", now, err, began)
		}
		other := began
		other.Epoch--
		if err := s.producer.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		began = begin()
		if outcome, err := send("A", other); outcome != Lost || !strings.Contains(err.Error(), "the transaction began as") {
			t.Errorf("under another identity than it began with the outcome is %s (%v), want lost", outcome, err)
		}
		if outcome, err := s.producer.Flush(t.Context(), began); outcome != Accepted {
			t.Errorf("settled, the outcome is %s: %v", outcome, err)
		}
	})
}

// TestEndIsWhatWasAsked: rule 2.5. A transaction with a record ends by a commit or an abort as it
// was asked for. The end of one without an attempt to write sends nothing. Each end that was
// answered gives the next transaction another identity.
func TestEndIsWhatWasAsked(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "out")
		var ends []bool
		s.ControlKey(keyEndTxn, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			ends = append(ends, kreq.(*kmsg.EndTxnRequest).Commit)
			return nil, nil, false
		})
		first := s.begun(t)
		if outcome, err := s.producer.Commit(t.Context()); outcome != Accepted || !slices.Equal(ends, []bool{true}) {
			t.Fatalf("the outcome is %s (%v), commits were sent: %v", outcome, err, ends)
		}
		second := s.begun(t)
		if outcome, err := s.producer.Abort(t.Context()); outcome != Accepted || !slices.Equal(ends, []bool{true, false}) {
			t.Fatalf("the outcome is %s (%v), commits were sent: %v", outcome, err, ends)
		}
		third, err := s.producer.Begin()
		if err != nil || first == second || second == third {
			t.Fatalf("the identities are %v, %v and %v (%v)", first, second, third, err)
		}
		if outcome, err := s.producer.Abort(t.Context()); outcome != Accepted || len(ends) != 2 {
			t.Fatalf("the outcome is %s (%v), commits were sent: %v", outcome, err, ends)
		}
		if fourth := s.begun(t); fourth != third {
			t.Errorf("after a transaction of which no broker knows the identity is %v, want %v", fourth, third)
		}
	})
}

// TestHold: batches that are held go with the records that are added behind them, in one request.
// The batches that were held and not sent are dropped with their transaction.
func TestHold(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "out")
		began := s.begun(t)
		s.producer.Add("out", 1, 0, nil, []byte("v"), nil)
		if outcome, err := s.producer.Flush(t.Context(), began); outcome != Accepted { // the leaders are known from here on
			t.Fatalf("flushing is %s: %v", outcome, err)
		}
		if outcome, err := s.producer.Commit(t.Context()); outcome != Accepted {
			t.Fatalf("the outcome is %s: %v", outcome, err)
		}
		requests := s.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
		held := func() []*batch.Batch {
			set := s.producer.NewSet()
			if _, err := batch.Add[RecordHeader](set, "out", 0, 0, nil, []byte("held"), nil); err != nil {
				t.Fatal(err)
			}
			return set.Take(true, nil)
		}
		begin := func() Identity {
			began, err := s.producer.Begin()
			if err != nil {
				t.Fatal(err)
			}
			return began
		}
		for _, tc := range []struct {
			name string
			hand func([]*batch.Batch)
			want int
		}{{"held", s.producer.Hold, 1}, {"sent", s.producer.Send, 2}} {
			began := begin()
			before := requests.Hits()
			tc.hand(held())
			synctest.Wait()
			s.producer.Add("out", 1, 0, nil, []byte("added"), nil)
			if outcome, err := s.producer.Flush(t.Context(), began); outcome != Accepted {
				t.Fatalf("flushing is %s: %v", outcome, err)
			}
			if got := requests.Hits() - before; tc.name == "held" && got != tc.want || got < tc.want {
				t.Errorf("%s: %d requests, want %d", tc.name, got, tc.want)
			}
			if outcome, err := s.producer.Commit(t.Context()); outcome != Accepted {
				t.Fatalf("the outcome is %s: %v", outcome, err)
			}
		}
		begin()
		before := requests.Hits()
		s.producer.Hold(held())
		if outcome, err := s.producer.Abort(t.Context()); outcome != Accepted {
			t.Fatalf("the outcome is %s: %v", outcome, err)
		}
		if outcome, err := s.producer.Flush(t.Context(), begin()); outcome != Accepted || requests.Hits() != before {
			t.Errorf("what was held in an aborted transaction was sent in the next one (%s, %v)", outcome, err)
		}
	})
}

// TestUnusableAfterUnansweredEnd: after a commit without an answer no transaction begins before the
// producer is settled.
func TestUnusableAfterUnansweredEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "out")
		s.begun(t)
		s.ControlKey(keyEndTxn, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			resp := kreq.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = kerr.UnknownServerError.Code
			return resp, nil, true
		})
		if outcome, err := s.producer.Commit(t.Context()); outcome != InDoubt {
			t.Fatalf("the outcome is %s (%v), want in doubt", outcome, err)
		}
		if _, err := s.producer.Begin(); err == nil {
			t.Error("a transaction has begun")
		}
		if err := s.producer.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.begun(t)
	})
}

// loseProducer deletes the records of a topic and answers one produce to it as a broker does that
// has lost the producer's state with them.
func (s *commitScene) loseProducer(t *testing.T, topic string) {
	t.Helper()
	ends, err := s.cluster.adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cluster.adm.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	s.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, p := range rt.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode, part.LogStartOffset = p.Partition, kerr.InvalidProducerEpoch.Code, 5
				topic.Partitions = append(topic.Partitions, part)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// TestStableOffsetsOfFirstCommit: rule 5.2. The first commit ever of a partition is pending: the
// answer is waited for and is neither "none" nor missing, every question names the partition and
// wants stability, and the wait is told of.
func TestStableOffsetsOfFirstCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newCommitScene(t, "in", "out")
		coordinator := NewCoordinator(s.cluster)
		if _, err := coordinator.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := s.begun(t)
		outside := Membership{member: "", generation: -1} // NewMembership refuses it; here there is no group
		outcome, err := s.producer.CommitOffsets(t.Context(), coordinator, began, outside, []Offset{{Topic: "in", At: 7, Metadata: "ours"}})
		if outcome != Accepted {
			t.Fatalf("committing offsets is %s: %v", outcome, err)
		}
		var asked, wrong, waited atomic.Int64
		several := make(chan struct{})
		s.ControlKey(keyOffsetFetch, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			req := kreq.(*kmsg.OffsetFetchRequest)
			if !req.RequireStable || len(req.Groups) != 1 || len(req.Groups[0].Topics) != 1 || len(req.Groups[0].Topics[0].Partitions) != 1 {
				wrong.Add(1)
			}
			if asked.Add(1) == 4 {
				close(several)
			}
			return nil, nil, false
		})
		type result struct {
			offsets []Offset
			err     error
		}
		got := make(chan result, 1)
		go func() {
			offsets, err := s.cluster.StableOffsets(t.Context(), map[string][]int32{"in": {0}}, func(context.Context) { waited.Add(1) })
			got <- result{offsets, err}
		}()
		select {
		case r := <-got:
			t.Fatalf("while the commit is pending the answer is %v (%v)", r.offsets, r.err)
		case <-several:
		}
		if outcome, err := s.producer.Commit(t.Context()); outcome != Accepted {
			t.Fatalf("committing is %s: %v", outcome, err)
		}
		r := <-got
		if r.err != nil || len(r.offsets) != 1 || r.offsets[0].At != 7 || r.offsets[0].Metadata != "ours" {
			t.Errorf("the answer is %v (%v), want the offset 7", r.offsets, r.err)
		}
		if wrong.Load() != 0 {
			t.Errorf("%d of %d questions do not name the partition or do not want stability", wrong.Load(), asked.Load())
		}
		if waited.Load() < 3 {
			t.Errorf("the wait was told of %d times, and at least 3 answers said that the offset is not stable", waited.Load())
		}
	})
}
