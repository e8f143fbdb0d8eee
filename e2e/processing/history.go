package processing

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/projection"
)

// history makes inputs: facts, and what can happen to them on the way.
type history struct {
	random *rand.Rand
	// details is what the facts are drawn from that have taken place, so that what they say does
	// not change the course of their accounts.
	details *rand.Rand
	// began is the time of the first fact.
	began time.Time
	// facts are all, in a clean order: for each account that of its versions.
	facts []fact
	made  int
	// lost are those that were lost on their way, in the order in which that has happened.
	lost []fact
	// commands is how many were given.
	commands int
}

type fact struct {
	account string
	Event
	at int64
}

func newHistory(seed uint64, began time.Time) *history {
	return &history{random: rand.New(rand.NewPCG(seed, 8)), details: rand.New(rand.NewPCG(seed, 9)), began: began}
}

// beyond is an amount that a float64 does not tell from the one below it.
const beyond = 1<<53 + 1

// grow adds n more facts to each of the accounts, and returns the new ones, accounts interleaved.
// Some of them are facts that an account refuses. None would fail in a ledger: a correction names
// an accepted fact.
func (h *history) grow(n int, accounts ...string) []fact {
	lives := map[string][]fact{}
	for _, account := range accounts {
		course := course{}
		for _, f := range h.facts {
			if f.account == account {
				course.follow(f.Event)
			}
		}
		for range n {
			h.made++
			e := course.next(h.random, fmt.Sprintf("%s-%d", account, course.version+1))
			e = course.detail(h.details, e)
			course.follow(e)
			lives[account] = append(lives[account], fact{account, e, h.began.UnixMilli() + int64(h.made)*100})
		}
	}
	var grown []fact
	for len(lives) > 0 {
		account := accounts[h.random.IntN(len(accounts))]
		if life := lives[account]; len(life) > 0 {
			grown, lives[account] = append(grown, life[0]), life[1:]
		} else {
			delete(lives, account)
		}
	}
	h.facts = append(h.facts, grown...)
	return grown
}

// course is what the generator knows of an account.
type course struct {
	version int64
	state   Standing
	// deposits and payouts are those that were accepted.
	deposits, payouts []Event
}

func (c *course) follow(e Event) {
	c.version = e.Version
	if step := steps[e.Kind]; step[0] == c.state {
		c.state = step[1]
		switch e.Kind {
		case Deposit:
			c.deposits = append(c.deposits, e)
		case Payout:
			c.payouts = append(c.payouts, e)
		default:
		}
	}
}

// next chooses a fact. Most are what the account allows.
func (c *course) next(random *rand.Rand, id string) Event {
	e := Event{ID: id, Version: c.version + 1, Kind: Open, Amount: int64(random.IntN(1000) + 1)}
	if c.version == 0 && random.IntN(8) > 0 {
		e.Amount = 0
		return e
	}
	kinds := []Kind{Deposit, Deposit, Deposit, Deposit, Payout, Freeze}
	switch {
	case random.IntN(6) == 0:
		kinds = []Kind{Deposit, Freeze, Thaw, Open, Payout}
	case c.state == "":
		kinds = []Kind{Open}
	case c.state == Frozen:
		kinds = []Kind{Thaw}
	case len(c.deposits) > 0 && random.IntN(3) == 0:
		kinds = []Kind{Correct, Reverse}
	case c.version > 12 && random.IntN(12) == 0:
		kinds = []Kind{Close}
	}
	e.Kind = kinds[random.IntN(len(kinds))]
	switch e.Kind {
	case Deposit:
		if random.IntN(5) == 0 {
			e.Amount = beyond
		}
	case Correct, Reverse:
		about := c.deposits[random.IntN(len(c.deposits))]
		e.About, e.Valued = about.ID, about.Valued
		if e.Kind == Reverse {
			e.Amount = 0
		}
	case Payout:
	default:
		e.Amount = 0
	}
	return e
}

// The days that money moves for: hours from that one on.
const (
	firstHour = 20_000 * 24
	hours     = 4 * 24
)

// detail says the rest of a fact. A payout may be for an order that there was one for: it is the
// same one under another id, or says something else.
func (c *course) detail(details *rand.Rand, e Event) Event {
	if e.Kind == Deposit || e.Kind == Payout {
		e.Valued = int64(firstHour+details.IntN(hours)) * time.Hour.Milliseconds()
	}
	if e.Kind != Payout {
		return e
	}
	e.Order = "order-" + e.ID
	if len(c.payouts) == 0 || details.IntN(2) == 0 {
		return e
	}
	before := c.payouts[details.IntN(len(c.payouts))]
	e.Order, e.Valued = before.Order, before.Valued
	if details.IntN(3) > 0 {
		e.Amount = before.Amount
	}
	return e
}

