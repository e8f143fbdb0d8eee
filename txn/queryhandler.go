package txn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/queries"
	"github.com/onceward/onceward/txn/internal/session"
)

// QueryHandler serves the rows of these stores, and of no others, to programs that are no instance
// of the application. Any instance answers for all tasks: it asks the one that has the task
// ([Query]). It is for a server of the program's own, which controls the access: who reaches the
// handler can read all rows of the stores. It can be used before, during and after Run. The error
// names a store that the topology does not have.
//
//	GET  /{store}?key=K    rows in JSON, with the position that they contain
//	POST /{store}?...      a view for a [Client]
//
// The parameters of a GET request are
//
//	key            the row, windows, sessions or versions of a key: the text itself for strings, else the JSON form
//	partition      the partition; by default that of the records with the key (AtKey), which fits
//	               only where a row has the key of its records. It is required for stores of ids,
//	               and where the codecs of the keys differ
//	from_key       without a key: the rows of a partition, beginning with this key,
//	to_key         and ending before this one
//	from, to       windows that begin in a time, sessions that have a moment in it, versions that were valid in it
//	as_of          what a versioned store had for the key at a time
//	reverse        true: last row first
//	limit          the most rows, 100 by default and 10,000 at most; an answer has no further rows once its rows have 4 MiB;
//	               "more" in the answer says that there are more (see below)
//	at_least       topic/partition/offset: AtLeast
//	stale          true: Stale
//	standby        a duration such as 5s: Standbys
//
// After "more", the next question has a bound from the last row. For one key that is from=start, or
// from=end for sessions, and to=start with reverse. For a range of keys it is from_key, and to_key with
// reverse. All of these but to_key give the last row again. A store of windows or sessions can have more
// rows of the last key. They have to be asked for with key first: to_key leaves them out. Each answer is
// of a view of its own.
//
// Times are in RFC 3339, or milliseconds since the epoch. An answer without a row is no error. The
// status 503 says that the partition is not served now ([ErrNotServing]): ask again. The status 404
// says that there is no such store or partition, and 400 that the parameters are wrong. An error is a
// JSON document with "reason" and "text".
func (a *App) QueryHandler(stores ...topology.AnyStore) (http.Handler, error) {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = s.Name()
	}
	h, err := a.newQueryHandler(names)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{store}", h.serveRows)
	mux.HandleFunc("POST /{store}", h.serveView)
	return mux, err
}

// newQueryHandler returns a handler that serves the stores with these names.
func (a *App) newQueryHandler(names []string) (*queryHandler, error) {
	h := &queryHandler{app: a, stores: map[string]queries.Store{}, keyed: map[string]bool{}}
	description := a.topology.Description()
	h.views = queries.NewServer(h)
	var errs []error
	for _, name := range names {
		info, sub, known := session.StoreOf(a.topology, name)
		rows, hasRows := a.topology.Rows(name)
		if !known || !hasRows {
			errs = append(errs, fmt.Errorf("%w: the topology has no store %q", state.ErrUnknownStore, name))
			continue
		}
		h.stores[name] = queries.Store{Name: name, Layout: info.Layout, Rows: rows}
		h.keyed[name] = info.Layout.Kind != state.DedupeKind && keyedBy(description, sub.Name, rows.Keys.Format)
	}
	return h, errors.Join(errs...)
}

// keyedBy reports whether the keys of all inputs of a subtopology have a codec.
func keyedBy(d graph.Description, subtopology, format string) bool {
	for _, sub := range d.Subtopologies {
		if sub.Name == subtopology {
			return !slices.ContainsFunc(sub.Sources, func(s graph.SourceDescription) bool { return s.KeyFormat != format })
		}
	}
	return true
}

// queryHandler is what QueryHandler returns.
type queryHandler struct {
	app    *App
	stores map[string]queries.Store
	// keyed has the stores of which a key can be that of a record in the inputs of the task. Then
	// the key says the partition. The codecs of the keys are the same, and the store is not one of
	// ids. A global table has one partition.
	keyed map[string]bool
	views *queries.Server
}

// requestError is a mistake of the client.
type requestError struct{ error }

func (e requestError) Unwrap() error { return e.error }

// Reason is part of queries.Source.
func (h *queryHandler) Reason(err error) (string, int) {
	if _, mistake := errors.AsType[requestError](err); mistake {
		return "request", http.StatusBadRequest
	}
	return reasonOf(err)
}

// View is part of queries.Source.
func (h *queryHandler) View(ctx context.Context, r queries.Request) (queries.At, state.View, error) {
	return told(h.app.query(ctx, r))
}

func (h *queryHandler) refuse(w http.ResponseWriter, err error) {
	reason, status := h.Reason(err)
	queries.Refuse(w, status, queries.Refusal{Reason: reason, Text: err.Error()})
}

