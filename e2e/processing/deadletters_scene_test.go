//go:build unix

package processing

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// letterScene is the application on one cluster, and what was fed to it.
type letterScene struct {
	*cluster.Cluster
	t *testing.T
	letterSettings
	producer *kgo.Client
	tries    atomic.Int64
}

func newLetterScene(t *testing.T, c *cluster.Cluster, action topology.Action) *letterScene {
	t.Helper()
	dir := t.TempDir()
	s := &letterScene{Cluster: c, t: t, producer: c.Client(t)}
	s.letterSettings = letterSettings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), Instance: "one", StateDir: filepath.Join(dir, "state"),
		In: c.Name(t, "in"), Out: c.Name(t, "out"), Dead: c.Name(t, "dead"),
		ClosedFile: filepath.Join(dir, "closed"), Action: action,
		tried: func() { s.tries.Add(1) },
	}
	c.CreateTopics(t, paymentPartitions, s.In, s.Out, s.Dead)
	return s
}

// start begins a life in this process.
func (s *letterScene) start() *instance.App {
	s.t.Helper()
	top, err := s.Topology()
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := instance.On(s.Cluster, "here", s.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(instance.NewLog(s.t, "the application"),
		&slog.HandlerOptions{Level: slog.LevelError}))
	return instance.Start(s.t, top, cfg)
}

// startVictim begins a life that can be killed.
func (s *letterScene) startVictim(name string) instance.Victim {
	s.t.Helper()
	return instance.StartVictim(s.t, s.Cluster, lettersProgram, name, s.letterSettings, "", instance.NewLog(s.t, name))
}

// closeAccounts and openAccounts change the world.
func (s *letterScene) closeAccounts() {
	s.t.Helper()
	if err := os.WriteFile(s.ClosedFile, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *letterScene) openAccounts() {
	s.t.Helper()
	if err := os.Remove(s.ClosedFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
}

// send writes payments: one to the account for each of the ids.
func (s *letterScene) send(account string, ids ...int) {
	s.t.Helper()
	records := make([]*kgo.Record, len(ids))
	for i, id := range ids {
		records[i] = &kgo.Record{Topic: s.In, Key: []byte(account), Value: fmt.Appendf(nil, "%s-%d 1", account, id)}
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// sums returns how far each account has come. It fails the test unless each sum is one more than
// the one before it, and if ordered unless the payments come in the order of their ids.
func (s *letterScene) sums(ordered bool) map[string]int64 {
	s.t.Helper()
	sums := map[string]int64{}
	for _, r := range s.Records(s.t, s.Out) {
		id, text, _ := strings.Cut(string(r.Value), " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n != sums[string(r.Key)]+1 {
			s.t.Fatalf("account %s: %s follows %d", r.Key, text, sums[string(r.Key)])
		}
		sums[string(r.Key)] = n
		if want := fmt.Sprintf("%s-%d", r.Key, n-1); ordered && id != want {
			s.t.Fatalf("account %s: payment %s where %s was to come", r.Key, id, want)
		}
	}
	return sums
}

// reached reports whether the accounts have come as far as they are to.
func (s *letterScene) reached(want map[string]int64) bool {
	s.t.Helper()
	// Control records count too, so that the topic is read only when it can be complete.
	ends, err := s.EndOffsets(s.t.Context(), s.Out)
	if err != nil {
		s.t.Fatal(err)
	}
	var total, written int64
	for _, end := range ends {
		written += end
	}
	for _, n := range want {
		total += n
	}
	return written >= total && int64(len(s.Records(s.t, s.Out))) >= total
}

// want fails the test unless the accounts are exactly there.
func (s *letterScene) want(want map[string]int64, ordered bool) {
	s.t.Helper()
	sums := s.sums(ordered)
	for account, n := range sums {
		if want[account] != n {
			s.t.Errorf("account %s has %d, want %d", account, n, want[account])
		}
	}
	if len(sums) != len(want) {
		s.t.Errorf("%d accounts have payments, want %d", len(sums), len(want))
	}
}

// until waits until an application in this process has brought the accounts there.
func (s *letterScene) until(app *instance.App, want map[string]int64, ordered bool) {
	s.t.Helper()
	app.Until("all payments", func(txn.Status) bool { return s.reached(want) })
	s.want(want, ordered)
}

// numbers returns the numbers from one on, up to another.
func numbers(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}
