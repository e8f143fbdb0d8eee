package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestControls: without one of its parts the chain has an effect twice, and the drill finds it.
func TestControls(t *testing.T) {
	for name, control := range map[string]struct {
		without map[string]func(s *scene)
		finds   string
	}{
		"keys":  {map[string]func(s *scene){roleService: serveWithoutKeys}, "has the answers"},
		"inbox": {map[string]func(s *scene){roleTopology: decideWithoutInbox}, "refusals of payment"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(2, 40)
			s := newScene(t, cluster.Embedded(t), control.without)
			s.give(plan)
			s.finish(plan)
			if err := s.settle(1000).judge(plan); err == nil || !strings.Contains(err.Error(), control.finds) {
				t.Errorf("the verdict is %v, want one with %q", err, control.finds)
			}
		})
	}
}

// serveWithoutKeys starts services that do not look at the key of a request.
func serveWithoutKeys(s *scene) {
	pool := s.db.NewPool(s.t, nil)
	handler, err := settings{prefix: s.topics.prefix}.handler(pool, withoutKeys(pool))
	if err != nil {
		s.t.Fatal(err)
	}
	for n := range services {
		server := httptest.NewServer(handler)
		s.t.Cleanup(server.Close)
		s.serves(n, server.Listener.Addr().String())
	}
}

// withoutKeys handles each copy of a request as a request.
func withoutKeys(pool *pgxpool.Pool) middleware {
	return func(f pgrequests.Func) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// An error shows as an answer without a body.
			_ = pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error { return f(w, r, tx) })
		}), nil
	}
}

// decideWithoutInbox starts a topology that decides about every copy of a step.
func decideWithoutInbox(s *scene) {
	b := topology.NewBuilder(s.topics.prefix+"topology", topology.DeadLetters(s.topics.dead))
	s.topics.decide(topology.From(b, s.topics.steps))
	top, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	instance.Start(s.t, top, txn.Config{
		Brokers: s.cluster.Brokers(), StateDir: filepath.Join(s.dir, "without-inbox"),
		Logger: slog.New(slog.NewTextHandler(instance.NewLog(s.t, "without-inbox"), nil)),
	})
}

// TestDamage: each error in the answers, the topics and the tables is found.
func TestDamage(t *testing.T) {
	plan := planOf(1, 100)
	if err := sound(plan).judge(plan); err != nil {
		t.Fatalf("nothing is wrong, and the verdict is %v", err)
	}
	// The first payment that is captured and refunded, and the first one with a refusal.
	moved, refused := -1, -1
	for i, p := range plan {
		e := p.expected()
		if moved < 0 && len(e.contributions) == 2 {
			moved = i
		}
		if refused < 0 && len(e.refused) > 0 {
			refused = i
		}
	}
	id, account, other := paymentID(moved), plan[moved].account, paymentID(refused)
	for what, damage := range map[string]func(s *seen){
		"another answer":          func(s *seen) { s.answers["key-0-0"] = append(s.answers["key-0-0"], response{status: 202}) },
		"no answer":               func(s *seen) { delete(s.answers, "key-0-0") },
		"a key that is reused":    func(s *seen) { s.reused["key-0-0"] = []response{{status: 202}} },
		"a second payment":        func(s *seen) { s.payments++ },
		"a second step":           func(s *seen) { s.steps++ },
		"a fact twice":            func(s *seen) { s.facts[id] = append(s.facts[id], s.facts[id][0]) },
		"a fact of no request":    func(s *seen) { s.facts["other"] = []fact{{To: authorized, Version: 1}} },
		"a fact that is missing":  func(s *seen) { s.facts[id] = s.facts[id][:1] },
		"a refusal twice":         func(s *seen) { s.refused[other] = append(s.refused[other], s.refused[other][0]) },
		"a refusal of no request": func(s *seen) { s.refused[id] = append(s.refused[id], refusal{}) },
		"a contribution twice":    func(s *seen) { s.balances[account] = append(s.balances[account], s.balances[account][0]) },
		"another amount": func(s *seen) {
			last := &s.balances[account][len(s.balances[account])-1]
			last.Amounts = []int64{last.Amounts[0] + 1}
		},
		"another state":            func(s *seen) { s.states[id] = stateRow{cancelled, 3} },
		"a row that is missing":    func(s *seen) { delete(s.states, id) },
		"a row of no payment":      func(s *seen) { s.states["other"] = stateRow{authorized, 1} },
		"a refusal in no row":      func(s *seen) { clear(s.refusals) },
		"another balance in a row": func(s *seen) { s.totals[account] = totalRow{cents: 1} },
		"a record in quarantine":   func(s *seen) { s.quarantined++ },
		"a dead letter twice":      func(s *seen) { s.letters = append(s.letters, s.letters[0]) },
		"a dead letter of a step":  func(s *seen) { s.letters[0].Offset++ },
		"another payment is shown": func(s *seen) { s.shownPayments[id] = s.shownPayments[other] },
		"another balance is shown": func(s *seen) { s.shownAccounts[account] = accountView{Cents: -1} },
	} {
		s := sound(plan)
		damage(s)
		if s.judge(plan) == nil {
			t.Errorf("%s is not found", what)
		}
	}
}

func paymentID(number int) string { return fmt.Sprint("payment-", number) }

// sound is what is there when every request had its effect once.
func sound(plan []payment) *seen {
	poison := graph.DeadLetterOrigin{Topic: "steps", Partition: 1, Offset: 17}
	s := &seen{
		answers: map[string][]response{}, reused: map[string][]response{}, facts: map[string][]fact{}, refused: map[string][]refusal{},
		balances: map[string][]ledger.Balance{}, states: map[string]stateRow{}, refusals: map[string]refusalRow{}, totals: map[string]totalRow{},
		shownPayments: map[string]paymentView{}, shownAccounts: map[string]accountView{},
		letters: []graph.DeadLetterOrigin{poison}, poison: []graph.DeadLetterOrigin{poison},
	}
	for i, p := range plan {
		id, view := paymentID(i), paymentView{Payment: paymentID(i), Account: p.account, Cents: p.cents}
		for _, r := range p.requests {
			body, err := json.Marshal(accepted{id, "step-" + r.key})
			if err != nil {
				panic(err)
			}
			a := response{status: r.status, body: string(body)}
			s.answers[r.key] = []response{a, a}
			if r.status == http.StatusAccepted {
				s.steps++
			}
		}
		e := p.expected()
		if len(e.states) == 0 {
			continue
		}
		s.payments++
		for j, state := range e.states {
			s.facts[id] = append(s.facts[id], fact{ID: "step-" + e.keys[j], To: state, Version: int64(j + 1)})
			view.State, s.states[id] = state, stateRow{state, int64(j + 1)}
		}
		for _, r := range p.requests { // in the order of the steps' ids
			if state := e.refused[r.key]; state != "" {
				step := "step-" + r.key
				s.refused[id] = append(s.refused[id], refusal{Transition: transition.Transition[string]{ID: step, To: state}})
				s.refusals[step], view.Refused = refusalRow{id, state}, append(view.Refused, step)
			}
		}
		s.shownPayments[id] = view
		for j, cents := range e.contributions {
			total := s.totals[p.account]
			total = totalRow{total.cents + cents, total.version + 1}
			s.totals[p.account], s.shownAccounts[p.account] = total, accountView{p.account, total.cents}
			contribution := id + []string{"-captured", "-refunded"}[j]
			s.balances[p.account] = append(s.balances[p.account], ledger.Balance{Count: total.version, Amounts: []int64{total.cents}, Contribution: contribution})
		}
	}
	return s
}
