package processing

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/projection"
)

// delivery is one record of the input topic.
type delivery struct {
	partition int32
	account   string
	value     string
	at        int64 // milliseconds since the epoch
}

// outcome is what came out, or has to: lines by their places. A place is a topic and an account,
// where the order of the account's records counts, or a topic or a store alone, where the lines are
// sorted.
type outcome map[string][]string

func (o outcome) add(place, format string, args ...any) {
	o[place] = append(o[place], fmt.Sprintf(format, args...))
}

// sorted sorts the lines of the places whose order says nothing.
func (o outcome) sorted() outcome {
	for place, lines := range o {
		if !strings.Contains(place, "/") {
			slices.Sort(lines)
		}
	}
	return o
}

// without is the outcome without a place.
func (o outcome) without(place string) outcome {
	c := maps.Clone(o)
	delete(c, place)
	return c
}

// difference names the first line of each place at which the two differ.
func (o outcome) difference(got outcome) error {
	var texts []string
	places := map[string]bool{}
	for place := range o {
		places[place] = true
	}
	for place := range got {
		places[place] = true
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		want, has := o[place], got[place]
		for i := range max(len(want), len(has)) {
			line := func(lines []string) string {
				if i < len(lines) {
					return lines[i]
				}
				return "nothing"
			}
			if line(want) != line(has) {
				texts = append(texts, fmt.Sprintf("%s, line %d of %d: %s, want %s, of %d", place, i, len(has), line(has), line(want), len(want)))
				break
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(texts[:min(len(texts), 8)], "\n"))
}

// expiry says that facts older than before, in milliseconds since the epoch, have expired for
// deliveries from an index on.
type expiry struct {
	from   int
	before int64
}

// oldestKept returns the oldest time that has not expired when the delivery of an index comes, 0 if
// nothing has expired.
func oldestKept(expiries []expiry, i int) (before int64) {
	for _, x := range expiries {
		if x.from <= i {
			before = x.before
		}
	}
	return before
}

// recount computes, from nothing but the deliveries, what the pipeline has to have come to: outputs
// and stores. It is written down on purpose without the processors: maps, a sort, and a loop over
// each account.
//
// If two facts have one id, or one version, the first delivery counts. Facts that wait for a
// missing version have no effect yet.
func recount(deliveries []delivery, expiries []expiry) (outputs, stores outcome) {
	outputs, stores = outcome{}, outcome{}
	first := map[string]Event{}
	accounts := map[string]map[int64]Event{}
	for i, d := range deliveries {
		var e Event
		switch err := json.Unmarshal([]byte(d.value), &e); {
		case err != nil:
			outputs.add(TopicDead, "poison %s", d.value)
			continue
		case e.ID == "":
			outputs.add(TopicDead, "validation %+v", e)
			continue
		}
		before, seen := first[e.ID]
		switch {
		case d.at < oldestKept(expiries, i):
			outputs.add(TopicLate, "%s", e.ID)
			outputs.add(TopicAudit, "inbox late %s", e.ID)
		case !seen:
			first[e.ID] = e
			if accounts[d.account] == nil {
				accounts[d.account] = map[int64]Event{}
			}
			if _, taken := accounts[d.account][e.Version]; !taken {
				accounts[d.account][e.Version] = e
			}
			outputs.add(TopicAudit, "inbox accepted %s", e.ID)
			stores.add(placeEntered, "%s", e.ID)
			if d.at >= oldestKept(expiries, len(deliveries)) {
				stores.add(nodeInbox, "%s", e.ID)
			} else {
				outputs.add(TopicArchive, "%s accepted %d", e.ID, d.at)
			}
		case before == e:
			outputs.add(TopicAudit, "inbox duplicates %s", e.ID)
		default:
			outputs.add(TopicDead, "conflict %+v", e)
		}
	}
	for account, facts := range accounts {
		recountAccount(account, facts, outputs, stores)
	}
	return outputs.sorted(), stores.sorted()
}

// accountState is an account as the recount goes through its facts.
type accountState struct {
	state    Standing
	was      map[Standing]bool
	accepted int
	facts    int64
	total    int64
	balance  book
	// flows are the books of days, by their beginnings.
	flows map[int64]book
	// orders has of each order what was asked for first.
	orders map[string]Event
	// stands is the fact that the standing follows from.
	stands Event
}

func recountAccount(account string, facts map[int64]Event, outputs, stores outcome) {
	t := accountState{was: map[Standing]bool{}, balance: newBook(), flows: map[int64]book{}, orders: map[string]Event{}}
	var last Event
	for version := int64(1); ; version++ {
		e, there := facts[version]
		if !there {
			break
		}
		t.facts, t.total, last = version, t.total+e.Amount, e
		outputs.add(TopicAccounts+"/"+account, "%d %d %d %+v", version, t.facts, t.total, e)
		outputs.add(TopicAudit, "accounts applied %s %d", account, version)
		t.step(account, e, outputs, stores)
	}
	if waiting := len(facts) - int(t.facts); waiting > 0 {
		stores.add(nodeAccounts+"-queues", "%s %d", account, waiting)
		for version := range facts {
			if version > t.facts {
				stores.add(nodeAccounts+"-parked", "%s %d", account, version)
			}
		}
	}
	if t.facts > 0 {
		stores.add(nodeAccounts, "%s %d %d %d %+v", account, t.facts, t.facts, t.total, last)
	}
	if t.state != "" {
		stores.add(nodeLifecycle, "%s %s %d", account, t.state, t.accepted)
	}
	if e := t.stands; e.ID != "" {
		for definition, node := range map[uint16]string{1: nodeStandings, 2: nodeNext} {
			stores.add(node, "%s %d %s", account, e.Version, standingText(e, definition))
			stores.add(nodeChoice+"-rows", "%s %d %d %s", account, definition, e.Version, standingText(e, definition))
		}
	}
	t.balance.close(account, nodeBalances, stores)
	for start, b := range t.flows {
		b.close(windowText(account, start), nodeFlows, stores)
	}
}

// windowText is how the outcome has the name of a window.
func windowText(account string, start int64) string { return fmt.Sprint(account, "@", start) }

// book is what was posted.
type book struct {
	postings map[string]int64
	reversed map[string]string
}

func newBook() book { return book{postings: map[string]int64{}, reversed: map[string]string{}} }

// post posts a movement, unless it reverses what was reversed.
func (b book) post(e Event) bool {
	amount := e.Amount
	switch e.Kind {
	case Payout:
		amount = -e.Amount
	case Reverse:
		if b.reversed[e.About] != "" {
			return false
		}
		amount = -b.postings[e.About]
		b.reversed[e.About] = e.ID
	default:
	}
	b.postings[e.ID] = amount
	return true
}

// write posts a movement, and says what comes out.
func (b book) write(e Event, account, node, place string, outputs outcome) {
	if !b.post(e) {
		outputs.add(TopicDisputed+"/"+account, "%s", e.ID)
		outputs.add(TopicAudit, "%s conflicts %s", node, e.ID)
		return
	}
	outputs.add(place, "%d %d %s", len(b.postings), b.sum(), e.ID)
	outputs.add(TopicAudit, "%s accepted %s", node, e.ID)
}

func (b book) sum() (sum int64) {
	for _, amount := range b.postings {
		sum += amount
	}
	return sum
}

// close says what is stored.
func (b book) close(name, node string, stores outcome) {
	if len(b.postings) > 0 {
		stores.add(node, "%s %d %d", name, len(b.postings), b.sum())
	}
	for id, amount := range b.postings {
		stores.add(node+"-contributions", "%s %s %d %q", name, id, amount, b.reversed[id])
	}
}

// step is one fact, in its turn.
func (t *accountState) step(account string, e Event, outputs, stores outcome) {
	from, to := steps[e.Kind][0], steps[e.Kind][1]
	if from != t.state {
		// A state that the account was in is behind it; from a closed one nothing leads anywhere;
		// between the others there is a way.
		why := "out-of-order"
		switch {
		case t.state == "":
			why = "missing-aggregate"
		case from == "" || t.was[from]:
			why = "stale"
		case t.state == Closed:
			why = "illegal"
		}
		outputs.add(TopicRefused+"/"+account, "%s %s", why, e.ID)
		outputs.add(TopicAudit, "lifecycle %s %s", why, e.ID)
		return
	}
	t.was[t.state], t.state = true, to
	t.accepted++
	outputs.add(TopicFacts+"/"+account, "%s %q %q %d", e.ID, from, to, t.accepted)
	outputs.add(TopicAudit, "lifecycle accepted %s", e.ID)
	stores.add("facts", "%s %s", account, e.ID)
	if !t.asks(account, e, outputs, stores) {
		return
	}
	outputs.add(TopicStandings+"/"+account, "%d %s", e.Version, to)
	outputs.add(TopicChosen+"/"+account, "%d %s", e.Version, to)
	t.stands = e
	outputs.add(TopicAudit, "%s applied %s %d", nodeStandings, account, e.Version)
	outputs.add(TopicAudit, "%s applied %s %d", nodeNext, account, e.Version)
	if e.Kind == Freeze {
		performed(e, nodeNotices, TopicNoticed, outputs, stores)
	}
	if !e.Kind.moves() {
		return
	}
	t.balance.write(e, account, nodeBalances, TopicBalances+"/"+account, outputs)
	// Windows of two days begin every day.
	today := e.Valued - e.Valued%day.Milliseconds()
	for _, start := range []int64{today - day.Milliseconds(), today} {
		if start < 0 {
			continue // nothing was before the epoch
		}
		if _, there := t.flows[start]; !there {
			t.flows[start] = newBook()
		}
		t.flows[start].write(e, account, nodeFlows, TopicFlows+"/"+windowText(account, start), outputs)
	}
	if e.Kind == Payout {
		performed(e, nodePayouts, TopicPaid, outputs, stores)
	}
}

// performed is a call that was made.
func performed(e Event, node, place string, outputs, stores outcome) {
	outputs.add(place, "COMPLETED %s", e.ID)
	outputs.add(TopicAudit, "%s requested %s", node, e.ID)
	outputs.add(TopicAudit, "%s-outcomes COMPLETED %s", node, e.ID)
	stores.add(node, "COMPLETED %s", e.ID)
}

// asks reports whether a fact asks for anything that was not asked for before, under another id.
func (t *accountState) asks(account string, e Event, outputs, stores outcome) bool {
	first, ordered := t.orders[e.Order]
	switch {
	case e.Order == "":
	case !ordered:
		t.orders[e.Order] = e
		stores.add(nodeOrders+"-business", "%s/%s %s", account, e.Order, e.ID)
	default:
		did, is := "conflicts", "disputed"
		if first.Amount == e.Amount {
			did, is = "duplicates", "repeated"
		}
		outputs.add(TopicAgain+"/"+account, "%s of %s", e.ID, first.ID)
		outputs.add(TopicAudit, "orders %s %s", did, e.ID)
		stores.add(nodeOrders, "%s %s", e.ID, is)
		return false
	}
	outputs.add(TopicAudit, "orders accepted %s", e.ID)
	stores.add(nodeOrders, "%s accepted", e.ID)
	return true
}

// recountCommands adds what comes of commands that switch from one definition of the standings to
// the other one. Each was written to every partition, and some of them twice. Definition 1 is the
// first.
func recountCommands(commands []projection.Command, outputs, stores outcome) {
	active, obeyed := uint16(1), map[string]bool{}
	for _, c := range commands {
		did := projection.Repeated
		if !obeyed[c.ID] {
			did, active, obeyed[c.ID] = projection.Switched, c.To, true
		}
		for range Partitions {
			outputs.add(TopicAnswers, "%s %s %d", c.ID, did, active)
			if did == projection.Switched {
				stores.add(nodeChoice+"-answers", "%s %s %d", c.ID, did, active)
			}
		}
	}
	for place := range outputs {
		if account, stands := strings.CutPrefix(place, TopicStandings+"/"); stands {
			outputs.add(placeDefinitions, "%s %d", account, active)
		}
	}
	if len(commands) > 0 || len(outputs[placeDefinitions]) > 0 {
		stores.add(nodeChoice+"-active", "%d", active)
	}
	outputs.sorted()
	stores.sorted()
}

// recountFindings adds what comes of what people have found out, which they say of an attempt once
// or several times.
func recountFindings(findings []effect.Resolution, outputs outcome) {
	taken := map[string]bool{}
	for _, f := range findings {
		did, attempt := "resolved", fmt.Sprint(f.ID, "/", f.Attempts)
		if taken[attempt] {
			did = "duplicates"
		}
		taken[attempt] = true
		outputs.add(TopicAudit, "%s %s %s", nodeFindings, did, f.ID)
	}
	outputs.sorted()
}

// paidOnce wants one payment for each payout that was accepted, one dead letter for each notice,
// and no other.
func paidOnce(want outcome, gateway, post *Gateway) error {
	return errors.Join(calledOnce(want[TopicPaid], nodePayouts, gateway), calledOnce(want[TopicNoticed], nodeNotices, post))
}

func calledOnce(want []string, node string, g *Gateway) error {
	paid := g.all()
	for _, line := range want {
		var id string
		if _, err := fmt.Sscanf(line, "COMPLETED %s", &id); err != nil {
			return err
		}
		key := effect.IdempotencyKey(node, id)
		if paid[key] != 1 {
			return fmt.Errorf("%s: %s was paid %d times", node, id, paid[key])
		}
		delete(paid, key)
	}
	if len(paid) > 0 {
		return fmt.Errorf("%s: %d payments were made without a request", node, len(paid))
	}
	return nil
}
