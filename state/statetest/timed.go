package statetest

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

// Opener returns a function that opens one database: empty the first time, and with what it contained when it was
// closed every other time.
type Opener func(t *testing.T) func() (state.Database, error)

// RunWindows checks state.Window over the databases that open makes: random programs against a model made of plain
// maps, with savepoints, rounds in flight and reopening in between.
func RunWindows(t *testing.T, open Opener) {
	t.Helper()
	runTimed(t, open, func(open func() (state.Database, error), p TimedProgram) error {
		return CheckWindows(open, NewTextWindow, p)
	})
}

// RunSessions is RunWindows for state.Session.
func RunSessions(t *testing.T, open Opener) {
	t.Helper()
	runTimed(t, open, func(open func() (state.Database, error), p TimedProgram) error {
		return CheckSessions(open, NewTextSession, p)
	})
}

func runTimed(t *testing.T, open Opener, check func(func() (state.Database, error), TimedProgram) error) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		if err := check(open(t), TimedPrograms(200).Draw(rt, "program")); err != nil {
			rt.Fatal(err)
		}
	})
}

// CheckWindows runs a program on the store that view makes and on the model, and returns the first difference.
func CheckWindows(
	open func() (state.Database, error), view func(state.Bytes, int64) state.Window[string, string], p TimedProgram,
) error {
	layout := state.Layout{Kind: state.WindowKind, Retention: p.retention}
	return checkTimed(open, layout, func(b state.Bytes) timedStore { return windowStore{view(b, p.retention)} }, p)
}

// CheckSessions is CheckWindows for sessions.
func CheckSessions(
	open func() (state.Database, error), view func(state.Bytes, int64) state.Session[string, string], p TimedProgram,
) error {
	layout := state.Layout{Kind: state.SessionKind, Retention: p.retention}
	return checkTimed(open, layout, func(b state.Bytes) timedStore { return sessionStore{view(b, p.retention)} }, p)
}

// NewTextWindow is the view that RunWindows checks.
func NewTextWindow(b state.Bytes, retention int64) state.Window[string, string] {
	return state.NewWindow(b, textCodec{}, textCodec{}, state.Layout{Kind: state.WindowKind, Retention: retention})
}

// NewTextSession is the view that RunSessions checks.
func NewTextSession(b state.Bytes, retention int64) state.Session[string, string] {
	return state.NewSession(b, textCodec{}, textCodec{}, state.Layout{Kind: state.SessionKind, Retention: retention})
}

// textCodec keeps the bytes as they are.
type textCodec struct{}

func (textCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (textCodec) Decode(b []byte) (string, error)             { return string(b), nil }

func checkTimed(
	open func() (state.Database, error), layout state.Layout, view func(state.Bytes) timedStore, p TimedProgram,
) error {
	c := &timedChecker{open: open, layout: layout, view: view, model: newTimedModel()}
	if err := c.openTask(); err != nil {
		return err
	}
	err := c.run(p)
	return errors.Join(err, c.task.Close())
}
