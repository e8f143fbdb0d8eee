package hangwatch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
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

// TestAnswersAreBounded: the id with the most answers makes room, and never with an answer that a
// finding needs. An id that is not used, because its transaction hangs, gets no newer answers; those
// of the others do not take its place.
func TestAnswersAreBounded(t *testing.T) {
	hung := answer("app~i~0~0", "CompleteCommit", 100, 6)
	answers := []broker.Named{hung}
	for restart := range 200 {
		for w := 1; w <= 8; w++ {
			answers = bounded(withAnswer(answers, answer(fmt.Sprintf("app~i~%d~0", w), "CompleteCommit", int64(w), int16(6+2*restart)), false), nil)
		}
	}
	if len(answers) != answersMax || answers[0] != hung || answers[len(answers)-1].Epoch != 404 {
		t.Errorf("there are %d answers, the first one is %+v and the last one %+v", len(answers), answers[0], answers[len(answers)-1])
	}
	answers = nil
	var found []hanging.Finding
	for i := range answersMax + 2 {
		answers = append(answers, answer("app~i~0~0", "CompleteCommit", 1, int16(i+1)))
		if i != 5 {
			found = append(found, hanging.Finding{Transaction: hanging.Transaction{ProducerID: 1, Epoch: int16(i)}})
		}
	}
	found = slices.DeleteFunc(found, func(f hanging.Finding) bool { return f.Epoch == 6 }) // the answer with epoch 6 is about that and the one before
	if got := bounded(slices.Clone(answers), found); len(got) != answersMax+1 || slices.Contains(got, answers[5]) {
		t.Errorf("%d answers are left", len(got))
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
