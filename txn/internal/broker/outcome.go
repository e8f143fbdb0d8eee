package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

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

// Permanent says that a failure will come back however often it is tried: a missing permission, a topic that is gone, an identity that
// another process uses. What a permanent failure of a produced record reaches is its [Scope]; any other one ends the runtime, which
// stops with it instead of running in circles.
func Permanent(err error) bool {
	return ScopeOf(err) != ScopeRound
}

// Unreachable says that a request has not come to an answer: the connection failed, or the broker is starting, ending or handing over.
// Asked again it may succeed.
func Unreachable(err error) bool {
	var netErr net.Error
	var closed *kgo.ErrFirstReadEOF
	switch {
	case err == nil, Permanent(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &netErr), errors.As(err, &closed), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return true
	default:
		return kgo.IsRetryableBrokerErr(err) || kerr.IsRetriable(err)
	}
}

// Scope is how far a failure reaches.
type Scope uint8

const (
	// ScopeRound: it may be over when the round runs again.
	ScopeRound Scope = iota
	// ScopeRecord: a record of that partition cannot be written, ever.
	ScopeRecord
	// ScopeTopic: nothing can be written to that topic.
	ScopeTopic
	// ScopeProcess: the process cannot work.
	ScopeProcess
)

var scopes = map[Scope][]error{
	ScopeRecord: {kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp},
	ScopeTopic: {
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.PolicyViolation, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat,
	},
	ScopeProcess: {
		kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.InvalidTransactionTimeout, kerr.OffsetMetadataTooLarge, kerr.UnsupportedVersion, kerr.FencedInstanceID,
	},
}

// ScopeOf returns the scope of a failure. A failure that is not known is ScopeRound: to run the round again is always safe.
func ScopeOf(err error) Scope {
	for _, scope := range []Scope{ScopeProcess, ScopeTopic, ScopeRecord} {
		if slices.ContainsFunc(scopes[scope], func(e error) bool { return errors.Is(err, e) }) {
			return scope
		}
	}
	return ScopeRound
}

// ProduceError is a record that was not written. Which record of the partition is at fault it does not say: the client fails every
// record that it still holds for a partition together.
type ProduceError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *ProduceError) Error() string {
	return fmt.Sprintf("producing to %s[%d]: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *ProduceError) Unwrap() error { return e.Err }

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
