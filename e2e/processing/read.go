package processing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// written adds a record of an output topic to the outcome, in the form of the recount. Results that
// depend on the order in which the facts of an account happen to arrive, such as which have waited,
// have no line.
func (o outcome) written(topic string, key, value []byte, headers []topology.Header) error {
	account := "/" + string(key)
	switch topic {
	case TopicLate:
		e, err := decode[Event](value)
		o.add(topic, "%s", e.ID)
		return err
	case TopicArchive:
		e, err := decode[inbox.Entry](value)
		o.add(topic, "%s %s %d", key, e.Outcome, e.FirstSeen)
		return err
	case TopicAccounts:
		row, err := decode[projection.Row[Account]](value)
		o.add(topic+account, "%d %d %d %+v", row.Version, row.Value.Facts, row.Value.Total, row.Value.Last)
		return err
	case TopicRepairs:
		r, err := decode[projection.Repair](value)
		o.add(placeAsked, "%s %d %d", key, r.From, r.To)
		return err
	case TopicFacts:
		f, err := decode[transition.Fact[Standing]](value)
		o.add(topic+account, "%s %q %q %d", f.ID, f.From, f.To, f.Version)
		return err
	case TopicRefused:
		r, err := decode[transition.Refused[Standing, Event]](value)
		o.add(topic+account, "%s %s", r.Refusal, r.Transition.ID)
		return err
	case TopicAgain:
		e, err := decode[Event](value)
		first, _ := headerOf(headers, inbox.HeaderFirstID)
		o.add(topic+account, "%s of %s", e.ID, first)
		return err
	case TopicStandings:
		row, err := decode[projection.Row[string]](value)
		o.add(topic+account, "%d %s", row.Version, row.Value)
		return err
	case TopicChosen:
		row, err := decode[projection.Row[string]](value)
		o.add(topic+account, "%d %s", row.Version, row.Value)
		return err
	case TopicAnswers:
		a, err := decode[projection.Answer](value)
		o.add(topic, "%s %s %d", a.Command.ID, a.Outcome, a.Active)
		return err
	case TopicBalances:
		return o.balanced(topic+account, value)
	case TopicFlows:
		w, err := ledger.WindowCodec(schemas.String()).Decode(key)
		return errors.Join(err, o.balanced(topic+"/"+windowText(w.Key, w.Start), value))
	case TopicDisputed:
		e, err := decode[Event](value)
		o.add(topic+account, "%s", e.ID)
		return err
	case TopicDoubted:
		return nil // on the way to an end
	case TopicPaid, TopicHeld, TopicNoticed:
		r, err := decode[effect.Result](value)
		o.add(topic, "%s %s", r.Status, r.ID)
		return err
	case TopicAudit:
		return o.audited(key, value)
	case TopicDead:
		return o.died(value, headers)
	default:
		o.add(topic, "%s", value)
		return nil
	}
}

func (o outcome) balanced(place string, value []byte) error {
	b, err := decode[ledger.Balance](value)
	switch {
	case err != nil:
		return err
	case len(b.Amounts) != 1:
		return fmt.Errorf("a balance has %d amounts", len(b.Amounts))
	}
	o.add(place, "%d %d %s", b.Count, b.Amounts[0], b.Contribution)
	return nil
}

func decode[V any](value []byte) (v V, err error) { return v, json.Unmarshal(value, &v) }

