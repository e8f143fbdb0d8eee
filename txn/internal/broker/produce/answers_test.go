package produce

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// answering returns a sender that sends nothing, and two of its lanes that wait for their leaders.
func answering() (s *Sender, a, b *lane) {
	s = New(Config{Pause: func(int) time.Duration { return 0 }, Unsent: new(atomic.Int64)})
	for _, topic := range []string{"A", "B"} {
		l := s.lane(batch.Destination{Topic: topic})
		l.queue, l.active = []*batch.Batch{{Topic: topic}}, true
		s.active = append(s.active, l)
	}
	return s, s.active[0], s.active[1]
}

// leading is an answer to a lookup that names the leader of the first partition of each topic.
func leading(topics ...string) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	for _, name := range topics {
		t, p := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		t.Topic, t.TopicID, p.Leader = kmsg.StringPtr(name), [16]byte{name[0]}, 1
		t.Partitions = append(t.Partitions, p)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// TestLookupOfOtherTopics: the answer to a lookup says nothing of a topic that was not asked for. A
// partition that loses its leader while lookups of other topics are under way is not unknown.
func TestLookupOfOtherTopics(t *testing.T) {
	s, a, b := answering()
	for range unknownMax + 1 {
		s.found(map[string]bool{"A": true}, leading("A"), nil)
		if s.failed != nil || a.leader != 1 || b.leader != -1 {
			t.Fatalf("the transaction has failed (%v), and the leaders are %d and %d", s.failed, a.leader, b.leader)
		}
		a.leader = -1
	}
	for range unknownMax + 1 { // the control: a topic that was asked for
		s.found(map[string]bool{"B": true}, leading("A"), nil)
	}
	if failed, ok := errors.AsType[*Error](s.failed); !ok || failed.Topic != "B" || !errors.Is(failed, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that lookups do not find fails with %v", s.failed)
	}
}

// TestUnknownInARow: only answers in a row that do not know a partition are a failure, and only
// lookups in a row that do not find it. Any other answer says that the partition is there.
func TestUnknownInARow(t *testing.T) {
	both := map[string]bool{"A": true, "B": true}
	s, a, _ := answering()
	for range 3 {
		for range unknownMax {
			s.retry(a, kerr.UnknownTopicOrPartition, unknown)
			s.found(both, leading("A", "B"), nil)
		}
		s.retry(a, kerr.NotLeaderForPartition, lookup)
		for range unknownMax {
			s.found(both, leading("B"), nil)
		}
		s.found(both, leading("A", "B"), nil)
	}
	if s.failed != nil {
		t.Fatalf("the transaction has failed: %v", s.failed)
	}
	for range unknownMax + 1 { // the control: a lookup that finds the topic does not count for its leader
		s.retry(a, kerr.UnknownTopicOrPartition, unknown)
		s.found(both, leading("A", "B"), nil)
	}
	if !errors.Is(s.failed, kerr.UnknownTopicOrPartition) {
		t.Errorf("after %d unknown answers the failure is %v", unknownMax+1, s.failed)
	}
}

// TestNamedLeader: a leader that an answer names is sent to at once, if it is newer than the one
// that was asked. An older one, or none, is looked up after a pause.
func TestNamedLeader(t *testing.T) {
	s, a, _ := answering()
	a.leader, a.leaderEpoch = 1, 5
	answer := func(leader, epoch int32) {
		p := kmsg.NewProduceResponseTopicPartition()
		p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = kerr.NotLeaderForPartition.Code, leader, epoch
		s.judged(shipment{lane: a, batch: a.queue[0]}, &p)
	}
	for _, tc := range []struct{ named, epoch, want int32 }{{2, 6, 2}, {1, 6, -1}, {1, 5, -1}, {-1, -1, -1}, {3, 9, 3}} {
		answer(tc.named, tc.epoch)
		if a.leader != tc.want {
			t.Errorf("broker %d was named with epoch %d, and the leader is %d, want %d", tc.named, tc.epoch, a.leader, tc.want)
		}
	}
	if a.failures != 3 {
		t.Errorf("%d answers were followed by a pause, want 3", a.failures)
	}
}

// TestUnansweredPartition: a partition that an answer leaves out is sent again, and the others are
// acknowledged, by name or by id as the version of the answer has it.
func TestUnansweredPartition(t *testing.T) {
	for _, version := range []int16{VersionMin, versionIDs} {
		s, a, b := answering()
		a.leader, b.leader = 1, 1
		sent := []shipment{{lane: a, batch: a.queue[0], id: [16]byte{'A'}}, {lane: b, batch: b.queue[0], id: [16]byte{'B'}}}
		s.pending = len(sent)
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = version
		topic, p := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
		if p.BaseOffset = 7; version >= versionIDs {
			topic.TopicID = [16]byte{'A'}
		} else {
			topic.Topic = "A"
		}
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		s.answered(sent, resp, nil)
		if len(a.queue) != 0 || len(b.queue) != 1 || b.leader != -1 || s.pending != 1 || s.failed != nil || !errors.Is(s.last, errUnanswered) {
			t.Errorf("version %d: %d and %d batches wait, %d are pending (%v, %v)", version, len(a.queue), len(b.queue), s.pending, s.failed, s.last)
		}
	}
}
