//go:build unix

package deadletters

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		const accounts, payments, kills = 4, 100, 8
		// A kill leaves two batches, and more where the machine is slow. They end before all is redriven: the last redrive has to find some.
		const most = accounts*payments - 3*redriveRate
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
		inputs := s.follow(before)
		killed, redriven := 0, 0
		for ; killed < kills && redriven < most; killed++ {
			s.kill(redrive, inputs, 930*time.Millisecond+time.Duration(killed)*20*time.Millisecond)
			redriven = inputs.count() - before
		}
		if killed < 2 || redriven < 1 || redriven >= accounts*payments {
			t.Errorf("%d kills have left %d records redriven of %d: nothing is shown", killed, redriven, accounts*payments)
		}
		t.Logf("%d kills left %d of %d records redriven", killed, redriven, accounts*payments)
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

// redriveRate is how many letters a second a redrive that is killed moves, and the size of its batches.
const redriveRate = 20

// command is the redrive of everything.
func (s *scene) command(program string, more ...string) *exec.Cmd {
	brokers := strings.Join(s.Settings.Brokers, ",")
	args := []string{"deadletters", "redrive", "--all", "--topic", s.Dead, "--brokers", brokers}
	return exec.Command(program, append(args, more...)...)
}

// kill starts the command, and kills it a while after one of its transactions was committed.
func (s *scene) kill(program string, inputs *inputs, later time.Duration) {
	s.t.Helper()
	already := inputs.count()
	p := instance.Launch(s.t, s.command(program, "--rate", fmt.Sprint(redriveRate)), instance.NewLog(s.t, "a redrive that is killed"))
	p.Await("a batch that is redriven", func() bool { return inputs.poll() && inputs.seen > already })
	time.Sleep(later) // the rate lets the next batch begin after a second: another moment of it each time
	p.Tell(syscall.SIGKILL)
	p.Killed()
}

// inputs counts the records of the input that are committed. Unlike Records it does not wait for the end of a transaction that a killed
// redrive has left open, half a minute later: the next redrive ends it.
type inputs struct {
	client *kgo.Client
	seen   int
}

// follow returns when it has seen the records that are there.
func (s *scene) follow(there int) *inputs {
	s.t.Helper()
	i := &inputs{client: s.Client(s.t, kgo.ConsumeTopics(s.In), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))}
	for s.t.Context().Err() == nil && i.seen < there {
		i.poll()
	}
	return i
}

// poll waits a moment for more, and reports whether any came.
func (i *inputs) poll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	n := i.client.PollFetches(ctx).NumRecords()
	i.seen += n
	return n > 0
}

// count reads on until nothing comes for a moment. On a slow machine it can be behind, which only moves the moment of a kill.
func (i *inputs) count() int {
	for i.poll() {
	}
	return i.seen
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
