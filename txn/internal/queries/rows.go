package queries

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Store describes a store for questions in JSON.
type Store struct {
	Name   string
	Layout state.Layout
	// Rows are its codecs.
	Rows graph.Rows
}

// Row is a row in JSON. Which times it has depends on the kind of the store.
type Row struct {
	Key   any `json:"key"`
	Value any `json:"value"`
	// Time is the one that a timestamped, window or dedupe store keeps with a value.
	Time *time.Time `json:"time,omitempty"`
	// Start is that of a window, session or version. End is that of a session, and of a version in
	// a history but for the latest one of the key. An answer as of a time has none.
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
}

const (
	// limitDefault is the most rows of an answer if the question does not say it. limitMax is the
	// most that a question may ask for.
	limitDefault, limitMax = 100, 10_000
	// documentMax is how many bytes of JSON the rows of an answer have at most, its last row aside.
	documentMax = 4 << 20
)

// Question is a question in JSON: the parameters of a URL.
//
//	key=K                     the row or rows of a key, as a text: the string itself, else its JSON form
//	from_key=K  to_key=K      instead of a key: the keys in the order of their bytes, to_key left out
//	from=T  to=T              window and session stores: windows that begin, sessions that have a moment, in that time.
//	                          versioned stores, with a key: versions that were valid in that time
//	as_of=T                   versioned stores, with a key: the version of that time
//	reverse=true              last row first
//	limit=N                   rows, 100 by default and 10,000 at most. An answer has fewer if its rows have 4 MiB
//
// Times are in RFC 3339, or milliseconds since the epoch.
type Question struct {
	store          Store
	key            []byte // nil: none
	keyText        string
	span           state.Range
	from, to, asOf *int64
	limit          int
}

// ParseQuestion reads the parameters that are about rows. Its errors do not quote keys.
func ParseQuestion(s Store, v url.Values) (q Question, err error) {
	q = Question{store: s, limit: limitDefault}
	bytes := func(name string) (b []byte) {
		if v.Has(name) && err == nil {
			if b, err = s.Rows.ParseKey(v.Get(name)); err != nil {
				err = fmt.Errorf("parameter %s: %w", name, err)
			}
		}
		return b
	}
	moment := func(name string) (ms *int64) {
		if v.Has(name) && err == nil {
			ms, err = parseTime(name, v.Get(name))
		}
		return ms
	}
	q.key, q.keyText = bytes("key"), v.Get("key")
	q.span = state.Range{From: bytes("from_key"), To: bytes("to_key")}
	q.from, q.to, q.asOf = moment("from"), moment("to"), moment("as_of")
	if err != nil {
		return q, err
	}
	if v.Has("reverse") {
		if q.span.Reverse, err = strconv.ParseBool(v.Get("reverse")); err != nil {
			return q, fmt.Errorf("parameter reverse: %q is neither true nor false", v.Get("reverse"))
		}
	}
	if v.Has("limit") {
		if q.limit, err = strconv.Atoi(v.Get("limit")); err != nil || q.limit < 1 || q.limit > limitMax {
			return q, fmt.Errorf("parameter limit: %q is no number between 1 and %d", v.Get("limit"), limitMax)
		}
	}
	return q, q.check()
}

func parseTime(name, text string) (*int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &ms, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %q is neither a time in RFC 3339 nor milliseconds", name, text)
	}
	ms := t.UnixMilli()
	return &ms, nil
}

// check refuses what the kind of the store does not answer: nothing is left out in silence.
func (q Question) check() error {
	kind, times := q.store.Layout.Kind, q.from != nil || q.to != nil
	switch {
	case q.key != nil && (q.span.From != nil || q.span.To != nil):
		return errors.New("parameter key: there are from_key or to_key too")
	case q.asOf != nil && kind != state.VersionedKind:
		return fmt.Errorf("parameter as_of: a %s store has no history", kind)
	case q.asOf != nil && (q.key == nil || times):
		return errors.New("parameter as_of: it needs a key, and no from or to")
	case times && kind == state.VersionedKind && q.key == nil:
		return errors.New("parameters from and to: the history of a versioned store needs a key")
	case times && kind != state.VersionedKind && kind != state.WindowKind && kind != state.SessionKind:
		return fmt.Errorf("parameters from and to: a %s store has one row for a key", kind)
	case kind == state.SeriesKind:
		return errors.New("a series store is not read from outside")
	}
	return nil
}

// Key returns the bytes of the key; nil if the question has none.
func (q Question) Key() []byte { return q.key }

// Rows answers the question from a view: each row is the JSON form of a [Row]. It says whether there
// are more rows than the limit, or than an answer has room for. There is room for one row at least.
func (q Question) Rows(b state.Bytes) (rows []json.RawMessage, more bool, err error) {
	rows = []json.RawMessage{}
	bytes := 0
	for row, err := range q.all(b) {
		if err != nil {
			return nil, false, err
		}
		if len(rows) == q.limit || bytes >= documentMax {
			return rows, true, nil
		}
		text, err := json.Marshal(row)
		if err != nil {
			return nil, false, err
		}
		rows, bytes = append(rows, text), bytes+len(text)
	}
	return rows, false, nil
}

// codec is a codec of keys or values as JSON shows them.
type codec struct{ graph.RowCodec }

// Append is part of state.Codec. Only keys are encoded, from the text of a parameter.
func (c codec) Append(dst []byte, v any) ([]byte, error) {
	text, _ := v.(string)
	b, err := c.Parse(text)
	return append(dst, b...), err
}

