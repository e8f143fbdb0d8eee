package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// source is a running instance with one store and one task.
type source struct {
	db state.Database
	// views counts those that are open, and released has an entry for each that was closed.
	views    atomic.Int64
	released chan struct{}
	err      error
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{db: memstore.New(), released: make(chan struct{}, 100)}
	next := state.Positions{Round: state.RoundID{ProducerID: 7, Epoch: 3, Incarnation: 1}, Inputs: []state.Input{{Topic: "in", Offset: 5}}}
	err := s.db.Apply(state.Positions{}, next, func(yield func(state.Write) bool) {
		for i := range rowsWritten {
			w := state.Write{Store: state.IDOf("rows"), Key: fmt.Appendf(nil, "k%04d", i), Value: bytes.Repeat([]byte{byte(i)}, 1<<10)}
			if !yield(w) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errBusy = errors.New("the task is busy")

func (s *source) Reason(err error) string {
	if errors.Is(err, errBusy) {
		return ReasonRestoring
	}
	return ""
}

func (s *source) States(context.Context, Detail) ([]TaskState, error) {
	return []TaskState{{StateAt: StateAt{Subtopology: "in", Positions: s.db.Positions()}}}, s.err
}

func (s *source) Checkpoint(string, string) error { return s.err }

func (s *source) View(string, int32, bool) (StateAt, state.View, error) {
	if s.err != nil {
		return StateAt{}, nil, s.err
	}
	v, err := s.db.View()
	if err != nil {
		return StateAt{}, nil, err
	}
	s.views.Add(1)
	return StateAt{Subtopology: "in", Positions: v.Positions(), Member: "m", Revokes: 2}, countedView{v, s}, nil
}

type countedView struct {
	state.View
	s *source
}

func (v countedView) Close() error {
	v.s.views.Add(-1)
	v.s.released <- struct{}{}
	return v.View.Close()
}

const rowsWritten = 5000

// serve starts a server with 5000 rows of 1 KiB: more than all buffers of a stream hold.
func serve(t *testing.T) (dir string, s *source) {
	t.Helper()
	s = newSource(t)
	dir = t.TempDir()
	server, err := Serve(dir, Instance{State: s, Rest: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if n := s.views.Load(); n != 0 {
			t.Errorf("%d views are open when the server has ended", n)
		}
	})
	return dir, s
}

// TestRows: what is asked for comes whole and in order, with what it belongs to.
func TestRows(t *testing.T) {
	dir, s := serve(t)
	row, err := RowOf(t.Context(), dir, "rows", 0, []byte("k0003"), false)
	if err != nil || !row.Found || len(row.Value) != 1<<10 || row.Value[0] != 3 || row.Member != "m" || row.Revokes != 2 {
		t.Errorf("%+v, %v", row.StateAt, err)
	}
	if row, err := RowOf(t.Context(), dir, "rows", 0, nil, false); err != nil || row.Found || row.Value != nil {
		t.Errorf("an absent key: %+v, %v", row, err)
	}
	for _, tc := range []struct {
		q           RowsRequest
		n           int
		first, last string
	}{
		{RowsRequest{}, rowsWritten, "k0000", "k4999"},
		{RowsRequest{Limit: 3}, 3, "k0000", "k0002"},
		{RowsRequest{Range: state.Range{Reverse: true}, Limit: 2}, 2, "k4999", "k4998"},
		{RowsRequest{Range: state.Range{From: []byte("k0010"), To: []byte("k0012")}}, 2, "k0010", "k0011"},
		{RowsRequest{Range: state.Range{To: []byte{}}}, 0, "", ""},
	} {
		tc.q.Store = "rows"
		rows, err := OpenRows(t.Context(), dir, tc.q)
		if err != nil {
			t.Fatal(err)
		}
		if !rows.At.Positions.Equal(s.db.Positions()) {
			t.Errorf("the rows are at %v", rows.At.Positions)
		}
		n, first, last := 0, "", ""
		for e, err := range rows.All() {
			if err != nil {
				t.Fatal(err)
			}
			if last = string(e.Key); n == 0 {
				first = last
			}
			n++
		}
		if n != tc.n || first != tc.first || last != tc.last {
			t.Errorf("%+v gave %d rows from %s to %s", tc.q, n, first, last)
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
	tasks, err := States(t.Context(), dir, Names)
	if err != nil || len(tasks) != 1 || tasks[0].Subtopology != "in" {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
}

// TestAbandonedRows: a client that goes away in the middle, or whose time is over, holds no view
// any more.
func TestAbandonedRows(t *testing.T) {
	dir, s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, leave := range []func(*Rows){
		func(r *Rows) { _ = r.Close() },
		func(*Rows) { cancel() },
	} {
		rows, err := OpenRows(ctx, dir, RowsRequest{Store: "rows"})
		if err != nil {
			t.Fatal(err)
		}
		next, stop := iter.Pull2(rows.All())
		if _, err, ok := next(); err != nil || !ok {
			t.Fatal(err)
		}
		if s.views.Load() != 1 {
			t.Error("the view is not open while it is read: the test tests nothing")
		}
		leave(rows)
		select {
		case <-s.released:
		case <-time.After(time.Minute):
			t.Fatalf("client %d: the view is still open", i)
		}
		stop()
		_ = rows.Close()
	}
}

// TestStalledRows: a client that stays and reads nothing is taken for gone.
func TestStalledRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t)
		var pipes kfake.VirtualNetwork
		l, err := pipes.Listen("tcp", "localhost:80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: stateHandler(s), WriteTimeout: 5 * time.Second}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(l)
		}()
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			<-ended
		}()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: pipes.DialContext}}
		resp, err := client.Get("http://localhost:80/state/rows?store=rows&partition=0")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		rows := bufio.NewReader(resp.Body)
		if _, err := readHead(rows); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-s.released
		if waited := time.Since(began); waited != stallMax {
			t.Errorf("the view is released after %s, want %s", waited, stallMax)
		}
		n := 0
		for _, err = range readRows(rows) {
			n++
		}
		if err == nil || n >= rowsWritten {
			t.Errorf("a stream that was given up ends after %d rows with %v", n, err)
		}
	})
}

