//go:build unix

package processing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestKilledWhileKeysAreParked: an application is killed again and again while accounts are closed,
// held, opened and released. The payments of an account are summed in their order. Requirement G6.
func TestKilledWhileKeysAreParked(t *testing.T) { killedAgainAndAgain(t, topology.Park) }

// TestKilledWhileRecordsAreDelayed: the same with payments that go through delayed retry topics,
// which lose their order and nothing else. Requirement G1.
func TestKilledWhileRecordsAreDelayed(t *testing.T) { killedAgainAndAgain(t, topology.Delay) }

func killedAgainAndAgain(t *testing.T, action topology.Action) {
	t.Helper()
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		const lives, payments = 7, 40 // the last one that is killed leaves something to release
		s := newLetterScene(t, c, action)
		want := map[string]int64{}
		for life := range lives {
			if life%2 == 0 {
				s.closeAccounts()
			} else {
				s.openAccounts()
			}
			p := s.startVictim(fmt.Sprint("life-", life))
			open := map[string]int64{}
			for i := range 6 {
				account := fmt.Sprint([]string{"closed-", "open-"}[i%2], i)
				s.send(account, numbers(life*payments, (life+1)*payments)...)
				want[account] += payments
				if strings.HasPrefix(account, "open") {
					open[account] = want[account]
				}
			}
			// Open accounts go on while others are closed. Then the life is killed while it holds,
			// tries or releases payments.
			p.Await("the open accounts", func() bool {
				sums := s.sums(action == topology.Park)
				for account, n := range open {
					if sums[account] < n {
						return false
					}
				}
				return true
			})
			polls := 0
			p.Await("another moment each time", func() bool { polls++; return polls > life })
			p.Kill()
			s.StateDir = p.Killed()
		}
		s.openAccounts()
		p := s.startVictim("the-last-life")
		p.Await("all payments", func() bool { return s.reached(want) })
		s.want(want, action == topology.Park)
		p.End()
		s.want(want, action == topology.Park)
	})
}

// envFigures asks for a measurement, as in package e2e/figures.
const envFigures = "ONCEWARD_FIGURES"

// TestParkedKeyDoesNotSlowOthers: while a key with 100,000 records waits, and is tried again and
// again, the other keys go on, and it is not tried more often because of them. How long they take
// beside it and without it, in turns, is told and not judged: that is for a machine that does
// nothing else. Requirement G6.
func TestParkedKeyDoesNotSlowOthers(t *testing.T) {
	t.Parallel()
	const accounts = 50
	waiting, load, rounds := 100_000, 50_000, 1
	switch {
	case os.Getenv(envFigures) != "":
		load, rounds = 300_000, 5
	case virtual.RaceDetector:
		waiting, load = 4000, 3000
	case testing.Short():
		waiting, load = 10_000, 5000
	}
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newLetterScene(t, c, topology.Park)
		app := s.start()
		want := map[string]int64{}
		open := func(name string) span {
			for i := range accounts {
				want[fmt.Sprintf("%s-%d", name, i)] = int64(load / accounts)
			}
			return s.timed(app, name, load, accounts)
		}
		open("warm")
		var times, work []float64
		for round := range rounds {
			alone := open(fmt.Sprint("alone", round))
			s.closeAccounts()
			closed := fmt.Sprint("closed", round)
			want[closed+"-0"] = int64(waiting)
			held := s.timed(app, closed, waiting, 1)
			before := s.tries.Load()
			beside := open(fmt.Sprint("beside", round))
			tries := s.tries.Load() - before
			if tries == 0 {
				t.Error("the key was not tried meanwhile: nothing is shown")
			}
			// Twice, because a round that is played again tries again.
			if most := 2*int64(beside.wall/letterPause) + 10; tries > most {
				t.Errorf("the key was tried %d times in %s, want %d at most", tries, beside.wall, most)
			}
			s.openAccounts()
			began := time.Now()
			app.Until("all payments", func(txn.Status) bool { return s.reached(want) })
			t.Logf("%d records of other keys: %s alone, %s beside %d that wait; these were taken in in %s and released in %s", load,
				alone, beside, waiting, held, time.Since(began))
			times = append(times, beside.wall.Seconds()/alone.wall.Seconds())
			work = append(work, beside.cpu.Seconds()/alone.cpu.Seconds())
		}
		t.Logf("beside a key that waits, other keys take %s of their time and %s of their processor time",
			measure.SpreadOf(times).Text(2), measure.SpreadOf(work).Text(2))
		s.want(want, false)
		if err := app.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// span is how long something took, and the processor time of this process meanwhile, which writes
// the payments and runs the application.
type span struct{ wall, cpu time.Duration }

func (s span) String() string { return fmt.Sprintf("%s (%s of processor time)", s.wall, s.cpu) }

// timed returns how long it takes to write so many payments to so many accounts and to commit them
// all.
func (s *letterScene) timed(app *instance.App, name string, payments, accounts int) span {
	s.t.Helper()
	records := app.Status().Totals.Records
	cpu, began := s.cpu(), time.Now()
	for i := range payments {
		s.producer.Produce(s.t.Context(), &kgo.Record{
			Topic: s.In, Key: fmt.Appendf(nil, "%s-%d", name, i%accounts), Value: fmt.Appendf(nil, "%s-%d 1", name, i),
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	if err := s.producer.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	app.Until("the payments of "+name, func(now txn.Status) bool { return now.Totals.Records >= records+int64(payments) })
	return span{time.Since(began), s.cpu() - cpu}
}

func (s *letterScene) cpu() time.Duration {
	s.t.Helper()
	used, err := measure.SelfCPU()
	if err != nil {
		s.t.Fatal(err)
	}
	return used
}
