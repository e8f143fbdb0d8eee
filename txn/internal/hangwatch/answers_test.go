package hangwatch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// answer is what a coordinator says of a transactional id.
func answer(id, state string, producerID int64, epoch int16) broker.Named {
	return broker.Named{TransactionalID: id, Transaction: broker.Transaction{State: state, ProducerID: producerID, Epoch: epoch}}
}

// TestWithAnswer: a newer answer is added to those about other transactions, and takes the place of
// what it shows to be void.
func TestWithAnswer(t *testing.T) {
	committed := answer("a", "CompleteCommit", 1, 6)
	tests := []struct {
		name       string
		before     []broker.Named
		newer      broker.Named
		committing bool
		want       []broker.Named
	}{
		{"the first one", nil, committed, false, []broker.Named{committed}},
		{"the same again", []broker.Named{committed}, committed, false, []broker.Named{committed}},
		{"the next transaction", []broker.Named{committed}, answer("a", "CompleteAbort", 1, 8), false, []broker.Named{committed, answer("a", "CompleteAbort", 1, 8)}},
		{"its markers are written now", []broker.Named{answer("a", "PrepareCommit", 1, 6)}, committed, false, []broker.Named{committed}},
		{"the opposite: both are needed to see it", []broker.Named{answer("a", "CompleteAbort", 1, 6)}, committed, false, []broker.Named{answer("a", "CompleteAbort", 1, 6), committed}},
		{"another producer id", []broker.Named{committed}, answer("a", "CompleteAbort", 2, 1), false, []broker.Named{committed, answer("a", "CompleteAbort", 2, 1)}},
		{"another id", []broker.Named{committed}, answer("b", "CompleteAbort", 2, 6), false, []broker.Named{committed, answer("b", "CompleteAbort", 2, 6)}},
		{"initialised", []broker.Named{committed}, answer("a", "Empty", 1, 7), false, []broker.Named{committed}},
		{"the coordinator has lost what it said", []broker.Named{committed}, answer("a", "Empty", 1, 5), false, nil},
		{"the coordinator takes back what it said", []broker.Named{committed}, answer("a", "Ongoing", 1, 5), false, []broker.Named{answer("a", "Ongoing", 1, 5)}},
		{"the next transaction is ongoing, with the epoch of the answer", []broker.Named{committed}, answer("a", "Ongoing", 1, 6), false, []broker.Named{committed, answer("a", "Ongoing", 1, 6)}},
		{"ongoing, and a commit may be under way", []broker.Named{committed}, answer("a", "Ongoing", 1, 6), true, []broker.Named{committed}},
		{"a commit was sent since", []broker.Named{answer("a", "Ongoing", 1, 6)}, answer("a", "Ongoing", 1, 6), true, nil},
		{"ongoing no more", []broker.Named{answer("a", "Ongoing", 1, 5)}, committed, false, []broker.Named{committed}},
		{"ongoing, and initialised", []broker.Named{answer("a", "Ongoing", 1, 5)}, answer("a", "Empty", 1, 7), false, []broker.Named{answer("a", "Ongoing", 1, 5)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := withAnswer(slices.Clone(test.before), test.newer, test.committing); !slices.Equal(got, test.want) {
				t.Errorf("the answers are %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestAnswersAreBounded: the oldest answer makes room.
func TestAnswersAreBounded(t *testing.T) {
	var answers []broker.Named
	for i := range answersMax + 1 {
		answers = withAnswer(answers, answer(fmt.Sprintf("app~i~%d~0", i), "CompleteCommit", int64(i), 6), false)
	}
	if first := answers[0].TransactionalID; len(answers) != answersMax || first != "app~i~1~0" {
		t.Errorf("there are %d answers, the first one about %s", len(answers), first)
	}
}

// TestRemove: an answer is removed once the id was initialised and no partition holds the
// transaction open, and not before.
func TestRemove(t *testing.T) {
	for _, test := range []struct {
		name                 string
		hangs, uninitialised bool
		fault                *kfake.Fault
		kept                 bool
	}{
		{name: "nothing is open"},
		{name: "it hangs", hangs: true, kept: true},
		{name: "the id is not initialised yet", uninitialised: true, kept: true},
		{name: "a partition does not answer", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: -1}, kept: true},
		{name: "a topic may not be read", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1}, kept: true},
		{name: "the coordinator may not be asked", fault: &kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1}, kept: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, false, func(t *testing.T, s *scene) {
				p := s.producer()
				s.end(p, func(virtual.End) virtual.Loss { return func(string, int32) bool { return !test.hangs } })
				s.watch.Note(t.Context(), false, own)
				if len(s.watch.before) != 1 {
					t.Fatal("no answer is there: the test tests nothing")
				}
				if !test.uninitialised {
					if err := p.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if test.fault != nil {
					s.kafka.Fault(*test.fault)
				}
				s.watch.AtStart(t.Context())
				if kept := len(s.watch.before) == 1; kept != test.kept {
					t.Errorf("kept is %+v", s.watch.before)
				}
			})
		})
	}
}

// TestProducerIDsOfAnAnswer: what an id had before it got another producer id is looked for too.
func TestProducerIDsOfAnAnswer(t *testing.T) {
	w := New(Config{})
	w.before = []broker.Named{answer("a", "CompleteCommit", 1, 6), answer("b", "CompleteCommit", 2, 6), answer("a", "CompleteCommit", 3, 6)}
	if got := w.producerIDs("a"); len(got) != 2 || !got[1] || !got[3] {
		t.Errorf("the producer ids are %v", got)
	}
}