// TestRefusal: an error keeps its name and its text across the socket, also in the middle of a
// stream.
func TestRefusal(t *testing.T) {
	dir, s := serve(t)
	s.err = fmt.Errorf("store rows: %w", errBusy)
	_, err := OpenRows(t.Context(), dir, RowsRequest{Store: "rows"})
	_, rowErr := RowOf(t.Context(), dir, "rows", 0, nil, false)
	_, statesErr := States(t.Context(), dir, Counts)
	for _, err := range []error{err, rowErr, statesErr} {
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || refusal.Reason != ReasonRestoring || refusal.Text != "store rows: the task is busy" {
			t.Errorf("the answer is %v", err)
		}
	}
	var stream bytes.Buffer
	out := bufio.NewWriter(&stream)
	entries := func(yield func(state.Entry, error) bool) {
		_ = yield(state.Entry{Key: []byte("k")}, nil) && yield(state.Entry{}, errBusy)
	}
	if err := errors.Join(writeRows(out, StateAt{}, entries, 0, s.Reason), out.Flush()); err != nil {
		t.Fatal(err)
	}
	n, err := drain(stream.Bytes())
	if refusal, ok := errors.AsType[*Refusal](err); n != 1 || !ok || refusal.Reason != ReasonRestoring {
		t.Errorf("after %d rows: %v", n, err)
	}
	s.err = nil
	for _, query := range []string{"partition=0&key=%25", "partition=x", "partition=0&stale=maybe"} {
		resp, err := ask(t.Context(), dir, http.MethodGet, "/state/row?store=rows&"+query)
		if err == nil {
			resp.Body.Close()
			t.Errorf("the query %s is answered", query)
		}
	}
}

// drain reads a stream to its end.
func drain(stream []byte) (n int, err error) {
	in := bufio.NewReader(bytes.NewReader(stream))
	if _, err := readHead(in); err != nil {
		return 0, err
	}
	for _, err := range readRows(in) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// TestCutOff: a stream that ends anywhere but at its end is an error.
func TestCutOff(t *testing.T) {
	stream := example(t)
	if n, err := drain(stream); n != 3 || err != nil {
		t.Fatalf("%d rows, %v", n, err)
	}
	for i := range len(stream) {
		if n, err := drain(stream[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes gave %d rows and no error", i, len(stream), n)
		}
	}
	if _, err := drain(bytes.Replace(stream, []byte("e\x03"), []byte("e\x02"), 1)); !errors.Is(err, errStream) {
		t.Errorf("a stream that lost a row gave %v", err)
	}
}

func example(t testing.TB) []byte {
	t.Helper()
	var stream bytes.Buffer
	out := bufio.NewWriter(&stream)
	entries := func(yield func(state.Entry, error) bool) {
		for _, key := range []string{"", "b", "ccc"} {
			if !yield(state.Entry{Key: []byte(key), Value: []byte("value")}, nil) {
				return
			}
		}
	}
	if err := errors.Join(writeRows(out, StateAt{Subtopology: "in"}, entries, 0, nil), out.Flush()); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

// FuzzRows: whatever comes, reading ends, and takes no more memory than there is input.
func FuzzRows(f *testing.F) {
	f.Add(example(f))
	f.Add([]byte("h\x02{}r\xff\xff\xff\xff\x03"))
	f.Add([]byte("h\x02{}x\x02{}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if n, _ := drain(stream); n > len(stream) {
			t.Errorf("%d bytes gave %d rows", len(stream), n)
		}
	})
}
