package session

import (
	"fmt"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/worker"
)

// errNothingLost ends a session so that another one fetches again from the committed offsets.
var errNothingLost = fmt.Errorf("%w: a log that looked shortened has all records that were read", worker.ErrReopen)

// logShortened judges what the client suspects after a change of leaders: that the log has lost
// records which were read, as it does when a replica that was not in sync becomes the leader.
//
// The records that the task was given decide. A log that has the leader epoch of the last record,
// and ends it behind that record, has all of them. Two logs that agree on an offset and its epoch
// agree on everything before it (KIP-101). Control records count, because the task is given them: a
// marker can be the first and the last thing in an epoch. The client's position is past the task's
// only by records that the client has not passed on.
//
// If all records are there, a new membership begins. The client would continue by itself, but may
// still hold records that it fetched before the change, and the log may not have these.
func (s *Session) logShortened(failed *broker.FetchError, suspected *broker.ShortenedError) error {
	at, epoch := suspected.At, suspected.Epoch // where nothing was read yet: what was committed
	if reader, input := s.tasks.Route(failed.Topic, failed.Partition); reader != nil {
		if next, last, ok := reader.Read(input); ok {
			at, epoch = next, last
		}
	}
	known, end, err := s.cfg.Cluster.EpochEnd(s.ctx, failed.Topic, failed.Partition, epoch)
	if err != nil {
		return fmt.Errorf("%w: %w", errGroupSession, err)
	}
	if known == epoch && end >= at {
		s.cfg.Logger.Warn("a log looked shortened after a change of leaders and is not: it has all records that were read", "topic", failed.Topic,
			"partition", failed.Partition, "error", suspected, "read_to", at, "leader_epoch", epoch, "epoch_ends", end)
		return errNothingLost
	}
	start, high, err := s.cfg.Cluster.LogBounds(s.ctx, failed.Topic, failed.Partition)
	if err != nil {
		return fmt.Errorf("%w: %w", errGroupSession, err)
	}
	s.haltReaders(failed, fmt.Errorf("%w: %w: records up to offset %d, the last of them of leader epoch %d, were read, and the log has "+
		"lost some of them. It leaves that epoch at offset %d and holds offsets %d to %d. The results of the lost records stay, "+
		"and offsets from %d on can be other records now", ErrIntegrity, failed, at-1, epoch, max(end, 0), start, high, max(end, 0)))
	return nil
}
