package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

var progressTask = graph.TaskID{Subtopology: "in", Partition: 3}

// TestMeter: lines that stay are few, and the end is said; a terminal has one line, which is short
// enough to be written anew and is gone in the end.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := admin.Progress{
			Task: progressTask, Store: "rows", Records: 400, Bytes: 3 << 20, Left: 600, Rate: 200, Remaining: 3 * time.Second,
		}
		ended := admin.Progress{Task: progressTask, Records: 900, Bytes: 6 << 20}
		const halfLine = "verifying store rows of task in_3: 400 records, 3.0 MiB, 600 left, 200/s, 3s to go"
		const endLine = "rebuilding task in_3: 900 records, 6.0 MiB"

		var out bytes.Buffer
		m := progressFlag{Progress: true}.meter(&process{err: &out})
		verifying := m.callback("verifying")
		verifying(half)
		if out.Len() > 0 {
			t.Errorf("said at once: %q", out.String())
		}
		time.Sleep(progressEvery)
		verifying(half)
		verifying(half)
		rebuilding := m.callback("rebuilding")
		rebuilding(ended)
		rebuilding(ended)
		m.end()
		if want := halfLine + "\n" + endLine + "\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}

		out.Reset()
		m = &meter{out: &out, terminal: true}
		m.callback("verifying")(half)
		m.callback("rebuilding")(ended)
		m.end()
		const anew = "\r\x1b[K"
		if want := anew + halfLine[:lineMax] + anew + endLine + anew; out.String() != want {
			t.Errorf("on a terminal: got %q, want %q", out.String(), want)
		}
	})
}

// TestMeterIsQuiet: who has not asked, and does not look at a terminal, is told nothing.
func TestMeterIsQuiet(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, p := range map[string]*process{"a buffer": {err: &bytes.Buffer{}}, "null": {err: null}, "a file": {err: file}} {
		m := progressFlag{}.meter(p)
		if m != nil || m.callback("verifying") != nil {
			t.Errorf("%s is told", name)
		}
		m.end()
	}
}

// TestRestoring: of an instance those tasks count that have something left to read.
func TestRestoring(t *testing.T) {
	n, all := restoring([]txn.TaskStatus{
		{State: txn.TaskRestoring, Restored: 10, RestoredBytes: 100, Remaining: 300, RestoreRate: 50},
		{State: txn.TaskRestoring, Restored: 20, RestoredBytes: 200, Remaining: 100, RestoreRate: 150},
		{State: txn.TaskRestoring, Restored: 40},
		{State: txn.TaskRunning, Restored: 80, RestoredBytes: 800},
	})
	if want := (reading{30, 300, 400, 200, 2 * time.Second}); n != 2 || all != want {
		t.Errorf("%d tasks, %+v, want %+v", n, all, want)
	}
	if n, all := restoring(nil); n != 0 || all != (reading{}) {
		t.Errorf("without tasks: %d, %+v", n, all)
	}
	if s := (reading{records: 1, left: 2}).String(); strings.Contains(s, "to go") {
		t.Errorf("an end that nobody knows is told: %s", s)
	}
}
