package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Start is where an input without a committed offset begins: at the end of the log, or at a time.
type Start struct {
	Latest bool
	Time   time.Time
}

// Starts makes numbers of start offsets, one for each partition and life of the process. The group's consumer and the task that it feeds
// both have to know where an input begins, and ask at different times: with an answer each, what arrived in between would be fetched
// from one and skipped up to the other. A number holds until the group has a commit, over memberships too: what arrives while one ends
// and the next begins is not skipped.
//
// It is safe for concurrent use.
type Starts struct {
	cluster *Cluster
	of      map[string]Start
	log     *slog.Logger
	// asking holds one token for who asks the cluster: whoever waits for it finds the answer of the one before.
	asking chan struct{}

	mu sync.Mutex
	at map[topicPartition]int64
	// left are the inputs that the group's consumer was left without, because their number was not known when it began.
	left map[topicPartition]bool
}

// NewStarts returns the starts of those topics; a topic that is not there begins at the start of its log.
func NewStarts(c *Cluster, of map[string]Start) *Starts {
	return &Starts{
		cluster: c, of: of, log: c.cfg.Logger, asking: make(chan struct{}, 1), at: map[topicPartition]int64{}, left: map[topicPartition]bool{},
	}
}

// Has reports whether the topic has a start of its own.
func (s *Starts) Has(topic string) bool {
	_, has := s.of[topic]
	return has
}

// ErrNotConsumed says that the start of an input is known now and was not when the group's consumer began: it is not fetched before the
// group is joined anew.
var ErrNotConsumed = errors.New("its start offset was not known when the group was joined")

// Offset returns the number that the start of a partition means. The partition begins there for the consumer too, or the error is
// ErrNotConsumed.
func (s *Starts) Offset(ctx context.Context, topic string, partition int32) (int64, error) {
	if err := s.resolve(ctx, topic, []int32{partition}); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := topicPartition{topic, partition}
	if s.left[in] {
		return 0, fmt.Errorf("%s[%d]: %w", topic, partition, ErrNotConsumed)
	}
	return s.at[in], nil
}

// resolve returns once the numbers of all the partitions are known. If one cannot be known now, the others are kept.
func (s *Starts) resolve(ctx context.Context, topic string, partitions []int32) error {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return fmt.Errorf("resolving the start offset of %s: %w", topic, ctx.Err())
	}
	var missing []int32
	s.mu.Lock()
	for _, p := range partitions {
		if _, known := s.at[topicPartition{topic, p}]; !known {
			missing = append(missing, p)
		}
	}
	s.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	found, err := s.cluster.listStart(ctx, topic, s.of[topic])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	for _, p := range missing {
		o, ok := found.Lookup(topic, p)
		if !ok || o.Err != nil {
			failed = fmt.Errorf("resolving the start offset of %s[%d]: %w", topic, p, orMissing(o.Err))
			continue
		}
		s.at[topicPartition{topic, p}] = o.Offset
	}
	return failed
}

// listStart lists what a start means now in every partition of a topic. The end is the last stable offset, because the input is read
// committed: a record of a transaction that is open now arrives later.
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

// startWait is how long the group's consumer waits for start offsets before it begins without those that are not known. Inputs that have
// them wait as well, so it is short.
const startWait = 5 * time.Second

// adjust gives the consumer its start offsets in place of those that nobody has committed. An input whose number cannot be known now is
// left out, so that the others are fetched: Offset tells its task, which goes on asking.
func (s *Starts) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	within, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for topic := range s.of {
		var starting []int32
		for p, o := range offsets[topic] {
			if o.EpochOffset().Offset < 0 { // not committed
				starting = append(starting, p)
			}
		}
		if len(starting) == 0 {
			continue
		}
		err := s.resolve(within, topic, starting)
		if ctx.Err() != nil {
			return nil, ctx.Err() // a rebalance, after which the client asks again
		}
		if err != nil {
			s.log.Warn("an input is not fetched until its start offset is known", "topic", topic, "error", err)
		}
		s.begin(offsets[topic], topic, starting)
	}
	return offsets, nil
}

// begin lets the consumer begin at the known numbers, and leaves the other partitions out.
func (s *Starts) begin(offsets map[int32]kgo.Offset, topic string, partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		in := topicPartition{topic, p}
		at, known := s.at[in]
		if known {
			offsets[p] = kgo.NewOffset().At(at)
		} else {
			delete(offsets, p)
		}
		s.left[in] = !known
	}
}

// joining forgets what the consumer of an earlier membership was left without.
func (s *Starts) joining() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.left)
}
