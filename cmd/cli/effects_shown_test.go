package cli

import (
	"testing"

	"github.com/onceward/onceward/processors/effect"
)

// TestNext is requirement H3 for those who look: what waits for a person is told from what the
// program still does something about.
func TestNext(t *testing.T) {
	const at = 1_700_000_000_000
	claim := &effect.Claimed{At: at - 1000, Expires: at}
	for _, c := range []struct {
		effect     effect.Effect
		claim      *effect.Claimed
		next, text string
	}{
		{effect.Effect{Status: effect.Unknown}, nil, nextPerson, "a person"},
		{effect.Effect{Status: effect.Unknown, Due: at}, nil, nextDue, "due 2023-11-14T22:13:20.000Z"},
		{effect.Effect{Status: effect.Unknown}, &effect.Claimed{Lookup: true, Expires: at}, nextClaimed, "claimed lookup, until 2023-11-14T22:13:20.000Z"},
		{effect.Effect{Status: effect.Started}, claim, nextClaimed, "claimed call, until 2023-11-14T22:13:20.000Z"},
		{effect.Effect{Status: effect.Started}, nil, nextClaimed, "claimed"}, // since the claims were read
		{effect.Effect{Status: effect.FailedRetryable, Due: at}, nil, nextDue, "due 2023-11-14T22:13:20.000Z"},
		{effect.Effect{Status: effect.Received, Due: at}, nil, nextDue, "due 2023-11-14T22:13:20.000Z"},
		{effect.Effect{Status: effect.Completed}, nil, nextNothing, "nothing"},
		{effect.Effect{Status: effect.Completed, Due: at}, nil, nextDue, "due 2023-11-14T22:13:20.000Z"}, // to be told
		{effect.Effect{Status: effect.Suppressed}, nil, nextNothing, "nothing"},
	} {
		e := effectAt{Effect: c.effect, claim: c.claim}
		if e.next() != c.next || e.nextText() != c.text {
			t.Errorf("%s, due %d, claim %v: %s, %q", c.effect.Status, c.effect.Due, c.claim, e.next(), e.nextText())
		}
	}
}
