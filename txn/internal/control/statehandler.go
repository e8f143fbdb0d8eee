package control

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
)

// stallMax is how long a reader of a stream may read nothing, until it is taken for gone and its
// view is released.
const stallMax = time.Minute

// streamBytes is the memory of a stream.
const streamBytes = 64 << 10

// stateHandler answers questions about state:
//
//	GET /state/tasks?detail=names
//	GET /state/row?store=S&partition=P&key=K&stale=true
//	GET /state/rows?store=S&partition=P&from=K&to=K&reverse=true&limit=N&stale=true     a stream of rows
//
// Keys are in base64 for URLs.
//
//	POST /state/checkpoint?task=T&dir=D
func stateHandler(src Source) http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, answer func(w http.ResponseWriter, r *http.Request, q *query) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			// The deadline of the server is for small answers: what takes longer sets its own.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it fails for a connection that is gone
			q := &query{values: r.URL.Query()}
			if err := answer(w, r, q); err != nil {
				refuse(w, src, err)
			}
		})
	}
	handle("POST /state/checkpoint", func(_ http.ResponseWriter, _ *http.Request, q *query) error {
		return src.Checkpoint(q.values.Get("task"), q.values.Get("dir"))
	})
	handle("GET /state/tasks", func(w http.ResponseWriter, r *http.Request, q *query) error {
		tasks, err := src.States(r.Context(), Detail(q.values.Get("detail")))
		if err != nil {
			return err
		}
		return writeAnswer(w, tasks)
	})
	handle("GET /state/row", func(w http.ResponseWriter, _ *http.Request, q *query) error {
		key, store, partition, stale := q.bytes("key"), q.values.Get("store"), q.partition(), q.boolean("stale")
		if q.err != nil {
			return q.err
		}
		at, view, err := src.View(store, partition, stale)
		if err != nil {
			return err
		}
		row := Row{StateAt: at}
		row.Value, row.Found, err = view.Get(state.IDOf(store), key)
		if err := errors.Join(err, view.Close()); err != nil {
			return err
		}
		return writeAnswer(w, row)
	})
	handle("GET /state/rows", func(w http.ResponseWriter, r *http.Request, q *query) error { return serveRows(src, w, r, q) })
	return mux
}

func writeAnswer(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the only way to fail is a client that has gone away
	return nil
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, src Source, err error) {
	text, _ := json.Marshal(Refusal{Reason: src.Reason(err), Text: err.Error()}) // two strings
	w.Header().Set("Content-Type", refusalType)
	w.WriteHeader(http.StatusConflict)
	_, _ = w.Write(text) // the only way to fail is a client that has gone away
}

const refusalType = "application/vnd.onceward.refusal+json"

// serveRows streams a range of one view. The view is released when the client has all of it, goes
// away, or reads nothing for stallMax.
func serveRows(src Source, w http.ResponseWriter, r *http.Request, q *query) (err error) {
	store, partition, limit, stale := q.values.Get("store"), q.partition(), q.number("limit"), q.boolean("stale")
	span := state.Range{From: q.bytes("from"), To: q.bytes("to"), Reverse: q.boolean("reverse")}
	if q.err != nil {
		return q.err
	}
	at, view, err := src.View(store, partition, stale)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(&stallWriter{w: w, rc: http.NewResponseController(w)}, streamBytes)
	entries := untilGone(r.Context(), view.Scan(state.IDOf(store), span))
	err = writeRows(out, at, entries, limit, src.Reason)
	if closeErr := view.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	// From here the head is on its way: after an error the stream has no end, which is an error for
	// the client.
	if err == nil {
		_ = out.Flush()
	}
	return nil
}

// untilGone ends a sequence when the client has gone away.
func untilGone(ctx context.Context, entries iter.Seq2[state.Entry, error]) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// stallWriter gives every piece the time of stallMax.
type stallWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stallWriter) Write(p []byte) (int, error) {
	if err := s.rc.SetWriteDeadline(time.Now().Add(stallMax)); err != nil {
		return 0, err
	}
	n, err := s.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	return n, err
}

// query reads the parameters of a request and keeps the first mistake.
type query struct {
	values url.Values
	err    error
}

func (q *query) mistake(name string, err error) {
	if err != nil && q.err == nil {
		q.err = fmt.Errorf("parameter %s: %w", name, err)
	}
}

// bytes returns nil for what is not given.
func (q *query) bytes(name string) []byte {
	if !q.values.Has(name) {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.values.Get(name))
	q.mistake(name, err)
	return b
}

func (q *query) number(name string) int64 {
	if !q.values.Has(name) {
		return 0
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	q.mistake(name, err)
	return n
}

func (q *query) partition() int32 {
	n, err := strconv.ParseInt(q.values.Get("partition"), 10, 32)
	q.mistake("partition", err)
	return int32(n)
}

func (q *query) boolean(name string) bool {
	if !q.values.Has(name) {
		return false
	}
	b, err := strconv.ParseBool(q.values.Get(name))
	q.mistake(name, err)
	return b
}
