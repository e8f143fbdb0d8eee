package hanging

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/internal/broker"
)

const (
	producer = int64(7)
	epoch    = int16(5) // that of the open transaction
)

func says(state string, e int16) *broker.Transaction {
	return &broker.Transaction{State: state, ProducerID: producer, Epoch: e}
}

// before are the coordinator's answers from before the id was initialised.
func before(said ...*broker.Transaction) (out []broker.Transaction) {
	for _, tx := range said {
		out = append(out, *tx)
	}
	return out
}

// marker ends records of an epoch, -1 for none seen, and carries another or the same one.
func marker(commit bool, of, e int16) Marker {
	return Marker{Topic: "out", Partition: 1, Offset: 10, Epoch: e, Commit: commit, Of: of}
}

// TestDecide: each piece of evidence of the rule decides, the opposite kinds together do not, and
// neither does anything else.
func TestDecide(t *testing.T) {
	changed := says("CompleteCommit", epoch+1)
	changed.ProducerID++
	tests := []struct {
		name     string
		named    *broker.Transaction
		foreign  bool
		gone     bool
		evidence Evidence
		want     Verdict
		reason   string // part of one
	}{
		{name: "a commit marker with the next epoch", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1)}}, want: Commit, reason: "out[1] has a commit marker of it at offset 10"},
		{name: "an abort marker with the next epoch", evidence: Evidence{Markers: []Marker{marker(false, epoch, epoch+1)}}, want: Abort, reason: "an abort marker"},
		{name: "a commit marker whose records are gone", evidence: Evidence{Markers: []Marker{marker(true, -1, epoch+1)}}, want: Commit},
		{name: "an abort marker two epochs on, of an old broker or of the next transaction", evidence: Evidence{Markers: []Marker{marker(false, epoch, epoch+2)}}, want: Unknown, reason: "of the producer's next transaction"},
		{name: "a commit marker two epochs on", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+2)}}, want: Unknown, reason: "of the producer's next transaction"},
		{name: "a marker two epochs on beside a sure one", evidence: Evidence{Markers: []Marker{marker(false, epoch, epoch+2), marker(true, epoch, epoch+1)}}, want: Unknown},
		{name: "a marker two epochs on whose records are gone", evidence: Evidence{Markers: []Marker{marker(false, -1, epoch+2)}}, want: Unknown},
		{name: "the marker of a repair", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch)}}, want: Commit},
		{name: "the marker of a repair, or one that was sent again", evidence: Evidence{Resent: true, Markers: []Marker{marker(true, epoch, epoch)}}, want: Unknown, reason: "sent again"},
		{name: "a marker that may have been sent again beside a sure one", evidence: Evidence{Resent: true, Markers: []Marker{marker(true, epoch, epoch), marker(true, epoch, epoch+1)}}, want: Unknown},
		{name: "the marker of the transaction before", evidence: Evidence{Markers: []Marker{marker(true, epoch-1, epoch)}}, want: Unknown, reason: "none has a marker"},
		{name: "a marker with the own epoch whose records are gone", evidence: Evidence{Markers: []Marker{marker(true, -1, epoch)}}, want: Unknown},
		{name: "the marker of a repair of the next transaction", evidence: Evidence{Markers: []Marker{marker(false, epoch+1, epoch+1)}}, want: Unknown},
		{name: "the marker of the next transaction", evidence: Evidence{Markers: []Marker{marker(false, epoch+1, epoch+2)}}, want: Unknown},
		{name: "both kinds of markers", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1), marker(false, epoch, epoch)}}, want: Unknown, reason: "contradicts itself"},
		{name: "two commit markers", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1), marker(true, epoch, epoch)}}, want: Commit},
		{name: "a foreign producer's marker with the next epoch", foreign: true, evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1)}}, want: Commit},
		{name: "a foreign producer that keeps its epoch", foreign: true, evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch)}}, want: Unknown, reason: "is not seen to change its epoch"},
		{name: "a foreign producer that was fenced, after a transaction that may have been committed", foreign: true, evidence: Evidence{Markers: []Marker{marker(false, epoch, epoch+1)}}, want: Unknown, reason: "is not seen to change its epoch"},
		{name: "a foreign producer that changes its epoch, and was fenced", foreign: true, evidence: Evidence{PerTransaction: true, Markers: []Marker{marker(false, epoch, epoch+1)}}, want: Abort},
		{name: "a foreign producer's first marker of its next life", foreign: true, evidence: Evidence{Markers: []Marker{marker(true, -1, epoch+1)}}, want: Unknown, reason: "is not seen to change its epoch"},
		{name: "a foreign producer's coordinator speaks of its next life", foreign: true, named: says("CompleteCommit", epoch+1), want: Unknown, reason: "is not seen to change its epoch"},
		{name: "a foreign producer's coordinator, which has aborted", foreign: true, named: says("CompleteAbort", epoch+1), want: Unknown},
		{name: "a foreign producer's coordinator, and epochs change", foreign: true, named: says("CompleteAbort", epoch+1), evidence: Evidence{PerTransaction: true}, want: Abort},
		{name: "a foreign producer that keeps its epoch, and was fenced", foreign: true, evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch), marker(false, epoch, epoch+1)}}, want: Unknown},

		{name: "an own producer's marker of a fence, after a downgrade", evidence: Evidence{Downgraded: true, Markers: []Marker{marker(false, epoch, epoch+1)}}, want: Unknown, reason: "is not seen to change its epoch"},
		{name: "an own producer's coordinator, after a downgrade", named: says("CompleteCommit", epoch+1), evidence: Evidence{Downgraded: true}, want: Unknown, reason: "is not seen to change its epoch"},

		{name: "the coordinator says CompleteCommit", named: says("CompleteCommit", epoch+1), want: Commit, reason: "the coordinator says CompleteCommit"},
		{name: "the coordinator says CompleteAbort", named: says("CompleteAbort", epoch+1), want: Abort},
		{name: "CompleteCommit of the transaction before", named: says("CompleteCommit", epoch), want: Unknown},
		{name: "CompleteCommit of the next transaction", named: says("CompleteCommit", epoch+2), want: Unknown},
		{name: "CompleteAbort of a later one", named: says("CompleteAbort", epoch+2), want: Unknown},
		{name: "Empty", named: says("Empty", epoch+1), want: Unknown, reason: "says Empty"},
		{name: "Dead", named: says("Dead", epoch+1), want: Unknown},
		{name: "no coordinator knows the producer id", want: Unknown, reason: "no coordinator names"},

		{name: "CompleteCommit before the id was initialised", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("CompleteCommit", epoch+1))}, want: Commit, reason: "before the id was initialised"},
		{name: "PrepareCommit before the id was initialised", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("PrepareCommit", epoch+1))}, want: Commit},
		{name: "CompleteAbort before the id was initialised", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("CompleteAbort", epoch+1))}, want: Abort},
		{name: "Ongoing right before the id was initialised", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Ongoing", epoch)), Searched: 4}, want: Abort, reason: "which aborts it"},
		{name: "Ongoing before, and no log was read", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Ongoing", epoch))}, want: Unknown},
		{name: "Ongoing before, and a topic may not be read", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Ongoing", epoch)), Searched: 4, Unread: []string{"no permission"}}, want: Unknown},
		{name: "Ongoing before, and a commit marker", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Ongoing", epoch)), Searched: 4, Markers: []Marker{marker(true, epoch, epoch+1)}}, want: Unknown, reason: "contradicts itself"},
		{name: "Ongoing before, and a marker may be gone", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Ongoing", epoch)), Searched: 4, Lacking: []string{"out[0] is cut"}}, want: Unknown, reason: "it may have been committed: out[0] is cut"},
		{name: "an abort marker, and another may be gone", evidence: Evidence{Lacking: []string{"out[0] is cut"}, Markers: []Marker{marker(false, epoch, epoch+1)}}, want: Abort},
		{name: "another epoch ongoing before", named: says("Empty", epoch+3), evidence: Evidence{Before: before(says("Ongoing", epoch+1))}, want: Unknown},
		{name: "several answers before, one of which is about the transaction", named: says("Empty", epoch+6), evidence: Evidence{Before: before(says("CompleteAbort", epoch-1), says("CompleteCommit", epoch+1), says("CompleteAbort", epoch+3))}, want: Commit},
		{name: "answers before that contradict each other", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("CompleteCommit", epoch+1), says("CompleteAbort", epoch+1))}, want: Unknown, reason: "contradicts itself"},
		{name: "the coordinator is behind what it said before", named: says("Empty", epoch), evidence: Evidence{Before: before(says("CompleteCommit", epoch+1))}, want: Unknown, reason: "it has lost that since"},
		{name: "the coordinator is behind what it knew as ongoing", named: says("Empty", epoch-1), evidence: Evidence{Before: before(says("Ongoing", epoch)), Searched: 4}, want: Unknown, reason: "it has lost that since"},
		{name: "the coordinator cannot be asked now", evidence: Evidence{Before: before(says("CompleteCommit", epoch+1))}, want: Unknown, reason: "cannot be asked now"},
		{name: "the producer id is gone", gone: true, evidence: Evidence{Before: before(says("CompleteCommit", epoch+1))}, want: Commit},
		{name: "Empty before", named: says("Empty", epoch+2), evidence: Evidence{Before: before(says("Empty", epoch+1))}, want: Unknown},
		{name: "an answer about another producer id", evidence: Evidence{Before: before(changed)}, want: Unknown},

		{name: "a database has applied the round", evidence: Evidence{Applied: []string{"in_0"}}, want: Commit, reason: "task in_0 has applied"},
		{name: "the writer's database has not", evidence: Evidence{NotApplied: []string{"in_0"}}, want: Abort},
		{name: "one has and one has not", evidence: Evidence{Applied: []string{"in_0"}, NotApplied: []string{"in_1"}}, want: Unknown, reason: "contradicts itself"},
		{name: "a marker and a database that agree", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1)}, Applied: []string{"in_0"}}, want: Commit},
		{name: "a marker against the coordinator", named: says("CompleteAbort", epoch+1), evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1)}}, want: Unknown},
		{name: "records of two epochs in one open transaction", evidence: Evidence{Markers: []Marker{marker(true, epoch, epoch+1)}, Mixed: []broker.OpenTransaction{{Topic: "out"}}}, want: Unknown, reason: "older transaction"},
		{name: "a log that may not be read", evidence: Evidence{Unread: []string{"no permission"}}, want: Unknown, reason: "not read: no permission"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tx := Transaction{ProducerID: producer, Epoch: epoch, Own: !test.foreign, Gone: test.gone}
			if test.named != nil {
				tx.Named = &broker.Named{TransactionalID: "app~i~0~0", Transaction: *test.named}
			}
			got := Decide(tx, test.evidence)
			if got.Verdict != test.want || len(got.Reasons) == 0 || !strings.Contains(strings.Join(got.Reasons, "\n"), test.reason) {
				t.Errorf("the decision is %s: %q, want %s with %q", got.Verdict, got.Reasons, test.want, test.reason)
			}
		})
	}
}

