//go:build unix

package restore

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/failpoints"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/instance/program"
	"github.com/onceward/onceward/txn"
)

const partitions = 4

func TestMain(m *testing.M) {
	cluster.InParallel(3) // on real Kafka one waits for a transaction of somebody else, one for the broker's compaction
	instance.Main(m)
}

// scene is one application on one cluster, and what was fed to it.
type scene struct {
	*cluster.Cluster
	t *testing.T
	Settings
	producer *kgo.Client
	rounds   int // each key has had so many records
	keys     int
	lives    int // in this process
}

func newScene(t *testing.T, c *cluster.Cluster, keys int) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, keys: keys, producer: c.Client(t)}
	s.Settings = Settings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), In: c.Name(t, "in"), Out: c.Name(t, "out"),
		StateDir: filepath.Join(t.TempDir(), "state"),
	}
	c.CreateTopics(t, partitions, s.In, s.Out)
	return s
}

// feed writes a record of every key, so often.
func (s *scene) feed(rounds int) {
	s.t.Helper()
	for range rounds {
		s.rounds++
		records := make([]*kgo.Record, s.keys)
		for i := range records {
			records[i] = &kgo.Record{Topic: s.In, Key: fmt.Appendf(nil, "key-%06d", i), Value: []byte("v"), Timestamp: time.Now()}
		}
		if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// want is the output of the n-th record of a key.
func want(n int) string { return fmt.Sprintf("%d/%d", (n-1)%Cycle+1, n) }

// waiting is a life of the application, in this process or in one of its own.
type waiting interface {
	Await(what string, is func() bool)
}

// check waits until every input has its output, and compares them, key by key and in their order.
func (s *scene) check(p waiting) {
	s.t.Helper()
	p.Await("the outputs", func() bool {
		ends, err := s.EndOffsets(s.t.Context(), s.Out)
		if err != nil {
			s.t.Fatal(err)
		}
		var sum int64
		for _, end := range ends {
			sum += end // control records too, so it is read only when it can be complete
		}
		return sum >= int64(s.keys*s.rounds) && s.outputs() >= s.keys*s.rounds
	})
	if got := s.outputs(); got != s.keys*s.rounds {
		s.t.Errorf("%d outputs, want %d", got, s.keys*s.rounds)
	}
}

// outputs counts the committed outputs. Each has to be the successor of the one before it of its key.
func (s *scene) outputs() (n int) {
	s.t.Helper()
	had := map[string]int{}
	for _, r := range s.Records(s.t, s.Out) {
		key := string(r.Key)
		had[key]++
		n++
		if got := string(r.Value); got != want(had[key]) {
			s.t.Fatalf("output %d of %s is %s, want %s", had[key], key, got, want(had[key]))
		}
	}
	return n
}

// running counts the tasks that are.
func running(s txn.Status) (n int) {
	for _, task := range s.Tasks {
		if task.State == txn.TaskRunning {
			n++
		}
	}
	return n
}

// allRunning reports whether every task is.
func allRunning(s txn.Status) bool { return running(s) >= partitions }

// restored is how many records were restored in this life.
func restored(s txn.Status) (n int64) {
	for _, task := range s.Tasks {
		n += task.Restored
	}
	return n
}

// life is one in this process, on a host of its own.
type life struct {
	*instance.App
	host string
	log  *instance.Log
}

// start begins a life in this process.
func (s *scene) start() life {
	s.t.Helper()
	s.lives++
	l := life{host: fmt.Sprint("life-", s.lives)}
	l.log = instance.NewLog(s.t, l.host)
	top, err := s.Topology()
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := instance.On(s.Cluster, l.host, s.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(l.log, nil))
	l.App = instance.Start(s.t, top, cfg)
	return l
}

// kill ends a life on virtual time at once. The next one begins with what is on the disk now.
func (s *scene) kill(l life) {
	s.t.Helper()
	s.StateDir = l.Kill(s.Network().Host(l.host), s.StateDir)
}

// launch begins a life in a process of its own, with points armed.
func (s *scene) launch(arm string, change ...func(*exec.Cmd)) *instance.Process {
	s.t.Helper()
	path := instance.Build(s.t, "github.com/onceward/onceward/e2e/restore/app", "onceward_failpoints")
	cmd, err := measure.Command(context.Background(), path, program.Variable, s.Settings)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, failpoints.Variable+"="+arm)
	for _, f := range change {
		f(cmd)
	}
	return instance.Launch(s.t, cmd, instance.NewLog(s.t, "a process with "+arm))
}

// status asks the process, and returns nothing while it does not answer.
func (s *scene) status() txn.Status {
	status, err := txn.InstanceStatus(s.t.Context(), s.StateDir)
	if err != nil {
		return txn.Status{}
	}
	return status
}
