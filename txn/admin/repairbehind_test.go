package admin

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// TestCoordinatorBehind: a coordinator that knows an older epoch than that of the transaction can
// be one that was replaced and has not noticed. Its answer is no reason to write the outcome that
// an operator names: the transaction can be ongoing.
func TestCoordinatorBehind(t *testing.T) {
	found := func(epoch int16) hanging.Finding {
		return hanging.Finding{Transaction: hanging.Transaction{
			ProducerID: 7, Epoch: 5, Own: true, Open: []broker.OpenTransaction{{Topic: "out", ProducerID: 7, Epoch: 5}},
			Named: &broker.Named{TransactionalID: "app~i~0~0", Transaction: broker.Transaction{State: "Empty", ProducerID: 7, Epoch: epoch}},
		}}
	}
	for _, c := range []struct {
		epoch      int16
		notOngoing bool
		left       string
	}{
		{epoch: 4, left: "the older epoch 4 of app~i~0~0"},
		{epoch: 4, notOngoing: true},
		{epoch: 6},
	} {
		o := RepairOptions{Transactions: []string{"7/5"}, Outcome: OutcomeAbort, NotOngoing: c.notOngoing, DryRun: true}
		got, err := o.repair(t.Context(), nil, found(c.epoch), nil)
		if !strings.Contains(got.Left, c.left) || (err == nil) != (c.left == "") || (len(got.Written) == 1) != (c.left == "") {
			t.Errorf("at epoch %d, not ongoing %t: %+v, %v", c.epoch, c.notOngoing, got, err)
		}
	}
}
