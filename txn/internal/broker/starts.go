package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Start is where an input without a committed offset begins: at the end of the log, or at a time.
type Start struct {
	Latest bool
	Time   time.Time
}

// Starts makes numbers of start offsets, one for each partition and life of the process. A number
// holds until the group has a commit, over memberships too: what arrives while one ends and the
// next begins is not skipped.
//
// It is safe for concurrent use.
type Starts struct {
	cluster *Cluster
	of      map[string]Start
	// asking holds one token for who asks the cluster: whoever waits for it finds the answer of the
	// one before.
	asking chan struct{}

	mu sync.Mutex
	at map[topicPartition]int64
}

// NewStarts returns the starts of those topics; a topic that is not there begins at the start of
// its log.
func NewStarts(c *Cluster, of map[string]Start) *Starts {
	return &Starts{cluster: c, of: of, asking: make(chan struct{}, 1), at: map[topicPartition]int64{}}
}

// Has reports whether the topic has a start of its own.
func (s *Starts) Has(topic string) bool {
	_, has := s.of[topic]
	return has
}

// Offset returns the number that the start of a partition means.
func (s *Starts) Offset(ctx context.Context, topic string, partition int32) (int64, error) {
	if err := s.resolve(ctx, topic, partition); err != nil {
		return 0, err
	}
	at, _ := s.known(topicPartition{topic, partition})
	return at, nil
}

// known returns the number of a partition, or unknown, and whether its topic has a start of its
// own. A nil Starts has none.
func (s *Starts) known(in topicPartition) (at int64, has bool) {
	if s == nil || !s.Has(in.topic) {
		return unknown, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, is := s.at[in]; is {
		return at, true
	}
	return unknown, true
}

// resolve returns once the number of a partition is known. The other partitions of the topic get
// theirs by the same answer.
func (s *Starts) resolve(ctx context.Context, topic string, partition int32) error {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return fmt.Errorf("resolving the start offset of %s: %w", topic, ctx.Err())
	}
	s.mu.Lock()
	_, known := s.at[topicPartition{topic, partition}]
	s.mu.Unlock()
	if known {
		return nil
	}
	found, err := s.cluster.listStart(ctx, topic, s.of[topic])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found.Each(func(o kadm.ListedOffset) {
		in := topicPartition{o.Topic, o.Partition}
		if _, known := s.at[in]; !known && o.Err == nil {
			s.at[in] = o.Offset
		}
	})
	if _, known = s.at[topicPartition{topic, partition}]; !known {
		o, _ := found.Lookup(topic, partition)
		return fmt.Errorf("resolving the start offset of %s[%d]: %w", topic, partition, orMissing(o.Err))
	}
	return nil
}

// listStart lists what a start means now in every partition of a topic. The end is the last stable
// offset, because the input is read committed: a record of a transaction that is open now arrives
// later.
func (c *Cluster) listStart(ctx context.Context, topic string, s Start) (listed kadm.ListedOffsets, err error) {
	if s.Latest {
		listed, err = c.adm.ListCommittedOffsets(ctx, topic)
	} else {
		listed, err = c.adm.ListOffsetsAfterMilli(ctx, s.Time.UnixMilli(), topic)
	}
	if err != nil {
		return nil, fmt.Errorf("resolving the start offset of %s: %w", topic, err)
	}
	return listed, nil
}
