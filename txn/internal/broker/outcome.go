package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Outcome is what an answer, or its absence, means for the transaction that it is about.
type Outcome uint8

// The closed set. Unknown error codes are Lost before a commit was sent and InDoubt after it, never Accepted.
const (
	// Accepted: the broker answered with success, for every partition.
	Accepted Outcome = iota
	// Refused: the transaction cannot commit, and its producer can abort it.
	Refused
	// Lost: the producer's state is unknown or fenced; it has to be settled.
	Lost
	// InDoubt: a commit was sent and not answered with success.
	InDoubt
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case Lost:
		return "lost"
	case InDoubt:
		return "in doubt"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Permanent says that a failure will come back however often the round is run again: a record too large for its topic, a topic that
// is gone, a missing permission, an identity that another process uses. The runtime stops with it instead of running in circles.
func Permanent(err error) bool {
	for _, e := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.InvalidTransactionTimeout, kerr.PolicyViolation, kerr.OffsetMetadataTooLarge,
		kerr.UnsupportedVersion, kerr.InvalidTimestamp, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat,
		kerr.FencedInstanceID,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// produceOutcome judges a failed produce or flush.
func produceOutcome(err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return Lost
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerIDMapping),
		errors.Is(err, kerr.UnknownProducerID), errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.InvalidTxnState):
		return Lost
	default:
		return Refused
	}
}

// offsetsOutcome judges an answered offset commit of a transaction. A transport error is Refused: the request is not repeated, and
// the abort that follows bumps the epoch, which fences the request should it arrive late.
func offsetsOutcome(err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerIDMapping),
		errors.Is(err, kerr.InvalidTxnState):
		return Lost
	default:
		return Refused
	}
}
