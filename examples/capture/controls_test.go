package capture

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestControls: an application without one of its parts captures twice here, so that what holds of
// the whole one is no accident.
func TestControls(t *testing.T) {
	type parts struct {
		Settings
		*topology.Builder
		gateway provider
	}
	for name, declare := range map[string]func(p parts){
		// It calls again although the outcome is unknown.
		"blind": func(p parts) {
			p.perform(p.Builder, byCapture(p.once(p.valid(p.Builder))), p.gateway, effect.Repeatable())
		},
		// It takes a provisional answer of the gateway, unknown or undecided, for a no.
		"hasty": func(p parts) {
			p.perform(p.Builder, byCapture(p.once(p.valid(p.Builder))), p.gateway,
				effect.Lookup(func(ctx context.Context, c effect.Call) (effect.Answer, error) {
					a, err := p.gateway.find(ctx, c)
					if err != nil || a.Status == effect.Unknown {
						a.Status = effect.FailedRetryable
					}
					return a, nil
				}))
		},
		// Whose copies do not come together: each partition has a ledger of its own.
		"apart": func(p parts) { p.perform(p.Builder, p.valid(p.Builder), p.gateway, effect.Lookup(p.gateway.find)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, cluster.Embedded(t))
			s.requests.more(300)
			s.feed(s.requests.all)
			b := topology.NewBuilder(name, topology.DeadLetters(s.settings.Prefix+TopicDead))
			declare(parts{s.settings, b, newProvider(s.settings.Gateway)})
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			a := instance.Start(t, top, txn.Config{
				Brokers: s.cluster.Brokers(), Application: s.application, StateDir: s.stateDir(name),
				Logger: slog.New(slog.NewTextHandler(instance.NewLog(t, name), nil)),
			})
			a.Until("the ends", func(txn.Status) bool { s.watch(); return len(s.ends) >= len(captures(s.requests.all)) })
			if err := a.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := read(t, s.cluster, s.settings.Prefix).judge(s.requests.all, s.gateway); err == nil ||
				!strings.Contains(err.Error(), "was captured 2 times") {
				t.Errorf("lost replies are %d, and the verdict is %v: the drill could not fail", s.gateway.Books().Lost, err)
			}
		})
	}
}

