package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Stage is what was asked of the cluster.
type Stage uint8

const (
	// Producing: records were sent, and every one of them has to be acknowledged.
	Producing Stage = iota
	// Committing: the offset commit of the transaction was sent.
	Committing
	// Ending: the commit itself was sent.
	Ending
)

func (s Stage) String() string {
	switch s {
	case Producing:
		return "produce"
	case Committing:
		return "offsets"
	case Ending:
		return "end"
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// Scope is how far a failure reaches: what has to change before another run can succeed.
type Scope uint8

const (
	// ScopeRound: nothing has to; it may be over when the round runs again.
	ScopeRound Scope = iota
	// ScopeRecord: a record of that partition can never be written.
	ScopeRecord
	// ScopeTopic: nothing can be written to that topic, or no offset of it be committed.
	ScopeTopic
	// ScopeMembership: the group does not know this member any more.
	ScopeMembership
	// ScopeProcess: the process cannot work.
	ScopeProcess
)

func (s Scope) String() string {
	switch s {
	case ScopeRound:
		return "round"
	case ScopeRecord:
		return "record"
	case ScopeTopic:
		return "topic"
	case ScopeMembership:
		return "membership"
	case ScopeProcess:
		return "process"
	}
	return fmt.Sprintf("Scope(%d)", uint8(s))
}

// Decide is the one place where an answer of the cluster, or its absence, becomes an outcome;
// package txn's documentation has it as a table. err is nil for success and only then is the
// outcome Accepted.
//
// A code that is not known, or has no business at that stage, says nothing about the transaction:
// the producer is settled, and after the commit was sent it is in doubt.
func Decide(stage Stage, err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case stage == Ending:
		return InDoubt
	case ScopeOf(err) != ScopeRound:
		return Refused
	case is(err, unanswered):
		return Lost
	case is(err, passing), !fromBroker(err):
		// No broker has refused: the client has given a record up, or the connection failed under
		// an offset commit. That is not sent again, and the abort that follows bumps the epoch,
		// which fences it if it arrives late.
		return Refused
	default:
		return Lost
	}
}

// unanswered: nobody knows what became of the request.
var unanswered = []error{context.DeadlineExceeded, context.Canceled, kgo.ErrClientClosed}

// passing are refusals that leave the producer as it was: its transaction can be aborted.
var passing = []error{
	kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.IllegalGeneration, kerr.RebalanceInProgress,
	kerr.UnstableOffsetCommit, kerr.ConcurrentTransactions, kerr.TransactionAbortable, kerr.OperationNotAttempted,
	kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.KafkaStorageError,
	kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.NetworkException, kerr.ThrottlingQuotaExceeded,
	kerr.CorruptMessage,
}

// scopes are the refusals that come back until something outside of the round has changed.
var scopes = map[Scope][]error{
	ScopeRecord: {kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp},
	ScopeTopic: {
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.PolicyViolation, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat,
	},
	ScopeMembership: {kerr.UnknownMemberID},
	ScopeProcess: {
		kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.InvalidTransactionTimeout, kerr.InvalidSessionTimeout, kerr.OffsetMetadataTooLarge, kerr.UnsupportedVersion, kerr.FencedInstanceID,
	},
}

// ScopeOf returns the scope of a failure.
func ScopeOf(err error) Scope {
	for _, scope := range []Scope{ScopeProcess, ScopeMembership, ScopeTopic, ScopeRecord} {
		if is(err, scopes[scope]) {
			return scope
		}
	}
	return ScopeRound
}

// Permanent says that a request will fail again however often it is sent: a missing permission, a
// topic that is gone, an identity that another process uses.
func Permanent(err error) bool {
	scope := ScopeOf(err)
	return scope != ScopeRound && scope != ScopeMembership
}

// NotYetKnown reports whether an offset commit was refused because its topic is unknown. The
// coordinator looks into its own copy of the cluster's metadata, which may be older than ours. That
// the topic is gone for good shows where it is fetched and where it is verified.
func NotYetKnown(err error) bool {
	return is(err, []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID})
}

func is(err error, any []error) bool {
	return slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) })
}

// fromBroker reports whether a broker has answered with an error code.
func fromBroker(err error) bool {
	_, ok := errors.AsType[*kerr.Error](err)
	return ok
}
