package state_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
)

// TestFence: a fence outlives the process, keeps its time, and does not make the directory a
// foreign one.
func TestFence(t *testing.T) {
	path := t.TempDir()
	open := func() *state.Directory {
		t.Helper()
		d, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	if at, err := d.FencedAt(); err != nil || !at.IsZero() {
		t.Fatalf("a new directory is fenced: %v %v", at, err)
	}
	if err := d.ClearFence(); err != nil {
		t.Errorf("clearing nothing: %v", err)
	}
	want := time.Unix(1_700_000_000, 0)
	if err := errors.Join(d.RecordFence(want.Add(-time.Hour)), d.RecordFence(want), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = open()
	if at, err := d.FencedAt(); err != nil || !at.Equal(want) {
		t.Errorf("fenced at %v, want %v (%v)", at, want, err)
	}
	if err := errors.Join(d.ClearFence(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.RecordFence(want); !errors.Is(err, state.ErrClosed) {
		t.Errorf("a closed directory was written: %v", err)
	}
	d = open()
	defer d.Close()
	if at, err := d.FencedAt(); err != nil || !at.IsZero() {
		t.Errorf("a cleared fence is back: %v %v", at, err)
	}
}