// Decode is part of state.Codec.
func (c codec) Decode(b []byte) (any, error) { return c.RowCodec.Decode(b) }

func (q Question) all(b state.Bytes) iter.Seq2[Row, error] {
	k, v, l := codec{q.store.Rows.Keys}, codec{q.store.Rows.Values}, q.store.Layout
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if q.from != nil {
		from = *q.from
	}
	if q.to != nil {
		to = *q.to
	}
	switch l.Kind {
	case state.TimestampedKind:
		return q.timestamped(state.NewTimestamped[any, any](b, k, v))
	case state.WindowKind:
		return q.windows(state.NewWindow[any, any](b, k, v, l), from, to)
	case state.SessionKind:
		return q.sessions(state.NewSession[any, any](b, k, v, l), from, to)
	case state.VersionedKind:
		return q.versions(state.NewVersioned[any, any](b, k, v, l), from, to)
	case state.DedupeKind:
		return q.ids(state.NewDedupe[any, any](b, k, v, l))
	default:
		return q.keyValue(state.NewKeyValue[any, any](b, k, v))
	}
}

func (q Question) keyValue(s state.KeyValue[any, any]) iter.Seq2[Row, error] {
	if q.key == nil {
		return rowsOf(s.Scan(q.span), func(p state.Pair[any, any]) Row { return Row{Key: p.Key, Value: p.Value} })
	}
	value, ok, err := s.Get(q.keyText)
	return q.one(Row{Value: value}, ok, err)
}

func (q Question) timestamped(s state.Timestamped[any, any]) iter.Seq2[Row, error] {
	if q.key == nil {
		return rowsOf(s.Scan(q.span), func(p state.TimestampedPair[any, any]) Row {
			return Row{Key: p.Key, Value: p.Value, Time: moment(p.Time)}
		})
	}
	value, ms, ok, err := s.Get(q.keyText)
	return q.one(Row{Value: value, Time: moment(ms)}, ok, err)
}

func (q Question) windows(s state.Window[any, any], from, to int64) iter.Seq2[Row, error] {
	var found iter.Seq2[state.WindowEntry[any, any], error]
	switch {
	case q.key == nil:
		found = s.Scan(q.span, from, to)
	case q.span.Reverse:
		found = s.FetchReverse(q.keyText, from, to)
	default:
		found = s.Fetch(q.keyText, from, to)
	}
	return rowsOf(found, func(e state.WindowEntry[any, any]) Row {
		return Row{Key: e.Key, Value: e.Value, Time: moment(e.Time), Start: moment(e.Start)}
	})
}

func (q Question) sessions(s state.Session[any, any], from, to int64) iter.Seq2[Row, error] {
	var found iter.Seq2[state.SessionEntry[any, any], error]
	switch {
	case q.key == nil:
		found = s.Scan(q.span, from, to)
	case q.span.Reverse:
		found = s.FindReverse(q.keyText, from, to)
	default:
		found = s.Find(q.keyText, from, to)
	}
	return rowsOf(found, func(e state.SessionEntry[any, any]) Row {
		return Row{Key: e.Key, Value: e.Value, Start: moment(e.Start), End: moment(e.End)}
	})
}

func (q Question) versions(s state.Versioned[any, any], from, to int64) iter.Seq2[Row, error] {
	switch {
	case q.key == nil:
		return rowsOf(s.Scan(q.span), func(p state.VersionedPair[any, any]) Row {
			return Row{Key: p.Key, Value: p.Value, Start: moment(p.From)}
		})
	case q.asOf != nil:
		value, since, ok, err := s.GetAsOf(q.keyText, *q.asOf)
		return q.one(Row{Value: value, Start: moment(since)}, ok, err)
	case q.from == nil && q.to == nil:
		value, since, ok, err := s.Get(q.keyText)
		return q.one(Row{Value: value, Start: moment(since)}, ok, err)
	}
	found := s.History(q.keyText, from, to)
	if q.span.Reverse {
		found = s.HistoryReverse(q.keyText, from, to)
	}
	key, err := q.store.Rows.Key(q.key)
	if err != nil {
		return q.one(Row{}, false, err)
	}
	return rowsOf(found, func(v state.Version[any]) Row {
		row := Row{Key: key, Value: v.Value, Start: moment(v.From)}
		if v.To != state.Forever {
			row.End = moment(v.To)
		}
		return row
	})
}

func (q Question) ids(s state.Dedupe[any, any]) iter.Seq2[Row, error] {
	if q.key == nil {
		return rowsOf(s.Scan(q.span), func(p state.DedupePair[any, any]) Row {
			return Row{Key: p.ID, Value: p.Value, Time: moment(p.Time)}
		})
	}
	e, ok, err := s.Lookup(q.keyText)
	return q.one(Row{Value: e.Value, Time: moment(e.Time)}, ok, err)
}

// one yields the row of the key, if there is one.
func (q Question) one(r Row, ok bool, err error) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if ok && err == nil {
			r.Key, err = q.store.Rows.Key(q.key)
		}
		if ok || err != nil {
			yield(r, err)
		}
	}
}

func rowsOf[E any](found iter.Seq2[E, error], row func(E) Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for e, err := range found {
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !yield(row(e), nil) {
				return
			}
		}
	}
}

func moment(ms int64) *time.Time {
	t := time.UnixMilli(ms).UTC()
	return &t
}
