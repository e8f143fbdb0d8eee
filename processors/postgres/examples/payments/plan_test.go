package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
)

// request is a request of a client, and how the client sends it.
type request struct {
	key string
	// step is "" for the request that creates the payment.
	step string
	body string
	// status is that of the answer.
	status int
	// doubled has two copies sent at the same time. hasty has the client go away once the request
	// is sent, and ask again. again has the client ask once more after the answer. reused has it
	// use the key for another request.
	doubled, hasty, again, reused bool
}

// payment is what a client does with one payment. The first request creates it.
type payment struct {
	account  string
	cents    int64
	requests []request
}

// scripts are the steps that clients ask for. Some steps are refused, and "freeze" is no step.
var scripts = [][]string{
	{}, {"capture"}, {"cancel"}, {"capture", "refund"}, {"capture", "cancel"}, {"cancel", "capture"},
	{"refund", "capture"}, {"capture", "capture"}, {"capture", "refund", "refund"}, {"freeze", "capture"},
}

// accounts is how many accounts the payments are for.
const accounts = 7

// planOf returns n payments, the same for the same seed.
func planOf(seed uint64, n int) []payment {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := make([]payment, n)
	for i := range plan {
		p := payment{account: fmt.Sprint("account-", random.IntN(accounts)), cents: 1 + random.Int64N(10_000)}
		script, status := scripts[random.IntN(len(scripts))], http.StatusAccepted
		if random.IntN(15) == 0 {
			p.cents, script, status = 0, nil, http.StatusUnprocessableEntity
		}
		add := func(step, body string, status int) {
			in := func(percent int) bool { return random.IntN(100) < percent }
			p.requests = append(p.requests, request{
				key: fmt.Sprintf("key-%d-%d", i, len(p.requests)), step: step, body: body, status: status,
				doubled: in(40), hasty: in(30), again: in(30), reused: in(15),
			})
		}
		add("", fmt.Sprintf(`{"account":%q,"cents":%d}`, p.account, p.cents), status)
		for _, step := range script {
			status := http.StatusAccepted
			if step == "freeze" {
				status = http.StatusNotFound
			}
			add(step, "", status)
		}
		plan[i] = p
	}
	return plan
}

// expected are the effects of one payment, computed without the code of service and topology.
type expected struct {
	// states are those that the payment enters, by the keys of the requests that ask for them.
	states, keys []string
	// refused has the states that are not entered, by the keys of the requests.
	refused map[string]string
	// contributions are what the payment adds to its account.
	contributions []int64
}

func (p payment) expected() expected {
	e := expected{refused: map[string]string{}}
	for _, r := range p.requests {
		if r.status != http.StatusAccepted {
			continue
		}
		state := ""
		if len(e.states) > 0 {
			state = e.states[len(e.states)-1]
		}
		switch enters := (map[string]string{"": "authorized", "capture": "captured", "cancel": "cancelled", "refund": "refunded"})[r.step]; {
		case state == "" || state == "authorized" && enters == "cancelled":
			e.states, e.keys = append(e.states, enters), append(e.keys, r.key)
		case state == "authorized" && enters == "captured":
			e.states, e.keys = append(e.states, enters), append(e.keys, r.key)
			e.contributions = append(e.contributions, p.cents)
		case state == "captured" && enters == "refunded":
			e.states, e.keys = append(e.states, enters), append(e.keys, r.key)
			e.contributions = append(e.contributions, -p.cents)
		default:
			e.refused[r.key] = enters
		}
	}
	return e
}
