package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

func TestExitCodes(t *testing.T) {
	failure := func(class topology.Class) error {
		return &topology.Failure{Node: "n", Class: class, Err: schemas.Reason("r")}
	}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"anything", errors.New("x"), 1},
		{"usage", usage("x: %w", fs.ErrNotExist), 2},
		{"pipeline", &pipeline.Error{Mistakes: []*pipeline.Mistake{{File: "f", Text: "x"}}}, 2},
		{"configuration file", &usageError{&yamldoc.Error{Mistakes: []*yamldoc.Mistake{{Text: "x"}}}}, 2},
		{"setting", errors.Join(&txn.ConfigError{Field: "Workers", Reason: "x"}), 2},
		{"another application's directory", fmt.Errorf("x: %w", state.ErrForeign), 2},
		{"another process's directory", fmt.Errorf("x: %w", state.ErrLocked), 1},
		{"disk", fmt.Errorf("x: %w", state.ErrFailed), 1},
		{"disk of all tasks", fmt.Errorf("%w: %w", txn.ErrAllStopped, fmt.Errorf("x: %w", state.ErrFailed)), 1},
		{"damaged bytes", fmt.Errorf("x: %w", state.ErrCorrupt), 3},
		{"wrong base", fmt.Errorf("x: %w", &state.BaseError{}), 3},
		{"record that stops", fmt.Errorf("%w: %w", txn.ErrAllStopped, failure(topology.Config)), 1},
		{"row that cannot be read", fmt.Errorf("%w: %w", txn.ErrAllStopped, failure(topology.Corruption)), 3},
		{"state without offsets", fmt.Errorf("%w: %w: %w", txn.ErrAllStopped, txn.ErrIntegrity, errors.New("x")), 3},
		{"permission taken away", fmt.Errorf("%w: %w", txn.ErrAllStopped, errors.New("x")), 1},
	} {
		var stderr bytes.Buffer
		p := &process{name: "onceward", err: &stderr}
		if got := p.report(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
		if lines := strings.Count(stderr.String(), "\n"); (c.err != nil) != (lines == 1) {
			t.Errorf("%s: %d lines: %s", c.name, lines, stderr.String())
		}
	}
}

func TestReportHasALineForEachProblem(t *testing.T) {
	var stderr bytes.Buffer
	p := &process{name: "onceward", err: &stderr}
	p.report(errors.Join(errors.New("one"), errors.New("two")))
	if want := "onceward: one\nonceward: two\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

// The end of the context stops a running topology as a signal does, and nothing that Main has
// started is left.
func TestContextStopsRun(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	before := goleak.IgnoreCurrent()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, []string{
			"run", "-f", "-", "--brokers", strings.Join(broker.ListenAddrs(), ","), "--state-dir", dir,
		}, strings.NewReader("name: copy\nsource: {topic: in}\nsteps: [{sink: {topic: out}}]\n"), &stdout, &stderr)
	}()
	waitForTask(t, dir)
	cancel()
	select {
	case got := <-code:
		if got != 0 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "stopped in order") {
			t.Errorf("exit code %d\n%s%s", got, stdout.String(), stderr.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("run does not stop")
	}
	leaktest.None(t, before)
}

// A run that fails leaves nothing behind either, although its context goes on.
func TestFailedRunLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := filepath.Join(t.TempDir(), "state")
	var stdout, stderr bytes.Buffer
	got := Main(t.Context(), []string{"run", "-f", "-", "--connect-timeout", "300ms", "--brokers", "127.0.0.1:1", "--state-dir", dir},
		strings.NewReader("name: copy\nsource: {topic: in}\nsteps: [{sink: {topic: out}}]\n"), &stdout, &stderr)
	if got != 1 || !strings.Contains(stderr.String(), "no broker answered at 127.0.0.1:1") {
		t.Errorf("exit code %d\n%s", got, stderr.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a state directory was made although no broker answered: %v", err)
	}
	leaktest.None(t, before)
}

