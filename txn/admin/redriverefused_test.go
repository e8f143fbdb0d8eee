package admin

import (
	"crypto/rand"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestRefusedRedriveStays: a dead letter that the cluster refuses, for a reason that shows only
// then, stays where it is, and those around it are redriven in their order. Requirement G5.
func TestRefusedRedriveStays(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		large := "" // compressed too
		for len(large) < 20_000 {
			large += rand.Text()
		}
		o.die("a=1", "a=2", "a=3", "a="+large, "a=5", "a=6", "b=7")
		left := map[int]RedriveOutcome{}
		report := o.redrive(RedriveOptions{batchMax: 2, Step: func(l DeadLetter, outcome RedriveOutcome) error {
			o.setting("in", "max.message.bytes", "4000") // after the redrive has looked at it
			if outcome != Redriven {
				left[len(l.Value)] = outcome
			}
			return nil
		}})
		o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 6, LeftTooLarge: 1})
		if left[len(large)] != LeftTooLarge {
			t.Errorf("what is left is told as %v", left)
		}
		o.want("in", "a=1", "a=2", "a=3", "a=5", "a=6", "b=7")

		// A dead-letter topic that takes no marks is no matter of single dead letters.
		r := &redrive{letterTopic: &letterTopic{info: broker.TopicInfo{Name: "dead"}}}
		for _, refusal := range []struct {
			err  error
			want RedriveOutcome
		}{
			{&broker.ProduceError{Topic: "in", Err: kerr.InvalidRecord}, LeftRefused},
			{&broker.ProduceError{Topic: "in", Err: kerr.InvalidTimestamp}, LeftRefused},
			{&broker.ProduceError{Topic: "in", Err: kerr.TopicAuthorizationFailed}, ""},
			{&broker.ProduceError{Topic: "dead", Err: kerr.InvalidRecord}, ""},
			{kerr.InvalidRecord, ""},
			{nil, ""},
		} {
			if got, refused := r.refused(refusal.err); got != refusal.want || refused != (refusal.want != "") {
				t.Errorf("%v is %q, %t", refusal.err, got, refused)
			}
		}
	})
}
