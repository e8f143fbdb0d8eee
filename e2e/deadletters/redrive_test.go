//go:build unix

package deadletters

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// TestG5RedriveKilled: the command is killed again and again while it redrives, and done again until nothing is left. Every
// record is in its topic once more, and no more. A part of them was sent again by their producer meanwhile, and had their effect:
// they have no second one.
func TestG5RedriveKilled(t *testing.T) {
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		const accounts, payments, kills = 4, 100, 8
		s := newScene(t, c, topology.DeadLetter)
		s.closeAccounts()
		app := s.start()
		for i := range accounts {
			s.send(fmt.Sprint("closed-", i), numbers(0, payments)...)
		}
		s.send("open", numbers(0, payments)...)
		app.Until("the dead letters", func(now txn.Status) bool { return now.Totals.DeadLetters == accounts*payments })
		s.openAccounts()
		s.send("closed-0", numbers(0, payments/2)...) // the producer's own remedy
		want := map[string]int64{"open": payments, "closed-0": payments / 2}
		s.until(app, want, true)

		redrive := instance.Build(t, "github.com/onceward/onceward/cmd/onceward", "")
		before := len(s.Records(t, s.In))
		for i := range kills {
			s.kill(redrive, 930*time.Millisecond+time.Duration(i)*20*time.Millisecond)
		}
		redriven := len(s.Records(t, s.In)) - before
		if redriven < 1 || redriven >= accounts*payments {
			t.Errorf("%d kills have left %d records redriven of %d: nothing is shown", kills, redriven, accounts*payments)
		}
		t.Logf("%d kills left %d of %d records redriven", kills, redriven, accounts*payments)
		if err := instance.Launch(t, s.command(redrive), instance.NewLog(t, "the last redrive")).Wait(); err != nil {
			t.Fatalf("the last redrive ended with %v", err)
		}
		if n := len(s.Records(t, s.In)) - before; n != accounts*payments {
			t.Errorf("%d records are redriven, want %d", n, accounts*payments)
		}
		for i := range accounts {
			want[fmt.Sprint("closed-", i)] = payments
		}
		app.Until("everything that was redriven", func(now txn.Status) bool {
			return now.Totals.Records == int64(before+accounts*payments)
		})
		s.want(want, true)
		s.wantMarks(accounts * payments)
		if err := app.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// command is the redrive of everything.
func (s *scene) command(program string, more ...string) *exec.Cmd {
	brokers := strings.Join(s.Settings.Brokers, ",")
	args := []string{"deadletters", "redrive", "--all", "--topic", s.Dead, "--brokers", brokers}
	return exec.Command(program, append(args, more...)...)
}

// kill starts the command, and kills it a while after one of its transactions was committed.
func (s *scene) kill(program string, later time.Duration) {
	s.t.Helper()
	already := len(s.Records(s.t, s.In))
	p := instance.Launch(s.t, s.command(program, "--rate", "20"), instance.NewLog(s.t, "a redrive that is killed"))
	p.Await("a batch that is redriven", func() bool { return len(s.Records(s.t, s.In)) > already })
	time.Sleep(later) // the rate lets the next batch begin after a second: another moment of it each time
	p.Tell(syscall.SIGKILL)
	p.Killed()
}

// wantMarks: every letter is redriven, by the word of the topic.
func (s *scene) wantMarks(n int64) {
	s.t.Helper()
	client, err := admin.Connect(s.t.Context(), s.Settings.Brokers...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	counts, err := client.DeadLetters(s.Dead).Each(s.t.Context(), admin.LetterFilter{}, func(l admin.DeadLetter) error {
		return fmt.Errorf("letter %s is not redriven", l.ID)
	})
	if err != nil || counts.Letters != n || counts.Redriven != n {
		s.t.Errorf("%+v, %v", counts, err)
	}
}