// waitForTask waits until the instance on dir has a task at work.
func waitForTask(t *testing.T, dir string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		s, err := txn.InstanceStatus(t.Context(), dir)
		if err == nil && len(s.Tasks) > 0 && s.Tasks[0].State == txn.TaskRunning {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("no task runs after a minute: %+v, %v", s, err)
		}
	}
}

func TestVersion(t *testing.T) {
	build := &debug.BuildInfo{
		Main: debug.Module{Path: modulePath, Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	library := &debug.BuildInfo{
		Main: debug.Module{Path: "example.com/own", Version: "v9.0.0"},
		Deps: []*debug.Module{{Path: "example.com/x", Version: "v8.0.0"}, {Path: modulePath, Version: "v1.2.3"}},
	}
	platform := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{build, "onceward v1.2.3, revision abc with changes, " + platform},
		{library, "onceward v1.2.3, " + platform},
		{nil, "onceward (unknown), " + platform},
	} {
		if got := versionOf(c.info, c.info != nil).String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	b, err := json.Marshal(versionOf(build, true))
	const prefix = `{"version":"v1.2.3","revision":"abc","modified":true,"go":"`
	if err != nil || !strings.HasPrefix(string(b), prefix) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestStatusForPeople(t *testing.T) {
	var out bytes.Buffer
	err := writeStatus(&out, txn.Status{
		Application: "payments", Instance: "i1", State: txn.Running,
		Totals: txn.Totals{Records: 10, Outputs: 11, DeadLetters: 1, Commits: 3},
		Tasks: []txn.TaskStatus{
			{
				ID: graph.TaskID{Subtopology: "in", Partition: 0}, State: txn.TaskRunning,
				Records: 10, DeadLetters: 1,
				Inputs:   []txn.InputStatus{{Topic: "in", Offset: 10, Lag: new(int64(5))}, {Topic: "other", Offset: 2}},
				Outcomes: map[string]int64{"windows/late": 444, "windows/duplicates": 1},
				Retry:    &txn.RetryStatus{Record: "in[0]@10", Attempts: 3, Failure: "node call: transient: HTTP 503"},
			},
			{
				ID: graph.TaskID{Subtopology: "in", Partition: 1}, State: txn.TaskRestoring,
				Restored: 5, Remaining: 7,
				Waits: []txn.WaitStatus{
					{For: "changelog", Topic: "log", Partition: 1, Since: time.Unix(0, 0), HeldBy: "producer id 5"},
					{For: "offsets", Topic: "__consumer_offsets", Partition: -1, Since: time.Unix(0, 0)}, // not long yet
				},
			},
			{ID: graph.TaskID{Subtopology: "in", Partition: 2}, State: txn.TaskStopped, Reason: "why"},
			{
				ID: graph.TaskID{Subtopology: "in", Partition: 3}, State: txn.TaskRestoring,
				Restored: 5, Remaining: 7000, RestoreRate: 2000.4, RestoreLeft: 3499 * time.Millisecond,
			},
		},
		Alerts: []txn.Alert{{Topic: "in", Problem: "deleted", Text: "input in was deleted"}},
	})
	want := `application   payments
instance      i1
state         running
records       10
outputs       11
dead letters  1
commits       3
aborts        0
retries       0
peers         off

TASK  STATE                                                               RECORDS  DEAD LETTERS  COMMITTED                    REASON
in_0  running (tries in[0]@10 again, 3 times so far; 444 times too late)  10       1             in[0]@10 (lag 5) other[0]@2  node call: transient: HTTP 503
in_1  restoring (5 records read, 7 left)                                  0        0                                          
in_2  stopped                                                             0        0                                          why
in_3  restoring (5 records read, 7000 left, 2000/s, 3s to go)             0        0                                          

TASK  WAITS FOR  PARTITION  SINCE                 HELD BY
in_1  changelog  log[1]     1970-01-01T00:00:00Z  producer id 5

TOPIC  PROBLEM  ALERT
in     deleted  input in was deleted
`
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}
