package conformance

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// judgedSettings are those of an instance that is judged.
type judgedSettings struct {
	Application        string // [eosApplication] or [smokeApplication]
	Brokers            []string
	Instance, StateDir string
	Session            time.Duration
	// Variant is that of [eosApplication].
	Variant string
	// Broken is the mistake that the application makes, "" for none.
	Broken string
}

// Topology is part of [instance.Settings].
func (s judgedSettings) Topology() (*topology.Topology, error) {
	switch s.Application {
	case eosApplication:
		return eosTopology(s.Variant, s.Broken)
	case smokeApplication:
		return smokeTopology(s.Broken)
	}
	return nil, fmt.Errorf("there is no application %q", s.Application)
}

// Config is part of [instance.Settings].
func (s judgedSettings) Config() txn.Config {
	return txn.Config{Brokers: s.Brokers, StateDir: s.StateDir, Instance: s.Instance, SessionTimeout: s.Session}
}

// judged is an instance of an application, which is started and ended any number of times, always
// with the same name and state directory, each time as a process of its own. It belongs to one
// goroutine.
type judged struct {
	t        *testing.T
	settings judgedSettings
	log      *instance.Log     // of all lives
	process  *instance.Process // nil while it is down
}

// newJudged returns an instance that is down. Its settings need no StateDir.
func newJudged(t *testing.T, s judgedSettings) *judged {
	t.Helper()
	dir, err := os.MkdirTemp("", "judged-") // not below t.TempDir, whose path can be too long for a control socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.StateDir = dir
	return &judged{t: t, settings: s, log: instance.NewLog(t, s.Instance)}
}

func (j *judged) name() string { return j.settings.Instance }

// up reports whether the process was started, and not ended by the test.
func (j *judged) up() bool { return j.process != nil }

// start starts the process. The application is not up yet when start returns.
func (j *judged) start() {
	j.t.Helper()
	j.process = instance.Launch(j.t, instance.Command(j.t, judgedProgram, j.settings, ""), j.log)
}

// kill ends the process with SIGKILL, frozen or not.
func (j *judged) kill() error {
	err := j.process.Kill()
	j.process = nil
	return err
}

// stop ends the process with SIGTERM. It fails the test if the process does not end in order.
func (j *judged) stop() {
	j.t.Helper()
	j.process.Stop()
	j.process = nil
}

// status returns the status of an instance that is up, and what is pending before all tasks that
// the group has given to it work, "" if nothing is. It fails if the process has ended, or a task
// has stopped for good.
func (j *judged) status(ctx context.Context) (s txn.Status, pending string, err error) {
	if err := j.process.Alive(); err != nil {
		return s, "", fmt.Errorf("%s: %w", j.name(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, instance.Patience)
	defer cancel()
	s, err = txn.InstanceStatus(ctx, j.settings.StateDir)
	if err == nil {
		pending, err = pendingOf(s)
	} else { // the process has no control socket yet
		pending, err = err.Error(), nil
	}
	if err != nil {
		return s, "", fmt.Errorf("%s: %w", j.name(), err)
	}
	return s, pending, nil
}

// pendingOf tells an instance that works from one that waits for tasks. For the group both are
// members.
func pendingOf(s txn.Status) (pending string, err error) {
	if s.State != txn.Running {
		pending = "it is " + string(s.State)
	}
	if len(s.Tasks) == 0 {
		pending = "it has no task"
	}
	for _, task := range s.Tasks {
		switch task.State {
		case txn.TaskStopped:
			return "", fmt.Errorf("task %s has stopped: %s", task.ID, task.Reason)
		case txn.TaskRestoring:
			pending = fmt.Sprintf("task %s is restoring", task.ID)
		case txn.TaskRunning:
		}
	}
	return pending, nil
}

func TestJudgedInstanceWorksWhenAllItsTasksRun(t *testing.T) {
	tasks := func(states ...txn.TaskState) (tasks []txn.TaskStatus) {
		for _, s := range states {
			tasks = append(tasks, txn.TaskStatus{State: s})
		}
		return tasks
	}
	for _, test := range []struct {
		status        txn.Status
		works, failed bool
	}{
		{status: txn.Status{}},
		{status: txn.Status{State: txn.Starting}},
		{status: txn.Status{State: txn.Running}},
		{status: txn.Status{State: txn.Running, Tasks: tasks(txn.TaskRunning, txn.TaskRestoring)}},
		{status: txn.Status{State: txn.Running, Tasks: tasks(txn.TaskRestoring, txn.TaskRunning)}},
		{status: txn.Status{State: txn.Running, Tasks: tasks(txn.TaskRunning, txn.TaskRunning)}, works: true},
		{status: txn.Status{State: txn.Stopping, Tasks: tasks(txn.TaskRunning)}},
		{status: txn.Status{State: txn.Running, Tasks: tasks(txn.TaskStopped, txn.TaskRestoring)}, failed: true},
		{status: txn.Status{State: txn.Running, Tasks: tasks(txn.TaskRunning, txn.TaskStopped)}, failed: true},
	} {
		pending, err := pendingOf(test.status)
		if works, failed := pending == "" && err == nil, err != nil; works != test.works || failed != test.failed {
			t.Errorf("%+v: pending %q, %v", test.status, pending, err)
		}
	}
}

func TestJudgedSettingsAreChecked(t *testing.T) {
	for _, s := range []judgedSettings{
		{},
		{Application: "other"},
		{Application: eosApplication},
		{Application: eosApplication, Variant: "both"},
		{Application: eosApplication, Variant: eosSimple.name, Broken: "slow"},
		{Application: smokeApplication, Broken: "slow"},
	} {
		if _, err := s.Topology(); err == nil {
			t.Errorf("there is a topology for %+v", s)
		}
	}
}
