package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/envelope"
)

var (
	kills = flag.Int("kills", 4, "how often processes of each role are killed")
	seed  = flag.Uint64("seed", 1, "the payments, and the order of the kills, follow from it")
)

// perFault is how many payments are given to the clients before something fails.
const perFault = 10

// rolePostgres is the database server where something fails.
const rolePostgres = "postgres"

// TestDrill: clients retry and double their requests. Meanwhile processes of each role and the
// database server are killed and started again. In the end each request has one effect in the
// ledger and in the read model, and one answer. It is requirement M4.
func TestDrill(t *testing.T) {
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		began := time.Now()
		var faults []string
		for _, role := range roles {
			for range *kills {
				faults = append(faults, role)
			}
		}
		for range (*kills + 1) / 2 {
			faults = append(faults, rolePostgres)
		}
		random := rand.New(rand.NewPCG(*seed, 0))
		random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })

		plan := planOf(*seed, perFault*len(faults))
		s := newScene(t, c, nil)
		for i, fault := range faults {
			target := s.progress(fault) + random.Int64N(perFault/2)
			s.give(plan[i*perFault : (i+1)*perFault])
			s.await(fmt.Sprintf("progress to %d before %s fails", target, fault), func() bool { return s.progress(fault) >= target })
			if fault == rolePostgres {
				s.outage()
			} else {
				s.kill(member{fault, random.IntN(instances)})
			}
		}
		s.finish(plan)
		s.askAgain(plan)
		all := s.settle(100)
		if err := all.judge(plan); err != nil {
			t.Error(err)
		}
		s.shown(all, map[string]int64{
			"connections that were lost": s.clients.lost.Load(), "answers of 503": s.clients.unavailable.Load(),
			"requests in progress": s.clients.inProgress.Load(), "replayed answers": s.clients.replayed.Load(),
		})
		t.Logf("%d payments under %d faults in %s: %v", len(plan), len(faults), time.Since(began).Round(time.Second), faults)
	})
}

// give gives payments to the clients.
func (s *scene) give(plan []payment) {
	for _, p := range plan {
		s.clients.work <- p
	}
}

// progress counts what has happened where a role is at work.
func (s *scene) progress(role string) int64 {
	s.t.Helper()
	switch role {
	case roleRelay:
		return s.db.Int(s.t, "SELECT count(*) FROM onceward.outbox WHERE status = 'PUBLISHED'")
	case roleTopology, roleSink:
		return s.db.Int(s.t, `SELECT (SELECT coalesce(sum(version), 0) FROM payment_states)::bigint + (SELECT count(*) FROM refusals)
			+ (SELECT coalesce(sum(version), 0) FROM balances)::bigint`)
	default:
		return s.clients.answered.Load()
	}
}

// finish waits until the clients have an answer to each request.
func (s *scene) finish(plan []payment) {
	s.t.Helper()
	s.await("every request is answered", func() bool { return s.clients.done.Load() == int64(len(plan)) })
}

// askAgain sends every third request once more, long after its answer.
func (s *scene) askAgain(plan []payment) {
	s.t.Helper()
	random, n := rand.New(rand.NewPCG(2, 0)), 0
	for _, p := range plan {
		var created accepted
		if first := s.clients.answers[p.requests[0].key][0]; first.status == http.StatusAccepted {
			if err := json.Unmarshal([]byte(first.body), &created); err != nil {
				s.t.Fatal(err)
			}
		}
		for _, r := range p.requests {
			if n++; n%3 == 0 {
				r.hasty, r.doubled, r.again, r.reused = false, false, false, false
				s.clients.request(s.t.Context(), random, created.Payment, r)
			}
		}
	}
}

// shown fails the test if something that the drill is about did not happen.
func (s *scene) shown(all *seen, counts map[string]int64) {
	s.t.Helper()
	ids := map[string]int{}
	for _, r := range s.cluster.Records(s.t, s.topics.steps.Name()) {
		for _, h := range r.Headers {
			if h.Key == envelope.HeaderEventID {
				ids[string(h.Value)]++
			}
		}
	}
	for _, n := range ids {
		if n > 1 {
			counts["steps that were published again"]++
		}
	}
	counts["refusals"], counts["keys used for another request"] = int64(len(all.refusals)), int64(len(all.reused))
	for what, n := range counts {
		if n == 0 {
			s.t.Errorf("there were no %s: nothing is shown of them", what)
		}
	}
	s.t.Log(counts)
}