// headerOf returns the value of a header; ok is false if there is none.
func headerOf(headers []topology.Header, key string) (value []byte, ok bool) {
	for _, h := range headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// auditTopic reads evidence.
var auditTopic = evidence.Topic(TopicAudit)

func (o outcome) audited(key, value []byte) error {
	row, e, err := auditTopic.Decode(key, value)
	if err != nil {
		return err
	}
	switch {
	case e.Node == nodeAccounts && e.Outcome != "applied": // parked, or stale, or a copy of what waits
		o.add(placeAside, "%s %s", e.Outcome, row)
	case e.Node == nodeAccounts, e.Node == nodeStandings, e.Node == nodeNext:
		if e.After == nil {
			return fmt.Errorf("the evidence of %s has no version: %s", e.Node, value)
		}
		o.add(TopicAudit, "%s %s %s %d", e.Node, e.Outcome, row, *e.After)
	case e.Outcome == effect.FailedRetryable.String(), e.Outcome == effect.Unknown.String(): // on the way to an end
	default:
		o.add(TopicAudit, "%s %s %s", e.Node, e.Outcome, e.Subject)
	}
	return nil
}

// Places of what depends on the order in which the facts of an account happen to arrive, so that no
// recount knows of it.
const (
	// placeWorld has the dead letters of what was wrong with the world.
	placeWorld = "the world"
	// placeAside has what the projection of accounts has not applied when it came.
	placeAside = "aside"
	// placeAsked has what the source was asked for.
	placeAsked = "asked"
)

// placeEntered has the ids that were accepted, from the archive or the queue of what is to be
// archived.
const placeEntered = "entered"

// archived adds the ids of an archive to those of its queue. How far the two are apart depends on
// the order of the partitions.
func (o outcome) archived(lines []string) outcome {
	for _, line := range lines {
		id, _, _ := strings.Cut(line, " ")
		o.add(placeEntered, "%s", id)
	}
	return o.sorted()
}

// placeDefinitions has by which definition the standing of each account was told last.
const placeDefinitions = "definitions"

// chosen adds the standings of an account as they were told, without what depends on when a command
// has switched: each is there once, and once more for a switch behind it. Anything else has a line
// that no recount has.
func (o outcome) chosen(account string, lines []string) {
	before, definition := "", 0
	for i, line := range lines {
		standing, _, second := strings.Cut(line, " by ")
		by := 1
		if second {
			by = 2
		}
		if again := standing == before; i > 0 && again != (by != definition) {
			o.add(TopicChosen+"/"+account, "%s behind %s by definition %d", line, before, definition)
		} else if !again {
			o.add(TopicChosen+"/"+account, "%s", standing)
		}
		before, definition = standing, by
	}
	o.add(placeDefinitions, "%s %d", account, definition)
}

// asked calls f for each range of versions that the source was asked for, from some line on.
func (o outcome) asked(from int, f func(account string, first, last int64)) error {
	for _, line := range o[placeAsked][from:] {
		var account string
		var first, last int64
		if _, err := fmt.Sscanf(line, "%s %d %d", &account, &first, &last); err != nil {
			return err
		}
		f(account, first, last)
	}
	return nil
}

// askedOnce wants no version to have been asked for twice. A frail account may lack one again that
// it had, since a record was abandoned.
func (o outcome) askedOnce() error {
	times := map[string]int{}
	var errs []error
	err := o.asked(0, func(account string, first, last int64) {
		for v := first; v <= last && !strings.HasPrefix(account, frail); v++ {
			name := fmt.Sprint(account, "-", v)
			if times[name]++; times[name] == 2 {
				errs = append(errs, fmt.Errorf("the source was asked for %s twice", name))
			}
		}
	})
	return errors.Join(append(errs, err)...)
}

// known is the outcome without what no recount knows of.
func (o outcome) known() outcome {
	c := outcome{}
	for place, lines := range o {
		account, chosen := strings.CutPrefix(place, TopicChosen+"/")
		switch {
		case place == placeWorld, place == placeAside, place == placeAsked:
		case chosen:
			c.chosen(account, lines)
		default:
			c[place] = lines
		}
	}
	return c.sorted()
}

func (o outcome) died(value []byte, headers []topology.Header) error {
	if _, mark := headerOf(headers, admin.HeaderRedriven); mark {
		return nil // an operator's mark, and no dead letter
	}
	info, err := graph.ParseDeadLetter(headers)
	switch {
	case err != nil:
		return err
	case info.Node == nodeWorld:
		o.add(placeWorld, "%s", value)
	case info.Class == topology.Poison:
		o.add(TopicDead, "%s %s", info.Class, value)
	default:
		e, err := decode[Event](value)
		o.add(TopicDead, "%s %+v", info.Class, e)
		return err
	}
	return nil
}

// findOut is how a person finds out the outcome of a call: the gateway has the post, or has not.
func findOut(doubted []byte, post *Gateway) (effect.Resolution, error) {
	r, err := decode[effect.Result](doubted)
	found := effect.Resolution{ID: r.ID, Attempts: r.Attempts, Status: effect.FailedRetryable, By: "clerk"}
	if post.times(r.IdempotencyKey) > 0 {
		found.Status = effect.Completed
	}
	return found, err
}
