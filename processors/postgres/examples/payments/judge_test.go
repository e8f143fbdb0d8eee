package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/topology/graph"
)

// seen is what is there at the end: answers, topics, tables, and what the service shows. Of topics
// it has the committed records.
type seen struct {
	answers, reused map[string][]response

	facts    map[string][]fact           // by payment
	refused  map[string][]refusal        // by payment
	balances map[string][]ledger.Balance // by account
	letters  []graph.DeadLetterOrigin
	poison   []graph.DeadLetterOrigin // the records that are no steps

	payments, steps int // rows of the service
	states          map[string]stateRow
	refusals        map[string]refusalRow // by step
	totals          map[string]totalRow   // by account
	quarantined     int

	shownPayments map[string]paymentView
	shownAccounts map[string]accountView
}

type (
	stateRow struct {
		state   string
		version int64
	}
	refusalRow struct{ payment, state string }
	totalRow   struct{ cents, version int64 }
)

// judge compares what is there with what the requests of the plan have to lead to.
func (s *seen) judge(plan []payment) error {
	var differ differences
	want := struct {
		payments, steps int
		refusals        int
		states          int
		contributions   map[string][]string
		cents           map[string]int64
	}{contributions: map[string][]string{}, cents: map[string]int64{}}

	for _, p := range plan {
		accepted := s.judgeAnswers(p, &differ)
		e := p.expected()
		if len(e.states) == 0 {
			continue
		}
		id := accepted[e.keys[0]].Payment
		want.payments++
		want.states++
		want.steps += len(e.states) + len(e.refused)
		want.refusals += len(e.refused)

		facts := make([]string, len(e.states))
		for i, state := range e.states {
			facts[i] = fmt.Sprintf("%d %s by %s", i+1, state, accepted[e.keys[i]].Step)
		}
		got := make([]string, len(s.facts[id]))
		for i, f := range s.facts[id] {
			got[i] = fmt.Sprintf("%d %s by %s", f.Version, f.To, f.ID)
		}
		differ.compare("facts of payment "+id, got, facts)

		var refused, gotRefused, shown []string
		for key, state := range e.refused {
			step := accepted[key].Step
			refused, shown = append(refused, state+" by "+step), append(shown, step)
			if row := s.refusals[step]; row != (refusalRow{id, state}) {
				differ.add("the refusal of step %s is %v in the read model, want %s of payment %s", step, row, state, id)
			}
		}
		for _, r := range s.refused[id] {
			gotRefused = append(gotRefused, r.Transition.To+" by "+r.Transition.ID)
		}
		differ.compare("refusals of payment "+id, slices.Sorted(slices.Values(gotRefused)), slices.Sorted(slices.Values(refused)))

		last := stateRow{e.states[len(e.states)-1], int64(len(e.states))}
		if row := s.states[id]; row != last {
			differ.add("payment %s is %v in the read model, want %v", id, row, last)
		}
		view := s.shownPayments[id]
		if view.Payment != id || view.Account != p.account || view.Cents != p.cents || view.State != last.state {
			differ.add("payment %s is shown as %+v, want %s of %d cents for %s", id, view, last.state, p.cents, p.account)
		}
		differ.compare("shown refusals of payment "+id, view.Refused, slices.Sorted(slices.Values(shown)))

		for i, cents := range e.contributions {
			want.contributions[p.account] = append(want.contributions[p.account], id+[]string{"-captured", "-refunded"}[i])
			want.cents[p.account] += cents
		}
	}

	for account := range want.contributions {
		s.judgeAccount(account, want.contributions[account], want.cents[account], &differ)
	}
	for _, n := range []struct {
		what      string
		got, want int
	}{
		{"payments in the tables of the service", s.payments, want.payments},
		{"steps in the tables of the service", s.steps, want.steps},
		{"payments with facts", len(s.facts), want.payments},
		{"accounts with balances", len(s.balances), len(want.contributions)},
		{"payments in the read model", len(s.states), want.states},
		{"refusals in the read model", len(s.refusals), want.refusals},
		{"balances in the read model", len(s.totals), len(want.contributions)},
		{"records in quarantine", s.quarantined, 0},
	} {
		if n.got != n.want {
			differ.add("%d %s, want %d", n.got, n.what, n.want)
		}
	}
	differ.compare("dead letters", places(s.letters), places(s.poison))
	return differ.err()
}

// judgeAnswers compares the answers to the requests of a payment, and returns those that were
// accepted, by their keys.
func (s *seen) judgeAnswers(p payment, differ *differences) map[string]accepted {
	all := map[string]accepted{}
	for _, r := range p.requests {
		answers := s.answers[r.key]
		if len(answers) == 0 {
			differ.add("%s has no answer", r.key)
			continue
		}
		first := answers[0]
		for _, a := range answers {
			if a != first {
				differ.add("%s has the answers %+v and %+v", r.key, first, a)
			}
		}
		if first.status != r.status {
			differ.add("%s is answered %d, want %d", r.key, first.status, r.status)
		}
		for _, a := range s.reused[r.key] {
			if a.status != http.StatusConflict {
				differ.add("another request under %s is answered %d, want %d", r.key, a.status, http.StatusConflict)
			}
		}
		if first.status == http.StatusAccepted {
			var a accepted
			if err := json.Unmarshal([]byte(first.body), &a); err != nil {
				differ.add("the answer to %s: %v", r.key, err)
			}
			all[r.key] = a
		}
	}
	return all
}

// judgeAccount compares an account with the contributions that it has to have, each one once.
func (s *seen) judgeAccount(account string, contributions []string, cents int64, differ *differences) {
	var got []string
	var last ledger.Balance
	for i, b := range s.balances[account] {
		if b.Count != int64(i+1) {
			differ.add("balance %d of %s has %d contributions", i+1, account, b.Count)
		}
		got, last = append(got, b.Contribution), b
	}
	differ.compare("contributions to "+account, slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(contributions)))
	if len(last.Amounts) != 1 || last.Amounts[0] != cents {
		differ.add("%s has %v cents, want %d", account, last.Amounts, cents)
	}
	if row := s.totals[account]; row != (totalRow{cents, int64(len(contributions))}) {
		differ.add("%s is %v in the read model, want %d cents of %d contributions", account, row, cents, len(contributions))
	}
	if view := s.shownAccounts[account]; view.Cents != cents {
		differ.add("%s is shown with %d cents, want %d", account, view.Cents, cents)
	}
}

func places(origins []graph.DeadLetterOrigin) []string {
	out := make([]string, len(origins))
	for i, o := range origins {
		out[i] = fmt.Sprintf("%s[%d]@%d", o.Topic, o.Partition, o.Offset)
	}
	slices.Sort(out)
	return out
}

// differences keeps the first ones and counts them all.
type differences struct {
	n     int
	first []error
}

func (d *differences) add(format string, args ...any) {
	if d.n++; d.n <= 10 {
		d.first = append(d.first, fmt.Errorf(format, args...))
	}
}

func (d *differences) compare(what string, got, want []string) {
	if !slices.Equal(got, want) {
		d.add("%s: %v, want %v", what, got, want)
	}
}

func (d *differences) err() error {
	if d.n == 0 {
		return nil
	}
	return fmt.Errorf("%d differences: %w", d.n, errors.Join(d.first...))
}
