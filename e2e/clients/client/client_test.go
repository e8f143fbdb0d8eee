package client

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/txn"
)

func TestParse(t *testing.T) {
	own := ""
	application := Application{Name: "eos", Flags: func(flags *flag.FlagSet) { flags.StringVar(&own, "own", "", "") }}
	s, err := parse(application, strings.Fields("--brokers h:1,h:2 --instance p1 --state-dir d --own value"))
	want := settings{brokers: "h:1,h:2", instance: "p1", stateDir: "d", sessionTimeout: 10 * time.Second}
	if err != nil || s != want || own != "value" {
		t.Errorf("parsed %+v and %q, %v", s, own, err)
	}
	for args, want := range map[string]string{
		"--instance p1 --state-dir d":                     "--brokers is missing",
		"--brokers h:1 --state-dir d":                     "--instance is missing",
		"--brokers h:1 --instance p1":                     "--state-dir is missing",
		"--brokers h:1 --instance p1 --state-dir d eos":   `"eos" is no flag`,
		"--brokers h:1 --instance p1 --state-dir d --eos": "not defined",
	} {
		if _, err := parse(application, strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func TestProgressIsPrintedWhenItChanges(t *testing.T) {
	tasks := func(states ...txn.TaskState) (tasks []txn.TaskStatus) {
		for _, s := range states {
			tasks = append(tasks, txn.TaskStatus{State: s})
		}
		return tasks
	}
	var p progress
	var out strings.Builder
	for _, s := range []txn.Status{
		{State: txn.Starting},
		{State: txn.Running},
		{State: txn.Running, Tasks: tasks(txn.TaskRunning, txn.TaskRestoring)},
		{State: txn.Running, Tasks: tasks(txn.TaskRunning)},
		{State: txn.Running, Tasks: tasks(txn.TaskRunning), Totals: txn.Totals{Records: 7}},
		{State: txn.Running, Tasks: tasks(txn.TaskRunning), Totals: txn.Totals{Records: 7}},
		{
			State: txn.Running, Tasks: tasks(txn.TaskStopped, txn.TaskRestoring), Totals: txn.Totals{Records: 9},
		},
		{State: txn.Stopped, Totals: txn.Totals{Records: 9}},
	} {
		if err := p.print(&out, s); err != nil {
			t.Fatal(err)
		}
	}
	want := "state: STARTING\nstate: REBALANCING\nstate: RUNNING\nprocessed 7 records\n" +
		"state: ERROR\nprocessed 9 records\nstate: STOPPED\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	r, w := io.Pipe()
	_ = r.Close()
	if err := p.print(w, txn.Status{State: txn.Starting}); err == nil {
		t.Error("a line that cannot be written is no error")
	}
}
