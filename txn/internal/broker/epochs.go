package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ShortenedError says that after a change of leaders the client's position in a partition was
// behind the end of the leader epoch that the client had come to (KIP-320). It is a suspicion and
// no proof: the client knows the epoch of the last record that it gave to somebody, and its
// position is also past what it keeps to itself, such as aborted records and batches that
// compaction has emptied, which may be of later epochs. The client goes on at End.
type ShortenedError struct {
	// At is the position, Epoch the leader epoch of the last record before it, or the one that was
	// committed with the position.
	At    int64
	Epoch int32
	// End is where the log leaves that epoch.
	End int64
}

func (e *ShortenedError) Error() string {
	return fmt.Sprintf("the log leaves leader epoch %d at offset %d, and the position is %d", e.Epoch, e.End, e.At)
}

// shortened replaces the client's own error, which calls it a loss.
func shortened(err error) error {
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return &ShortenedError{At: loss.ConsumedTo, Epoch: loss.ConsumedToEpoch, End: loss.ResetTo}
	}
	return err
}

// EpochEnd asks the leader of a partition where a leader epoch ends in its log. The epoch of the
// answer is a lower one where the log has nothing of the epoch that was asked for, and both are -1
// where the log ends with a lower epoch.
func (c *Cluster) EpochEnd(ctx context.Context, topic string, partition, leaderEpoch int32) (epoch int32, end int64, err error) {
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(topic, partition, leaderEpoch)
	answers, err := c.adm.OffsetForLeaderEpoch(ctx, req)
	if err != nil {
		return -1, -1, fmt.Errorf("asking for the end of leader epoch %d of %s[%d]: %w", leaderEpoch, topic, partition, err)
	}
	a, ok := answers[topic][partition]
	if !ok || a.Err != nil {
		return -1, -1, fmt.Errorf("asking for the end of leader epoch %d of %s[%d]: %w", leaderEpoch, topic, partition, orMissing(a.Err))
	}
	return a.LeaderEpoch, a.EndOffset, nil
}
