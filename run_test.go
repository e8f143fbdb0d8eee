package onceward_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestRunReturnsTheExitCodeOfWhatIsWrong: a mistake in the topology or in the settings, which a
// restart does not mend, and brokers that do not answer, which may be back later.
func TestRunReturnsTheExitCodeOfWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	noTopology := func() (*topology.Topology, error) { return topology.NewBuilder("").Build() }
	for _, c := range []struct {
		name   string
		build  func() (*topology.Topology, error)
		config txn.Config
		want   int
	}{
		{"topology", noTopology, txn.Config{}, onceward.ExitUsage},
		{"settings", pipeline, txn.Config{StateDir: dir}, onceward.ExitUsage},
		{"build", func() (*topology.Topology, error) { return nil, errors.New("no model") }, txn.Config{}, onceward.ExitFailed},
		{"brokers", pipeline, txn.Config{Brokers: []string{"127.0.0.1:1"}, StateDir: dir, ConnectTimeout: time.Millisecond}, onceward.ExitFailed},
	} {
		c.config.Logger = slog.New(slog.DiscardHandler)
		if code := onceward.Run(c.build, c.config); code != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.want)
		}
	}
}

// TestRunEndsInOrderWithASignal runs until an interrupt that the process sends to itself once the
// instance runs.
func TestRunEndsInOrderWithASignal(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "balances", "payments-dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	go func() {
		_, _ = read.Read(make([]byte, 1)) // the first line of the log
		_ = self.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, read)
	}()
	code := onceward.Run(pipeline, txn.Config{
		Brokers: broker.ListenAddrs(), StateDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(write, nil)),
	})
	write.Close()
	if code != onceward.ExitDone {
		t.Errorf("exit code %d, want %d", code, onceward.ExitDone)
	}
}