// TestOngoing: what the coordinator still works on is not hanging, and an older transaction of a
// producer at work is, but is left alone. Of one that no coordinator names nothing is known, unless
// its producer id is gone.
func TestOngoing(t *testing.T) {
	tests := []struct {
		named                    *broker.Transaction
		gone                     bool
		ongoing, atWork, hanging bool
	}{
		{nil, false, false, false, false},
		{nil, true, false, false, true},
		{says("Ongoing", epoch), false, true, true, false},
		{says("PrepareCommit", epoch), false, true, true, false}, // of a producer that keeps its epoch
		{says("PrepareCommit", epoch+1), false, true, true, false},
		{says("PrepareCommit", epoch+2), false, false, true, true}, // of the next one
		{says("PrepareAbort", epoch+2), false, true, true, false},
		{says("PrepareEpochFence", epoch+1), false, true, true, false},
		{says("Ongoing", epoch+1), false, false, true, true},
		{says("Ongoing", epoch-1), false, false, true, true},
		{says("PrepareAbort", epoch+3), false, false, true, true},
		{says("Empty", epoch+1), false, false, false, true},
		{says("CompleteCommit", epoch+1), false, false, false, true},
		{says("Dead", epoch), false, false, false, true},
	}
	for _, test := range tests {
		tx := Transaction{ProducerID: producer, Epoch: epoch, Gone: test.gone}
		if test.named != nil {
			tx.Named = &broker.Named{Transaction: *test.named}
		}
		if tx.Ongoing() != test.ongoing || tx.AtWork() != test.atWork || tx.Hanging() != test.hanging {
			t.Errorf("%+v, gone %t: ongoing %t, at work %t, hanging %t", test.named, test.gone, tx.Ongoing(), tx.AtWork(), tx.Hanging())
		}
	}
}

