package admin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/control"
)

// moving is a running instance whose state goes on with each question: the next one of its moments,
// at last the last one.
type moving struct {
	answering
	mu      sync.Mutex
	moments []moment
	// last counts the questions that got the last moment, and tired ends the context of the caller
	// after several.
	last  int
	tired func()
}

// errTired is the cause of the end of a context.
var errTired = errors.New("nothing more is expected")

// moment is a position in the input "in", -1 if the state names none, or a refusal.
type moment struct {
	offset  int64
	refusal error
}

func (m *moving) View(_ string, partition int32, _ bool) (control.StateAt, state.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.moments[0]
	if len(m.moments) > 1 {
		m.moments = m.moments[1:]
	} else if m.last++; m.last == 3 {
		m.tired()
	}
	at := control.StateAt{Partition: partition}
	if now.offset >= 0 {
		at.Positions.SetInput(state.Input{Topic: "in", Partition: partition, Offset: now.offset})
	}
	return at, rowAt(now.offset), now.refusal
}

func (m *moving) Reason(err error) string {
	for reason, is := range map[string]error{
		control.ReasonRestoring: txn.ErrRestoring, control.ReasonInDoubt: txn.ErrInDoubt, control.ReasonStopped: txn.ErrTaskStopped,
	} {
		if errors.Is(err, is) {
			return reason
		}
	}
	return ""
}

// rowAt is a view in which every key has the offset as its value.
type rowAt int64

func (r rowAt) Get(state.StoreID, []byte) ([]byte, bool, error) {
	return []byte(fmt.Sprint(int64(r))), true, nil
}
func (r rowAt) Positions() state.Positions { return state.Positions{} }
func (r rowAt) Close() error               { return nil }
func (r rowAt) Scan(state.StoreID, state.Range) iter.Seq2[state.Entry, error] {
	return func(func(state.Entry, error) bool) {}
}

// TestGetBehind: a row is given once the state contains the record, and not before; what passes is
// waited for, and nothing else.
func TestGetBehind(t *testing.T) {
	dir, err := state.OpenDirectory(filepath.Join(t.TempDir(), "state"), state.DirectoryOptions{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, c := range map[string]struct {
		moments []moment
		value   string
		is      error
	}{
		"at once":           {[]moment{{offset: 6}}, "6", nil},
		"in a while":        {[]moment{{offset: -1}, {offset: 4}, {offset: 5}, {offset: 8}}, "8", nil},
		"after a restore":   {[]moment{{offset: 5}, {refusal: txn.ErrRestoring}, {refusal: txn.ErrInDoubt}, {offset: 6}}, "6", nil},
		"not there yet":     {[]moment{{offset: 5}}, "", errTired},
		"restored for long": {[]moment{{refusal: txn.ErrRestoring}}, "", errTired},
		"stopped":           {[]moment{{offset: 5}, {refusal: txn.ErrTaskStopped}, {offset: 6}}, "", txn.ErrTaskStopped},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		src := &moving{moments: c.moments, tired: func() { cancel(errTired) }}
		server, err := control.Serve(dir.Path(), control.Instance{Status: func() any { return struct{}{} }, State: src, Rest: http.NotFoundHandler()})
		if err != nil {
			t.Fatal(err)
		}
		st, err := admin.OpenState(t.Context(), dir.Path())
		if err != nil {
			t.Fatal(err)
		}
		row, err := st.GetBehind(ctx, "rows", 3, []byte("k"), "in", 5)
		cancel(nil)
		if string(row.Value) != c.value || !errors.Is(err, c.is) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, %v", name, row.Value, err)
		}
		if err := errors.Join(st.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	}
}
