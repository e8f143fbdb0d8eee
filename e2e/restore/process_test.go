//go:build unix

package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

const (
	partitions = 4
	// patience is for everything that has to come, on a busy machine.
	patience = 90 * time.Second
)

// builds holds the application with failpoints, once somebody has asked for it.
var built struct {
	dir  string // made and removed by TestMain
	once sync.Once
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onceward-restore-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // nobody runs it too: see TestReadOnly
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	code := cluster.Run(m)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(built.dir, "app")
	built.once.Do(func() {
		cmd := exec.Command("go", "build", "-tags", "onceward_failpoints", "-o", path, "./app") // outlives the test that asks first
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building the application: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}

// scene is one application on one cluster, and what was fed to it.
type scene struct {
	*cluster.Cluster
	t *testing.T
	Settings
	producer *kgo.Client
	rounds   int // each key has had so many records
	keys     int
}

func newScene(t *testing.T, c *cluster.Cluster, keys int) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, keys: keys, producer: c.Client(t)}
	s.Settings = Settings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), In: c.Name(t, "in"), Out: c.Name(t, "out"),
		StateDir: filepath.Join(t.TempDir(), "state"),
	}
	for _, topic := range []string{s.In, s.Out} {
		if err := c.CreateTopic(t.Context(), topic, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
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

// check waits until every input has its output, and compares them, key by key and in their order.
func (s *scene) check(p *process) {
	s.t.Helper()
	s.await(p, "the outputs", func() bool {
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
	parts, err := s.ReadAll(s.t.Context(), s.Out)
	if err != nil {
		s.t.Fatal(err)
	}
	had := map[string]int{}
	for _, part := range parts {
		for _, r := range part {
			key := string(r.Key)
			had[key]++
			n++
			if got := string(r.Value); got != want(had[key]) {
				s.t.Fatalf("output %d of %s is %s, want %s", had[key], key, got, want(had[key]))
			}
		}
	}
	return n
}

// await waits for something that the process has to come to.
func (s *scene) await(p *process, what string, is func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if p.gone() {
			s.t.Fatalf("the process ended before %s: %v\n%s", what, p.err, p.log)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s did not come in %s\n%s", what, patience, p.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// status asks the process, and returns nothing while it does not answer.
func (s *scene) status() txn.Status {
	status, err := txn.InstanceStatus(s.t.Context(), s.StateDir)
	if err != nil {
		return txn.Status{}
	}
	return status
}

// running reports whether n tasks are.
func (s *scene) running(n int) func() bool {
	return func() bool {
		for _, task := range s.status().Tasks {
			if task.State == txn.TaskRunning {
				n--
			}
		}
		return n <= 0
	}
}

// restored is how many records were restored in this life.
func (s *scene) restored() (n int64) {
	for _, task := range s.status().Tasks {
		n += task.Restored
	}
	return n
}

// process is a life of the application.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	err    error // valid once exited is closed
}

// logBuffer keeps what a life has logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// lines returns the lines that contain all of the words.
func (b *logBuffer) lines(words ...string) (out []string) {
next:
	for line := range strings.Lines(b.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		out = append(out, line)
	}
	return out
}

// start begins a life with points armed.
func (s *scene) start(arm string, change ...func(*exec.Cmd)) *process {
	s.t.Helper()
	encoded, err := json.Marshal(s.Settings)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: exec.Command(build(s.t)), log: &logBuffer{}, exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "ONCEWARD_RESTORE_SETTINGS="+string(encoded), "ONCEWARD_FAILPOINT="+arm)
	p.cmd.Stderr = p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range change {
		f(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if it is gone, as it should be
		<-p.exited
		_ = stdin.Close()
	})
	return p
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		p.t.Fatalf("the process does not end\n%s", p.log)
		return nil
	}
}

// stop ends the life in order.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		p.t.Fatalf("the process ended with %v\n%s", err, p.log)
	}
}

// killed waits for the end and fails the test unless SIGKILL was the reason.
func (p *process) killed() {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process was to be killed and ended with %v\n%s", err, p.log)
	}
}