// TestPermitted: a repair needs a decision, never the opposite of the evidence, and never a
// producer at work.
func TestPermitted(t *testing.T) {
	idle := Transaction{ProducerID: producer, Epoch: epoch}
	busy := idle
	busy.Named = &broker.Named{Transaction: *says("Ongoing", epoch+4)}
	decided := func(v Verdict) Decision { return Decision{Verdict: v} }
	tests := []struct {
		finding Finding
		verdict Verdict
		want    error
	}{
		{Finding{Transaction: idle, Decision: decided(Commit)}, Commit, nil},
		{Finding{Transaction: idle, Decision: decided(Abort)}, Abort, nil},
		{Finding{Transaction: idle}, Abort, nil}, // an operator has decided
		{Finding{Transaction: idle}, Unknown, ErrUndecided},
		{Finding{Transaction: idle, Decision: decided(Commit)}, Abort, ErrContradicted},
		{Finding{Transaction: idle, Decision: decided(Abort)}, Commit, ErrContradicted},
		{Finding{Transaction: busy, Decision: decided(Commit)}, Commit, ErrAtWork},
	}
	for i, test := range tests {
		if err := permitted(test.finding, test.verdict); !isOrNil(err, test.want) {
			t.Errorf("%d: %v, want %v", i, err, test.want)
		}
	}
}

func isOrNil(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}
