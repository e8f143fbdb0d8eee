package admin

import (
	"context"
	"fmt"
)

// DeadLetters is a dead-letter topic for operators. [DeadLetters.Each] lists its dead letters,
// [DeadLetters.Edit] corrects one, and [DeadLetters.Redrive] writes records to the topics in which
// they died.
//
// # What the topic holds
//
// The topic holds the dead letters of the runtime, and the actions of operators. Nothing else has
// to be created, allowed or kept.
//
//   - An edited dead letter is one more record, with the number of its edition.
//   - A redriven dead letter is followed by a mark. A mark has a null key, a null value and the
//     header [HeaderRedriven].
//
// Both are written to the partition of the dead letter, and so behind it. Retention deletes from
// the front, so a dead letter never outlives its editions and marks. Both have the header
// [graph.HeaderSession], which identifies their writer.
//
// The id, the number of deaths and the position of the last death identify a dead letter. If an
// input was read again from far back, the topic can hold a dead letter twice. It counts once.
//
// # Exactly once
//
// A batch of redriven records and their marks are one transaction. The transactional id follows
// from the topic alone.
//
//   - A redrive that is killed leaves a batch as a whole or not at all. The next redrive first ends
//     the open transaction of the last one. Then it reads the topic to its end, and leaves out dead
//     letters with a mark. It waits for open transactions in the topic, because they may contain
//     marks.
//   - Of two redrives of one topic at a time, the older one stops.
//   - A batch that fails, or whose commit is not answered, is settled the same way. Then its marks
//     decide whether it was committed.
//   - Marks and editions of another writer end the redrive. It may have been suspended for long,
//     and then its view of the partition is out of date.
//
// The readers of redriven records are not part of this promise:
//
//   - An application that has processed the record in another way meanwhile processes it twice,
//     unless it dedupes (package inbox).
//   - All applications that read the topic get the record, not only the one in which it died.
//
// All methods may be called by any goroutine.
type DeadLetters struct {
	client *Client
	topic  string
}

// DeadLetters returns the dead-letter topic of that name.
func (c *Client) DeadLetters(topic string) *DeadLetters { return &DeadLetters{client: c, topic: topic} }

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic[partition].
func (p TopicPartition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// DeadLetterCounts is what a dead-letter topic held. Its JSON form is for programs, and its fields
// stay.
type DeadLetterCounts struct {
	// Letters counts each dead letter once, Redriven the redriven ones among them.
	Letters  int64 `json:"letters"`
	Redriven int64 `json:"redriven"`
	// Foreign are records of other programs: they have none of our headers. Malformed have some,
	// but not all, or not as they should be.
	Foreign   int64 `json:"foreign"`
	Malformed int64 `json:"malformed"`
}

// Each calls f for every chosen dead letter, partition by partition, in the order in which the
// records died. An error of f ends it, and is returned as it is. Records of open transactions are
// left out.
func (d *DeadLetters) Each(ctx context.Context, filter DeadLetterFilter, f func(DeadLetter) error) (DeadLetterCounts, error) {
	t, err := d.open(ctx)
	if err != nil {
		return DeadLetterCounts{}, err
	}
	defer t.close()
	for p := range t.info.Partitions {
		end, err := t.cluster.StableEnd(ctx, d.topic, p)
		if err != nil {
			return t.counts, err
		}
		idx, err := t.index(ctx, p, end)
		if err != nil {
			return t.counts, err
		}
		err = t.each(ctx, idx, func(l DeadLetter) error {
			if !filter.Matches(&l) {
				return nil
			}
			return f(l)
		})
		if err != nil {
			return t.counts, err
		}
	}
	return t.counts, nil
}
