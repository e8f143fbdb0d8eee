package session

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/control"
)

// TestStates: the control socket serves what Read serves, with the same refusals by name.
func TestStates(t *testing.T) {
	r := newReading(t, nil)
	st := r.reader
	at, view, err := st.View("rows", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	value, ok, err := view.Get(state.IDOf("rows"), []byte("k"))
	if string(value) != "new" || !ok || err != nil || at.Subtopology != "in" || at.Positions.Round != r.round || at.Stale != nil {
		t.Errorf("%q, %t, %v at %+v", value, ok, err, at)
	}
	if err := view.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := st.View("other", 0, true); st.Reason(err) != control.ReasonUnknownStore {
		t.Errorf("%v has the reason %q", err, st.Reason(err))
	}
	if _, _, err := st.View("rows", 1, true); st.Reason(err) != control.ReasonNotServing {
		t.Errorf("%v has the reason %q", err, st.Reason(err))
	}
	tasks, err := st.States(t.Context(), control.Counts)
	if err != nil || len(tasks) != 1 || len(tasks[0].Stores) != 1 || tasks[0].Stores[0].Keys != 1 || !tasks[0].Stores[0].Counted {
		t.Errorf("%+v, %v", tasks, err)
	}

	r.s.tasks.Stop(r.id, r.e, ErrIntegrity, false)
	if _, _, err := st.View("rows", 0, false); st.Reason(err) != control.ReasonStopped {
		t.Errorf("%v has the reason %q", err, st.Reason(err))
	}
	at, view, err = st.View("rows", 0, true)
	if err != nil || at.Stale == nil || at.Stale.Reason != control.ReasonStopped {
		t.Fatalf("%+v, %v", at, err)
	}
	if err := errors.Join(view.Close(), r.db.Close()); err != nil {
		t.Error(err)
	}
	tasks, err = st.States(t.Context(), control.Names)
	if err != nil || len(tasks) != 1 || tasks[0].Stores != nil || tasks[0].Stale == nil {
		t.Errorf("of a task that has just been closed: %+v, %v", tasks, err)
	}
	r.s = nil
	if _, err := st.States(t.Context(), control.Names); st.Reason(err) != control.ReasonNotServing {
		t.Errorf("without a membership: %v", err)
	}
}