// now is the time of the newest fact.
func (h *history) now() int64 { return h.began.UnixMilli() + int64(h.made)*100 }

// command switches from one definition of the standings to the other one.
func (h *history) command() projection.Command {
	from, to := uint16(1+h.commands%2), uint16(2-h.commands%2)
	h.commands++
	return projection.Command{ID: fmt.Sprint("command-", h.commands), Action: projection.Switch, From: from, To: to}
}

// encode returns v as JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has nothing that JSON has no form for
	}
	return b
}

// deliver is the delivery of a fact as it is.
func deliver(f fact) delivery {
	return delivery{int32(f.Version % Partitions), f.account, string(encode(f.Event)), f.at}
}

// mischief is what may happen to facts on their way, each for so many of a hundred.
type mischief struct{ late, duplicate, conflict, poison, lost int }

var everything = mischief{late: 25, duplicate: 30, conflict: 8, poison: 5, lost: 10}

// lose notes the lost facts, and returns them by id. The last fact of an account arrives, or the
// gap before it would not be noticed.
func (h *history) lose(facts []fact, m mischief) map[string]bool {
	lost, last := map[string]bool{}, map[string]int64{}
	for _, f := range facts {
		last[f.account] = f.Version
	}
	for _, f := range facts {
		if h.details.IntN(100) < m.lost && f.Version < last[f.account] {
			lost[f.ID] = true
			h.lost = append(h.lost, f)
		}
	}
	return lost
}

// send returns the deliveries of those of the lost facts that hold, which are lost no more.
func (h *history) send(holds func(f fact) bool) (out []delivery) {
	h.lost = slices.DeleteFunc(h.lost, func(f fact) bool {
		if !holds(f) {
			return false
		}
		out = append(out, deliver(f))
		return true
	})
	return out
}

// foundAll wants nothing to be lost any more.
func (h *history) foundAll() error {
	if len(h.lost) > 0 {
		return fmt.Errorf("%d facts were lost, and were not requested", len(h.lost))
	}
	return nil
}

// disturb delivers facts in another order, several times, with other facts under their ids and with
// invalid ones, and loses some. A contradiction comes behind its fact, in the same partition, so
// that it is known which is first.
func (h *history) disturb(facts []fact, m mischief) []delivery {
	type placed struct {
		delivery
		place float64
		// id is that of the fact of which the delivery tells, if it does.
		id string
	}
	var out []placed
	lost := h.lose(facts, m)
	for i, f := range facts {
		d, place := deliver(f), float64(i)
		if h.random.IntN(100) < m.late {
			place += float64(h.random.IntN(len(facts)))
		}
		out = append(out, placed{d, place, f.ID})
		for h.random.IntN(100) < m.duplicate {
			again := d
			again.partition = int32(h.random.IntN(Partitions))
			again.value = respelled(d.value)
			at := place + float64(h.random.IntN(8)) - 4
			if m.conflict > 0 {
				at = max(at, place) // before the fact it would be the first
			}
			out = append(out, placed{again, at + 0.1, f.ID})
		}
		if h.random.IntN(100) < m.conflict {
			out = append(out, placed{h.contradiction(f), place + float64(h.random.IntN(10)) + 0.2, f.ID})
		}
		if h.random.IntN(100) < m.poison {
			d.value = []string{"{", `{"id":7}`, `"` + f.ID + `"`, `{"version":1,"kind":"open"}`}[h.random.IntN(4)]
			out = append(out, placed{d, place + 0.3, ""})
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int {
		switch {
		case a.place < b.place:
			return -1
		case a.place > b.place:
			return 1
		}
		return 0
	})
	var deliveries []delivery
	for _, p := range out {
		if !lost[p.id] {
			deliveries = append(deliveries, p.delivery)
		}
	}
	return deliveries
}

// contradiction says something else under the id of a fact: if it can, something that only exact
// numbers tell apart.
func (h *history) contradiction(f fact) delivery {
	d := deliver(f)
	other := f.Event
	switch {
	case f.Amount == beyond:
		other.Amount = beyond - 1
	case h.random.IntN(2) == 0:
		other.Amount += 7
	default:
		other.Version += 1000
	}
	d.value = deliver(fact{f.account, other, f.at}).value
	return d
}

// respelled is the same document in other words.
func respelled(value string) string {
	return " { " + strings.ReplaceAll(strings.TrimPrefix(value, "{"), ":", " :\t")
}