// served returns a store that the handler serves.
func (h *queryHandler) served(r *http.Request) (queries.Store, error) {
	store, ok := h.stores[r.PathValue("store")]
	if !ok {
		return store, fmt.Errorf("%w: there is no store %q here", state.ErrUnknownStore, r.PathValue("store"))
	}
	return store, nil
}

func (h *queryHandler) serveView(w http.ResponseWriter, r *http.Request) {
	store, err := h.served(r)
	var req queries.Request
	if err == nil {
		if req, err = queries.ParseRequest(r.URL.Query()); err != nil {
			err = requestError{err}
		}
	}
	if err != nil {
		h.refuse(w, err)
		return
	}
	req.Store = store.Name
	h.views.Serve(w, r, req)
}

// parameters are those of a GET request.
var parameters = []string{
	"key", "partition", "from_key", "to_key", "from", "to", "as_of", "reverse", "limit", "at_least", "stale", "standby",
}

// rowsAnswer is the answer to a GET request.
type rowsAnswer struct {
	Store     string   `json:"store"`
	Partition int32    `json:"partition"`
	Instance  string   `json:"instance"`
	Position  position `json:"position"`
	// Stale is why the rows would not have been served without being asked for stale ones.
	Stale string `json:"stale,omitempty"`
	// StandbyAge is set for a copy: how long ago it was at the last commit, as a duration.
	StandbyAge string            `json:"standby_age,omitempty"`
	Rows       []json.RawMessage `json:"rows"`
	More       bool              `json:"more,omitempty"`
}

// position is what the rows of an answer contain.
type position struct {
	Round  string          `json:"round,omitempty"`
	Inputs []inputPosition `json:"inputs"`
}

// inputPosition is the next offset of an input.
type inputPosition struct {
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Offset     int64      `json:"offset"`
	StreamTime *time.Time `json:"stream_time,omitempty"`
}

func positionOf(p state.Positions) position {
	out := position{Inputs: []inputPosition{}}
	if !p.Round.IsZero() {
		out.Round = p.Round.String()
	}
	for _, in := range p.Inputs {
		at := inputPosition{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}
		if in.StreamTime != state.NoTime {
			t := time.UnixMilli(in.StreamTime).UTC()
			at.StreamTime = &t
		}
		out.Inputs = append(out.Inputs, at)
	}
	return out
}

func (h *queryHandler) serveRows(w http.ResponseWriter, r *http.Request) {
	h.serveRowsAs(w, r, nil)
}

// serveRowsAs answers with the rows as a function makes them, nil for as they are.
func (h *queryHandler) serveRowsAs(w http.ResponseWriter, r *http.Request, form func(json.RawMessage) (json.RawMessage, error)) {
	store, err := h.served(r)
	var out rowsAnswer
	if err == nil {
		out, err = h.rows(r.Context(), store, r.URL.Query())
	}
	for i := 0; i < len(out.Rows) && form != nil && err == nil; i++ {
		out.Rows[i], err = form(out.Rows[i])
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(out)
	}
	if err != nil {
		h.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the only way to fail is a client that has gone away
}

func (h *queryHandler) rows(ctx context.Context, store queries.Store, v url.Values) (out rowsAnswer, err error) {
	for name := range v {
		if !slices.Contains(parameters, name) {
			return out, requestError{fmt.Errorf("there is no parameter %q; possible are %s", name, strings.Join(parameters, ", "))}
		}
	}
	question, err := queries.ParseQuestion(store, v)
	if err != nil {
		return out, requestError{err}
	}
	var key []byte
	if !v.Has("partition") {
		if key = question.Key(); key == nil {
			return out, requestError{errors.New("there is neither a key nor a partition")}
		}
		if !h.keyed[store.Name] {
			return out, requestError{errors.New("there is no partition, and keys of this store are not those of the input, so they do not say it")}
		}
		v.Set("partition", "0") // the key decides
	}
	req, err := queries.ParseRequest(v)
	if err != nil {
		return out, requestError{err}
	}
	req.Store, req.RecordKey = store.Name, key
	got, err := h.app.query(ctx, req)
	if err != nil {
		return out, err
	}
	out = rowsAnswer{Store: store.Name, Partition: got.at.Partition, Instance: got.at.Instance, Position: positionOf(got.at.Positions)}
	if got.stale != nil {
		out.Stale = got.stale.Error()
	}
	if got.at.Standby {
		out.StandbyAge = got.at.Age.String()
	}
	out.Rows, out.More, err = question.Rows(newViewBytes(ctx, got.view, store.Name))
	return out, errors.Join(err, got.view.Close())
}
