package produce

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// verdict is what an answer for a batch means.
type verdict uint8

const (
	accepted verdict = iota
	// duplicate: the broker has the batch.
	duplicate
	// early: the transaction before is not over everywhere.
	early
	// again: the leader is the leader still.
	again
	// lookup: the leader has to be looked up.
	lookup
	// unknown: as lookup, a few times.
	unknown
	// failed: the transaction cannot go on.
	failed
)

func (v verdict) String() string {
	return [...]string{"accepted", "duplicate", "early", "again", "lookup", "unknown", "failed"}[v]
}

// judge says what the error code of a partition means.
func judge(err error) verdict {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, kerr.DuplicateSequenceNumber):
		return duplicate
	case errors.Is(err, kerr.ConcurrentTransactions):
		return early
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return again
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return unknown
	case errors.Is(err, kerr.CorruptMessage): // sent again it would be the same bytes
		return failed
	case kerr.IsRetriable(err):
		return lookup
	default:
		return failed
	}
}

// unknownMax is how often a topic or partition may be unknown in a row, to its leader or to a lookup,
// before that is a failure.
const unknownMax = 4

// earlyFirst and earlyMax are the pauses while markers of the transaction before are written.
const earlyFirst, earlyMax = 5 * time.Millisecond, 100 * time.Millisecond

func earlyPause(failures int) time.Duration {
	if failures > 5 {
		return earlyMax
	}
	return min(earlyFirst<<max(failures-1, 0), earlyMax)
}
