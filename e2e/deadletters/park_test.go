//go:build unix

package deadletters

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestG6Killed: an application is killed again and again while accounts are closed, held, opened and released. The payments of an
// account are summed in their order.
func TestG6Killed(t *testing.T) { killed(t, topology.Park) }

// TestG1DelayedKilled: the same with payments that go through delayed retry topics, which gives their order up and nothing else.
func TestG1DelayedKilled(t *testing.T) { killed(t, topology.Delay) }

func killed(t *testing.T, action topology.Action) {
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		const lives, payments = 7, 40 // the last one that is killed leaves something to release
		s := newScene(t, c, action)
		want := map[string]int64{}
		for life := range lives {
			if life%2 == 0 {
				s.closeAccounts()
			} else {
				s.openAccounts()
			}
			p := s.launch(fmt.Sprint("life ", life))
			open := map[string]int64{}
			for i := range 6 {
				account := fmt.Sprint([]string{"closed-", "open-"}[i%2], i)
				s.send(account, numbers(life*payments, (life+1)*payments)...)
				want[account] += payments
				if strings.HasPrefix(account, "open") {
					open[account] = want[account]
				}
			}
			// What is open goes on whatever is closed. Then it dies at some moment of what it does about those that wait.
			p.Await("the open accounts", func() bool {
				sums := s.sums(action == topology.Park)
				for account, n := range open {
					if sums[account] < n {
						return false
					}
				}
				return true
			})
			time.Sleep(time.Duration(life) * 17 * time.Millisecond) // another moment each time
			p.Tell(syscall.SIGKILL)
			p.Killed()
		}
		s.openAccounts()
		p := s.launch("the last life")
		p.Await("all payments", func() bool { return s.reached(want) })
		s.want(want, action == topology.Park)
		p.Stop()
		s.want(want, action == topology.Park)
	})
}

// TestG6FullSpeed: while a key with 100,000 records waits, and is tried again and again, the other keys are as fast as without
// it.
func TestG6FullSpeed(t *testing.T) {
	const waiting, load, accounts = 100_000, 100_000, 50
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newScene(t, c, topology.Park)
		app := s.start()
		s.timed(app, "warm", load, accounts)
		alone := s.timed(app, "alone", load, accounts)
		s.closeAccounts()
		held := s.timed(app, "closed", waiting, 1)
		before := s.tries.Load()
		beside := s.timed(app, "beside", load, accounts)
		if s.tries.Load() == before {
			t.Error("the key was not tried meanwhile: nothing is shown")
		}
		if beside > 2*alone+2*time.Second { // generous: machines are busy with something else at times
			t.Errorf("%d records took %s beside a key that waits, and %s without it", load, beside, alone)
		}
		s.openAccounts()
		began := time.Now()
		want := map[string]int64{"closed-0": waiting}
		for _, name := range []string{"warm", "alone", "beside"} {
			for i := range accounts {
				want[fmt.Sprintf("%s-%d", name, i)] = load / accounts
			}
		}
		app.Until("all payments", func(txn.Status) bool { return s.reached(want) })
		t.Logf("%d records of other keys: %s alone, %s beside %d that wait; these were taken in in %s and released in %s", load,
			alone, beside, waiting, held, time.Since(began))
		s.want(want, false)
		if err := app.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// timed returns how long it takes to write so many payments to so many accounts and to commit them all.
func (s *scene) timed(app *instance.App, name string, payments, accounts int) time.Duration {
	s.t.Helper()
	before := app.Status().Totals.Records
	began := time.Now()
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
	app.Until("the payments of "+name, func(now txn.Status) bool { return now.Totals.Records >= before+int64(payments) })
	return time.Since(began)
}
