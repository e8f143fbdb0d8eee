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

	"github.com/onceward/onceward/state"
)

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
