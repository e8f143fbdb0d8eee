package queries

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
)

// Client asks one server for views.
type Client struct {
	HTTP *http.Client
	// URL is where the server answers, without parameters.
	URL string
	// Failed is what the caller gets for an error: a [Refusal] of the server, a [StatusError] of
	// what is no such server, or an error that wraps [ErrNoAnswer].
	Failed func(error) error
	// Expect asks the server to say that it wants the body. A check of passwords in between, for
	// example, can then refuse the request without waiting for the end of the body. The connection
	// ends with a refusal.
	Expect bool
	// Wait is how long Open waits for a view; zero is AnswerMax.
	Wait time.Duration
}

// Open asks for a view. When ctx ends, every use of the view fails.
func (c *Client) Open(ctx context.Context, r Request) (*View, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, questions := io.Pipe()
	v := &View{store: state.IDOf(r.Store), failed: c.Failed, cancel: cancel, questions: questions}
	// The request goes on until the view is closed.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"?"+r.values().Encode(), body)
	if err != nil {
		cancel()
		return nil, err
	}
	if c.Expect {
		req.Header.Set("Expect", expectContinue)
	}
	late := time.AfterFunc(cmp.Or(c.Wait, AnswerMax), cancel)
	resp, err := c.HTTP.Do(req) //nolint:bodyclose // View.Close does
	if err == nil {
		v.body, v.in = resp.Body, json.NewDecoder(resp.Body)
		switch {
		case resp.StatusCode != http.StatusOK:
			err = refusalOf(resp)
		default:
			err = v.in.Decode(&v.at)
			if _, other := errors.AsType[*json.SyntaxError](err); other {
				err = &StatusError{resp.StatusCode, resp.Status} // such as a page that asks for a name
			}
		}
	}
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded // the answer is late, and the view is cancelled
	}
	if err != nil {
		_ = v.Close()
		return nil, v.failure(err)
	}
	return v, nil
}

// refusalOf reads why a server refuses.
func refusalOf(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, refusalMax))
	if err != nil {
		return err
	}
	refusal := &Refusal{}
	if json.Unmarshal(text, refusal) != nil || refusal.Text == "" {
		return &StatusError{resp.StatusCode, resp.Status}
	}
	return refusal
}

// View is a view at another process, of one store.
type View struct {
	at     At
	store  state.StoreID
	failed func(error) error
	cancel context.CancelFunc

	body      io.ReadCloser
	in        *json.Decoder
	questions *io.PipeWriter

	mu     sync.Mutex // held while a question is answered
	broken error      // why there are no more answers
	closed sync.Once
}

// At says what the view contains, and whose it is. The caller must not change it.
func (v *View) At() At { return v.at }

// Positions is part of state.View.
func (v *View) Positions() state.Positions { return v.at.Positions.Clone() }

// failure is what the caller gets for an error.
func (v *View) failure(err error) error {
	_, refused := errors.AsType[*Refusal](err)
	status, other := errors.AsType[*StatusError](err)
	if !refused && (!other || status.passes()) {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return v.failed(err)
}

// ask waits for the answer to a question.
func (v *View) ask(store state.StoreID, q question) (answer, error) {
	if store != v.store {
		return answer{}, fmt.Errorf("%w: the view is of another one", state.ErrUnknownStore)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return answer{}, v.broken
	}
	text, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	if len(text) > questionMax {
		return answer{}, errLong
	}
	late := time.AfterFunc(AnswerMax, v.cancel)
	defer late.Stop()
	var a answer
	if _, err = v.questions.Write(text); err == nil {
		err = v.in.Decode(&a)
	}
	if err != nil {
		v.broken = v.failure(err)
		return answer{}, v.broken
	}
	if a.Refusal != nil {
		return answer{}, v.failure(a.Refusal)
	}
	return a, nil
}

// Get is part of state.View.
func (v *View) Get(store state.StoreID, key []byte) (value []byte, ok bool, err error) {
	a, err := v.ask(store, question{Get: &get{key}})
	if a.Found && a.Value == nil {
		a.Value = []byte{} // an empty value is left out
	}
	return a.Value, a.Found, err
}

// Scan is part of state.View. It asks for the rows part by part.
func (v *View) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		q := scan{From: r.From, To: r.To, Reverse: r.Reverse, Rows: rowsFirst}
		for {
			a, err := v.ask(store, question{Scan: &q})
			if err == nil && a.More && len(a.Rows) == 0 {
				err = v.failure(errors.New("a part of a scan has no rows"))
			}
			if err != nil {
				yield(state.Entry{}, err)
				return
			}
			for _, row := range a.Rows {
				if !yield(state.Entry{Key: row.Key, Value: row.Value}, nil) {
					return
				}
			}
			if !a.More {
				return
			}
			if last := a.Rows[len(a.Rows)-1].Key; r.Reverse {
				q.To = last
			} else {
				q.From = append(slices.Clone(last), 0) // the next key that there can be
			}
			q.Rows = min(4*q.Rows, rowsMax)
		}
	}
}

// Close is part of state.View. It waits a moment for the end of the answer, after which the
// connection serves the next view.
func (v *View) Close() error {
	v.closed.Do(func() {
		_ = v.questions.Close() // it never fails
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.body != nil && v.broken == nil {
			late := time.AfterFunc(endMax, v.cancel)
			_, _ = io.Copy(io.Discard, io.LimitReader(v.body, endBytes)) // an error ends the connection
			late.Stop()
		}
		v.cancel()
		if v.body != nil {
			_ = v.body.Close() // nothing more is read
		}
		if v.broken == nil {
			v.broken = state.ErrClosed
		}
	})
	return nil
}

const (
	// endMax bounds the wait for the end of an answer, endBytes what may still come.
	endMax   = time.Second
	endBytes = 16
)
