package control

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
)

// StateAt says what an answer about state contains, and whose it is.
type StateAt struct {
	Subtopology string          `json:"subtopology"`
	Partition   int32           `json:"partition"`
	Positions   state.Positions `json:"positions"`
	// Member and Revokes are the epoch of the owner.
	Member  string `json:"member"`
	Revokes uint64 `json:"revokes"`
	// Stale is why the state would not have been served without being asked for it, nil if it
	// would.
	Stale *Refusal `json:"stale,omitempty"`
}

// The names of errors.
const (
	ReasonNotServing   = "not-serving"
	ReasonRestoring    = "restoring"
	ReasonStopped      = "stopped"
	ReasonInDoubt      = "in-doubt"
	ReasonLost         = "lost"
	ReasonUnknownStore = "unknown-store"
	ReasonCorrupt      = "corrupt"
	ReasonFailed       = "failed"
	ReasonClosed       = "closed"
)

// Refusal is an error that crossed the socket. Reason is one of the names that Source.Reason gives.
type Refusal struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

func (r *Refusal) Error() string { return r.Text }

// GlobalPrefix begins the Subtopology of a global table in a StateAt, before the name of its store.
// No subtopology has such a name.
const GlobalPrefix = "globals/"

// TaskState is the state of one task, or of one global table, of the process.
type TaskState struct {
	StateAt
	Stores []StoreState `json:"stores"`
}

// StoreState is one store of a task.
type StoreState struct {
	Name   string `json:"name"`
	Layout string `json:"layout"`
	// Keys are counted or estimated, DiskBytes is estimated.
	Keys      int64 `json:"keys"`
	Counted   bool  `json:"counted"`
	DiskBytes int64 `json:"disk_bytes"`
	// Changelog is the topic, Partitions how many it has, End its last stable offset in this
	// partition, nil if it is not known.
	Changelog string `json:"changelog"`
	// FromSource says that the topic is an input, from which the store is restored.
	FromSource bool `json:"from_source,omitempty"`
	// InMemory says that the rows are in memory, and with them DiskBytes.
	InMemory   bool   `json:"in_memory,omitempty"`
	Partitions int32  `json:"partitions"`
	End        *int64 `json:"end,omitempty"`
}

// Detail says how much is to be found out of the sizes of stores.
type Detail string

// The details. Each has what is in those before.
const (
	Names     Detail = "names"
	Estimates Detail = "estimates"
	Counts    Detail = "counts" // reads every row
)

// Row is the answer to a key.
type Row struct {
	StateAt
	Found bool   `json:"found"`
	Value []byte `json:"value,omitempty"`
}

// Source is the state of a running instance. Its methods are called from the goroutine of each
// request.
type Source interface {
	// States describes every task of the process that has state, in their order.
	States(ctx context.Context, d Detail) ([]TaskState, error)
	// View takes a view of a store's partition, which the caller closes. With stale, it takes
	// whatever there is.
	View(store string, partition int32, stale bool) (StateAt, state.View, error)
	// Checkpoint makes dir a checkpoint of a task, as operators name it.
	Checkpoint(task, dir string) error
	// Reason names an error for the other side of the socket, "" if it has no name.
	Reason(err error) string
}

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

// States asks the instance that runs on a state directory for the state of its tasks.
func States(ctx context.Context, dir string, d Detail) (tasks []TaskState, err error) {
	err = askJSON(ctx, dir, "/state/tasks?detail="+string(d), &tasks)
	return tasks, err
}

// RowOf asks for one row.
func RowOf(ctx context.Context, dir, store string, partition int32, key []byte, stale bool) (row Row, err error) {
	v := place(store, partition, stale)
	v.Set("key", base64.RawURLEncoding.EncodeToString(key))
	err = askJSON(ctx, dir, "/state/row?"+v.Encode(), &row)
	return row, err
}

func place(store string, partition int32, stale bool) url.Values {
	return url.Values{
		"store": {store}, "partition": {strconv.Itoa(int(partition))}, "stale": {strconv.FormatBool(stale)},
	}
}

func askJSON(ctx context.Context, dir, path string, out any) error {
	resp, err := ask(ctx, dir, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("the answer of the instance on %s: %w", dir, err)
	}
	return nil
}

// Checkpoint asks the instance for a checkpoint of a task; dir is an absolute path.
func Checkpoint(ctx context.Context, dir, task, to string) error {
	resp, err := ask(ctx, dir, http.MethodPost, "/state/checkpoint?"+url.Values{"task": {task}, "dir": {to}}.Encode())
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// RowsRequest is a range of a store's partition. A Limit of 0 is none.
type RowsRequest struct {
	Store     string
	Partition int32
	Range     state.Range
	Limit     int64
	Stale     bool
}

// Rows is a stream of rows of one view. It belongs to one goroutine and has to be closed, which
// releases the view.
type Rows struct {
	At   StateAt
	body io.ReadCloser
	in   *bufio.Reader
}

// OpenRows takes a view and begins to stream it. The end of ctx ends the stream.
func OpenRows(ctx context.Context, dir string, q RowsRequest) (*Rows, error) {
	v := place(q.Store, q.Partition, q.Stale)
	if q.Range.From != nil {
		v.Set("from", base64.RawURLEncoding.EncodeToString(q.Range.From))
	}
	if q.Range.To != nil {
		v.Set("to", base64.RawURLEncoding.EncodeToString(q.Range.To))
	}
	v.Set("reverse", strconv.FormatBool(q.Range.Reverse))
	v.Set("limit", strconv.FormatInt(q.Limit, 10))
	resp, err := ask(ctx, dir, http.MethodGet, "/state/rows?"+v.Encode()) //nolint:bodyclose // Rows.Close does
	if err != nil {
		return nil, err
	}
	rows := &Rows{body: resp.Body, in: bufio.NewReaderSize(resp.Body, streamBytes)}
	if rows.At, err = readHead(rows.in); err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return rows, nil
}

// All yields the rows, once. An error is the last thing that it yields; without one, the rows are
// complete.
func (r *Rows) All() iter.Seq2[state.Entry, error] { return readRows(r.in) }

// Close releases the view, also in the middle of the stream.
func (r *Rows) Close() error { return r.body.Close() }