// TestDamage: whatever is wrong with what was told, counted or kept is found.
func TestDamage(t *testing.T) {
	q, g := newRequests(), NewGateway()
	q.more(2000)
	all := q.all
	for _, id := range captures(all) {
		g.captured[effect.IdempotencyKey(nodeCapture, id)] = 1
	}
	// sound is what an application without a fault tells, counts and keeps.
	type sound struct {
		live, replay         *seen
		metrics              counters
		liveRows, replayRows rows
	}
	answered := Books{Captured: 1990, Lost: 10, Found: 5, Pending: 7}
	verdict := func(s sound) []error {
		return []error{
			s.live.judge(all, g), s.replay.judgeReplay(all), s.metrics.difference(outcomesOf(all, answered, 5), len(all)),
			compareRows(all, s.liveRows, s.replayRows),
		}
	}
	build := func() sound {
		return sound{
			live: soundSeen(all, true), replay: soundSeen(all, false), metrics: counters{outcomesOf(all, answered, 5), len(all)},
			liveRows: soundRows(t, all, true), replayRows: soundRows(t, all, false),
		}
	}
	const (
		inLive = iota
		inReplay
		inMetrics
		inRows
	)
	if errs := verdict(build()); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatalf("nothing is wrong, and the verdict is %v", errs)
	}
	for _, damage := range []struct {
		what  string
		place int
		do    func(s *sound)
	}{
		{"a duplicate that is not counted", inMetrics, func(s *sound) { s.metrics.outcomes["duplicates"]-- }},
		{"a conflict that is not counted", inMetrics, func(s *sound) { s.metrics.outcomes["dead-letter-conflict"]-- }},
		{"a lookup that is counted twice", inMetrics, func(s *sound) { s.metrics.outcomes["unknown"]++ }},
		{"a request that is counted twice", inMetrics, func(s *sound) { s.metrics.records++ }},
		{"an outcome that nobody knows of", inMetrics, func(s *sound) { s.metrics.outcomes["late"]++ }},
		{"a second acceptance", inLive, func(s *sound) { s.live.decisions.add(isAccepted, "m0") }},
		{"a duplicate for an acceptance", inLive, func(s *sound) {
			s.live.decisions.of[isAccepted]["m0"]--
			s.live.decisions.add(isDuplicate, "m0")
		}},
		{"a decision about another capture", inLive, func(s *sound) {
			s.live.decisions.of[isRequested]["c0"]--
			s.live.decisions.add(isRequested, "c1")
		}},
		{"an end that is told twice", inLive, func(s *sound) { s.live.ends["c0"] = append(s.live.ends["c0"], effect.Completed) }},
		{"another end", inLive, func(s *sound) { s.live.ends["c0"] = []effect.Status{effect.FailedTerminal} }},
		{"an end that is not told", inLive, func(s *sound) { delete(s.live.ends, "c0") }},
		{"a question without a decision", inLive, func(s *sound) { s.live.asked = append(s.live.asked, question{}) }},
		{"a conflict that is no dead letter", inLive, func(s *sound) { s.live.dead[topology.Conflict]-- }},
		{"a request in the replay", inReplay, func(s *sound) { s.replay.decisions.add(isRequested, "c0") }},
		{"an end in the replay", inReplay, func(s *sound) { s.replay.ends["c0"] = []effect.Status{effect.Completed} }},
		{"a message that the replay does not know", inRows, func(s *sound) { delete(s.replayRows.messages, "m0") }},
		{"a capture that the replay does not know", inRows, func(s *sound) { delete(s.replayRows.captures, "c0") }},
		{"a message that nobody sent", inRows, func(s *sound) { s.replayRows.messages["other"] = inbox.Entry{} }},
		{"another time of a message", inRows, func(s *sound) { change(s.replayRows.messages, "m0", func(e *inbox.Entry) { e.FirstSeen++ }) }},
		{"another content of a message", inRows, func(s *sound) { change(s.replayRows.messages, "m0", func(e *inbox.Entry) { e.Payload[0]++ }) }},
		{"another payload of a capture", inRows, func(s *sound) {
			change(s.replayRows.captures, "c0", func(e *effect.Effect) { e.Payload = []byte(`{"id":"c0","amount":7}`) })
		}},
		{"another hash of a capture", inRows, func(s *sound) {
			change(s.replayRows.captures, "c0", func(e *effect.Effect) { e.Request = "other" })
		}},
		{"another idempotency key", inRows, func(s *sound) {
			change(s.replayRows.captures, "c0", func(e *effect.Effect) { e.IdempotencyKey = "other" })
		}},
		{"a header that is missing", inRows, func(s *sound) {
			change(s.replayRows.captures, "c0", func(e *effect.Effect) { e.Headers = e.Headers[1:] })
		}},
		{"a call in the replay", inRows, func(s *sound) { change(s.replayRows.captures, "c0", func(e *effect.Effect) { e.Attempts = 1 }) }},
		{"a live capture without an end", inRows, func(s *sound) {
			change(s.liveRows.captures, "c0", func(e *effect.Effect) { e.Status = effect.Unknown })
		}},
	} {
		s := build()
		damage.do(&s)
		for place, err := range verdict(s) {
			if (err != nil) != (place == damage.place) {
				t.Errorf("%s: the verdict of %d is %v", damage.what, place, err)
			}
		}
	}
	g.captured[effect.IdempotencyKey(nodeCapture, "c0")]++
	if err := soundSeen(all, true).judge(all, g); err == nil {
		t.Error("a second capture is not found")
	}
}

// soundSeen is what an application without a fault tells of requests of which every capture is
// made.
func soundSeen(all []request, live bool) *seen {
	s, end := newSeen(""), effect.Completed
	if !live {
		end = effect.Suppressed
	}
	s.decisions, s.dead = decisionsOf(all, live), lettersOf(all)
	for _, id := range captures(all) {
		s.ends[id] = []effect.Status{end}
		s.decisions.add(isEnd+end.String(), id)
	}
	return s
}

// soundRows are the rows of such an application, in which the first message has always come first.
func soundRows(t *testing.T, all []request, live bool) rows {
	t.Helper()
	found := rows{map[string]inbox.Entry{}, map[string]effect.Effect{}}
	for _, r := range all {
		if r.becomes != requested && r.becomes != repeated && r.becomes != disputed {
			continue
		}
		e, c, err := rowsOf(r)
		if err != nil {
			t.Fatal(err)
		}
		found.messages[r.message] = e
		if r.becomes != requested {
			continue
		}
		c.Request, c.Status, c.Attempts = "hash of "+r.capture, effect.Completed, 1
		if !live {
			c.Status, c.Attempts = effect.Suppressed, 0
			c.Headers = append(c.Headers, topology.Header{Key: topology.HeaderMode, Value: []byte("REPLAY")})
		}
		found.captures[r.capture] = c
	}
	return found
}

func change[V any](rows map[string]V, key string, by func(*V)) {
	row := rows[key]
	by(&row)
	rows[key] = row
}
