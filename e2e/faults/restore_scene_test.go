//go:build unix

package faults

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/txn"
)

const restorePartitions = 4

// restoreScene is one application on one cluster, and what was fed to it.
type restoreScene struct {
	*cluster.Cluster
	t *testing.T
	restoreSettings
	producer *kgo.Client
	rounds   int // each key has had so many records
	keys     int
	lives    int // in this process
}

func newRestoreScene(t *testing.T, c *cluster.Cluster, keys int) *restoreScene {
	t.Helper()
	s := &restoreScene{Cluster: c, t: t, keys: keys, producer: c.Client(t)}
	s.restoreSettings = restoreSettings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), In: c.Name(t, "in"), Out: c.Name(t, "out"),
		StateDir: filepath.Join(t.TempDir(), "state"),
	}
	c.CreateTopics(t, restorePartitions, s.In, s.Out)
	return s
}

// feed writes a record of every key, so often.
func (s *restoreScene) feed(rounds int) {
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

// cycleOutput is the output of the n-th record of a key.
func cycleOutput(n int) string { return fmt.Sprintf("%d/%d", (n-1)%cycleLength+1, n) }

// awaiting is a life of the application, in this process or in one of its own.
type awaiting interface {
	Await(what string, is func() bool)
}

// check waits until every input has its output, and compares them, key by key and in their order.
func (s *restoreScene) check(p awaiting) {
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

// outputs counts the committed outputs. Each has to be the successor of the one before it of its
// key.
func (s *restoreScene) outputs() (n int) {
	s.t.Helper()
	had := map[string]int{}
	for _, r := range s.Records(s.t, s.Out) {
		key := string(r.Key)
		had[key]++
		n++
		if got := string(r.Value); got != cycleOutput(had[key]) {
			s.t.Fatalf("output %d of %s is %s, want %s", had[key], key, got, cycleOutput(had[key]))
		}
	}
	return n
}

// runningTasks counts the tasks that run.
func runningTasks(s txn.Status) (n int) {
	for _, task := range s.Tasks {
		if task.State == txn.TaskRunning {
			n++
		}
	}
	return n
}

// allRunning reports whether every task runs.
func allRunning(s txn.Status) bool { return runningTasks(s) >= restorePartitions }

// restored is how many records were restored in this life.
func restored(s txn.Status) (n int64) {
	for _, task := range s.Tasks {
		n += task.Restored
	}
	return n
}

// start begins a life in this process.
func (s *restoreScene) start() *instance.App {
	s.t.Helper()
	s.lives++
	name := fmt.Sprint("life-", s.lives)
	return instance.StartOn(s.t, s.Cluster, name, s.restoreSettings, "", instance.NewLog(s.t, name))
}

// launch begins a life in a process of its own, with points armed.
func (s *restoreScene) launch(arm string, change ...func(*exec.Cmd)) *instance.Process {
	s.t.Helper()
	cmd := instance.Command(s.t, restoreProgram, s.restoreSettings, arm)
	for _, f := range change {
		f(cmd)
	}
	return instance.Launch(s.t, cmd, instance.NewLog(s.t, "a process with "+arm))
}

// status asks the process, and returns nothing while it does not answer.
func (s *restoreScene) status() txn.Status {
	ctx, cancel := context.WithTimeout(s.t.Context(), instance.Patience)
	defer cancel()
	status, err := txn.InstanceStatus(ctx, s.StateDir)
	if err != nil {
		return txn.Status{}
	}
	return status
}
