package cli

import (
	"time"

	"github.com/onceward/onceward/processors/effect"
)

// The values of next: what an effect waits for.
const (
	nextPerson  = "person"  // nobody but a person can say what has become of it
	nextDue     = "due"     // a call or a lookup, or that its end is told
	nextClaimed = "claimed" // a call or a lookup that is claimed
	nextNothing = "nothing"
)

// next says what the effect waits for.
func (e effectAt) next() string {
	switch {
	case e.claim != nil || e.Status == effect.Started:
		return nextClaimed
	case e.Due != 0:
		return nextDue
	case e.Status == effect.Unknown:
		return nextPerson
	}
	return nextNothing
}

// nextText says it for people.
func (e effectAt) nextText() string {
	switch next := e.next(); {
	case next == nextClaimed && e.claim == nil:
		return "claimed"
	case next == nextClaimed:
		return "claimed " + stepText(e.claim) + ", until " + momentText(e.claim.Expires)
	case next == nextDue:
		return "due " + momentText(e.Due)
	case next == nextPerson:
		return "a person"
	}
	return "nothing"
}

// shownEffect is the JSON form of what is known of an effect, without what was sent and answered.
// Its fields are for programs and stay. Times are in milliseconds since the epoch.
type shownEffect struct {
	ID             string `json:"id"`
	Partition      int32  `json:"partition"`
	Status         string `json:"status"`
	Reason         string `json:"reason,omitempty"`
	EffectType     string `json:"effect_type,omitempty"`
	Target         string `json:"target,omitempty"`
	BusinessKey    string `json:"business_key,omitempty"`
	IdempotencyKey string `json:"idempotency_key"`
	Attempts       int    `json:"attempts"`
	Lookups        int    `json:"lookups"`
	// Doubt says that a call may have had its effect, and nobody knows.
	Doubt bool `json:"doubt"`
	// Timestamp is the time of the request, AgeSeconds how long that is ago.
	Timestamp  int64   `json:"timestamp"`
	AgeSeconds float64 `json:"age_seconds"`
	// Next is what it waits for: person, due, claimed or nothing. Due is when the next step, or its
	// end to be told, is due.
	Next  string      `json:"next"`
	Due   *int64      `json:"due,omitempty"`
	Claim *shownClaim `json:"claim,omitempty"`
	// Request and Response are the SHA-256 of both in hexadecimal digits.
	Request      string `json:"request"`
	Response     string `json:"response,omitempty"`
	ResolvedBy   string `json:"resolved_by,omitempty"`
	ResolvedNote string `json:"resolved_note,omitempty"`
}

type shownClaim struct {
	// Step is call or lookup.
	Step    string `json:"step"`
	At      int64  `json:"at"`
	Expires int64  `json:"expires"`
}

func stepText(c *effect.Claimed) string {
	if c.Lookup {
		return "lookup"
	}
	return "call"
}

func (e effectAt) shown(now time.Time) shownEffect {
	out := shownEffect{
		ID: e.id, Partition: e.at.Task.Partition, Status: e.Status.String(), Reason: e.Reason,
		EffectType: e.Type, Target: e.Target, BusinessKey: e.BusinessKey, IdempotencyKey: e.IdempotencyKey,
		Attempts: e.Attempts, Lookups: e.Lookups, Doubt: e.Doubt,
		Timestamp: e.Timestamp, AgeSeconds: e.age(now).Seconds(), Next: e.next(),
		Request: e.Request, Response: e.Response, ResolvedBy: e.ResolvedBy, ResolvedNote: e.ResolvedNote,
	}
	if e.Due != 0 {
		out.Due = &e.Due
	}
	if e.claim != nil {
		out.Claim = &shownClaim{stepText(e.claim), e.claim.At, e.claim.Expires}
	}
	return out
}

// age is how long the request is ago, by its own time.
func (e effectAt) age(now time.Time) time.Duration { return now.Sub(time.UnixMilli(e.Timestamp)) }
