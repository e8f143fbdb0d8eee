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
// lookups in a row that do not find it. What comes between says that the partition is there.
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
