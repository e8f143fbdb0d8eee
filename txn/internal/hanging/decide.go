package hanging

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/internal/broker"
)

// Verdict is how a hanging transaction ended.
type Verdict uint8

const (
	// Unknown: the evidence does not say, or contradicts itself.
	Unknown Verdict = iota
	// Commit: it was committed.
	Commit
	// Abort: it was aborted.
	Abort
)

func (v Verdict) String() string {
	switch v {
	case Unknown:
		return "unknown"
	case Commit:
		return "commit"
	case Abort:
		return "abort"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Transaction is a transaction that partitions hold open.
type Transaction struct {
	ProducerID int64
	Epoch      int16
	// Named is what a coordinator says of the producer id now, nil if none says anything.
	Named *broker.Named
	// Gone says that no transactional id has the producer id any more, and that all coordinators
	// were there to say so.
	Gone bool
	// Own says that the producer is known to be one of the application's.
	Own bool
	// Open are the partitions that hold it open, in the order of a repair: those of committed
	// offsets are the last.
	Open []broker.OpenTransaction
}

// Ongoing reports whether the coordinator knows the transaction as ongoing, or is about to write
// its markers. It can be wrong for a moment while the transactional id is initialised: the
// coordinator raises the epoch of an ongoing transaction before it calls it PrepareAbort. A repair
// does not rely on it, see AtWork.
func (t Transaction) Ongoing() bool {
	if t.Named == nil {
		return false
	}
	ahead := int32(t.Named.Epoch) - int32(t.Epoch)
	switch t.Named.State {
	case "Ongoing":
		return ahead == 0
	case "PrepareCommit":
		return ahead == 0 || ahead == 1 // the end raises the epoch, unless the producer keeps it
	case "PrepareAbort", "PrepareEpochFence":
		return ahead >= 0 && ahead <= 2 // brokers before 4.1 raise it by one for a fence, and by one more for its end
	}
	return false
}

// Known reports whether the coordinators tell an ongoing transaction from one that hangs. They do
// not where none names the producer: it may have a transactional id that this process may not
// describe, or whose coordinator is away.
func (t Transaction) Known() bool { return t.Named != nil || t.Gone }

// Hanging reports whether the transaction is known to be one that nothing ends.
func (t Transaction) Hanging() bool { return t.Known() && !t.Ongoing() }

// Behind reports whether the coordinator knows an older epoch of the producer than that of the
// transaction: it has lost what it knew, or it is one no longer and has not noticed.
func (t Transaction) Behind() bool { return t.Named != nil && t.Named.Epoch < t.Epoch }

// bears reports whether an answer from before counts beside what is said now. A coordinator that
// knows an older epoch of the producer has lost what it said: the epochs of the answer are used
// again then, for other transactions. While no coordinator can be asked, that is not known.
func (t Transaction) bears(before broker.Transaction) bool {
	return t.Known() && (t.Named == nil || t.Named.Epoch >= before.Epoch)
}

// AtWork reports whether the producer has any transaction under way.
func (t Transaction) AtWork() bool { return t.Named != nil && underWay(t.Named.State) }

func underWay(state string) bool {
	return state == "Ongoing" || strings.HasPrefix(state, "Prepare")
}

// Marker is the end of a transaction of the producer in some partition.
type Marker struct {
	Topic     string
	Partition int32
	Offset    int64
	Epoch     int16
	Commit    bool
	// Of is the epoch of the producer's last records before the marker in its partition, -1 if none
	// were seen. They are what it ended.
	Of int16
}

// Evidence is what is known of how a transaction ended.
type Evidence struct {
	// Before is what the coordinator said of the producer before its transactional id was
	// initialised, which replaces the state of the last transaction by Empty. An answer about
	// another transaction of the producer tells nothing, nor one with a newer epoch than the
	// coordinator knows now. Nil if it was not asked, or knew another producer id.
	Before []broker.Transaction
	// Markers are those of the producer that may be about this transaction.
	Markers []Marker
	// PerTransaction says that the producer is seen to change its epoch with every transaction. A
	// commit marker of it carries the epoch after that of the records that it ended, which are not
	// newer than the transaction, and no commit marker carries the same epoch. An abort marker does
	// not tell: it also fences a producer that keeps its epoch. For producers of the application
	// PerTransaction is not needed, unless Downgraded says that the cluster does not run with
	// transaction.version 2 any more.
	PerTransaction, Downgraded bool
	// Resent says that the brokers may take a marker of the transaction before for one of this
	// transaction, which has the same epoch, if the coordinator sends it again. Those of Kafka 4.2
	// and later refuse it.
	Resent bool
	// Mixed are partitions in which the open transaction begins with records of an older epoch: the
	// older transaction hangs there, and this one has gone on with it.
	Mixed []broker.OpenTransaction
	// Applied are the tasks whose databases contain the round. NotApplied are those of the writer
	// whose databases do not, although they contain all that the logs of their changelogs cover.
	Applied, NotApplied []string
	// Searched are the partitions that were read for markers, Unread those that could not be read,
	// with the reason.
	Searched int
	Unread   []string
	// Lacking are partitions that were read and may have lost a marker of the transaction before,
	// each with the reason. That no marker was found tells nothing then.
	Lacking []string
	// changed and kept are what PerTransaction is made of.
	changed, kept bool
}

// Decision is a verdict with its reasons, each a sentence without a full stop.
type Decision struct {
	Verdict Verdict
	Reasons []string
}

// EndOf returns how the transaction of a coordinator's answer ended or ends, Unknown if the answer does
// not say it.
func EndOf(tx broker.Transaction) Verdict {
	switch tx.State {
	case "PrepareCommit", "CompleteCommit":
		return Commit
	case "PrepareAbort", "CompleteAbort":
		return Abort
	}
	return Unknown
}

// Decide says how a transaction that is not ongoing ended. With transaction.version 2 a marker
// carries the epoch after the transaction's, and no two transactions of a producer share an epoch.
// A marker of a repair carries the transaction's own epoch. One with a later epoch tells nothing,
// also behind records of the transaction: the producer's next transaction can have ended in a
// partition to which it has written nothing.
//
// Producers of clients before Kafka 4.0 keep one epoch for many transactions, and InitProducerID
// raises it by one. Neither their markers nor their coordinators say which transaction ended. The
// application has none of these while the cluster runs with transaction.version 2, but others do:
// what is said of their producers counts only if Evidence.PerTransaction is set.
func Decide(t Transaction, e Evidence) Decision {
	var commit, abort, neither []string
	said := func(to *[]string, format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }
	changes := t.Own && !e.Downgraded || e.PerTransaction // its epoch, with every transaction
	shared := false
	coordinator := func(when string, tx broker.Transaction) {
		if tx.ProducerID != t.ProducerID || int32(tx.Epoch) != int32(t.Epoch)+1 {
			return
		}
		to := &commit
		switch EndOf(tx) {
		case Commit:
		case Abort:
			to = &abort
		default:
			return
		}
		if !changes {
			shared = true
			return
		}
		said(to, "the coordinator %s %s at epoch %d, which is the end of epoch %d", when, tx.State, tx.Epoch, t.Epoch)
	}
	if t.Named != nil {
		coordinator("says", t.Named.Transaction)
	}
	for _, before := range e.Before {
		if t.bears(before) {
			coordinator("said before the id was initialised", before)
		}
	}
	// A commit may have been on its way all the same. If it has left a marker, that says so, but
	// only if all was read. If it has left none, to abort is consistent: no process had an answer to
	// it.
	if _, ongoing := ongoingBefore(t, e); ongoing && e.Searched > 0 && len(e.Unread) == 0 && len(e.Lacking) == 0 {
		said(&abort, "the coordinator knew it as ongoing right before the id was initialised, which aborts it")
	}
	for _, m := range e.Markers {
		if !m.ends(t.Epoch) {
			continue
		}
		if int32(m.Epoch) > int32(t.Epoch)+1 {
			said(&neither, "%s[%d] has a marker with epoch %d behind its records at offset %d, of a broker before Kafka 4.1 or of the producer's next transaction",
				m.Topic, m.Partition, m.Epoch, m.Offset)
			continue
		}
		// A commit marker with the next epoch, behind records of this one, is itself what shows
		// that the producer changes its epoch.
		if !changes && (m.Of != t.Epoch || m.Epoch == t.Epoch || !m.Commit) {
			shared = true
			continue
		}
		kind, to := "an abort", &abort
		if m.Commit {
			kind, to = "a commit", &commit
		}
		if m.Epoch == t.Epoch && e.Resent {
			said(&neither, "%s[%d] has %s marker with its epoch at offset %d, of a repair or sent again for the transaction before", m.Topic,
				m.Partition, kind, m.Offset)
			continue
		}
		said(to, "%s[%d] has %s marker of it at offset %d (epoch %d)", m.Topic, m.Partition, kind, m.Offset, m.Epoch)
	}
	for _, task := range e.Applied {
		said(&commit, "the database of task %s has applied the round", task)
	}
	for _, task := range e.NotApplied {
		said(&abort, "the database of task %s, which wrote the round, has all that its changelogs cover and not the round", task)
	}
	if len(e.Mixed) > 0 {
		for _, open := range e.Mixed {
			said(&neither, "%s[%d] holds records of an older transaction open together with it, from offset %d on", open.Topic, open.Partition,
				open.FirstOffset)
		}
	}
	if shared {
		said(&neither, "the producer is not seen to change its epoch with every transaction, so neither its markers nor its coordinator tell them apart")
	}
	switch {
	case len(neither) > 0:
		return Decision{Unknown, slices.Concat(neither, commit, abort)}
	case len(commit) > 0 && len(abort) > 0:
		return Decision{Unknown, slices.Concat([]string{"the evidence contradicts itself"}, commit, abort)}
	case len(commit) > 0:
		return Decision{Commit, commit}
	case len(abort) > 0:
		return Decision{Abort, abort}
	}
	said(&neither, "%d partitions were read, and none has a marker of it", e.Searched)
	for _, what := range e.Unread {
		said(&neither, "not read: %s", what)
	}
	if _, ongoing := ongoingBefore(t, e); ongoing {
		for _, what := range e.Lacking {
			said(&neither, "it may have been committed: %s", what)
		}
	}
	if slices.ContainsFunc(e.Before, func(before broker.Transaction) bool { return !t.bears(before) }) {
		said(&neither, "what a coordinator said before does not count: it has lost that since, or it cannot be asked now")
	}
	switch {
	case t.Named == nil:
		said(&neither, "no coordinator names a transactional id for the producer")
	default:
		said(&neither, "the coordinator says %s at epoch %d, which does not tell", t.Named.State, t.Named.Epoch)
	}
	return Decision{Unknown, neither}
}

// ongoingBefore returns the answer of the coordinator that knew the transaction as ongoing right
// before its id was initialised, if there is one.
func ongoingBefore(t Transaction, e Evidence) (broker.Transaction, bool) {
	for _, before := range e.Before {
		if before.ProducerID == t.ProducerID && before.State == "Ongoing" && before.Epoch == t.Epoch && t.bears(before) {
			return before, true
		}
	}
	return broker.Transaction{}, false
}

// ends reports whether the marker may have ended a transaction of that epoch.
func (m Marker) ends(epoch int16) bool {
	if m.Of >= 0 {
		return m.Of == epoch
	}
	return int32(m.Epoch) == int32(epoch)+1
}
