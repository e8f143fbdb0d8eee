package queries

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/state"
)

// Source takes views and names errors. Its methods are called from the goroutine of each request.
type Source interface {
	// View takes a view. The server closes it.
	View(ctx context.Context, r Request) (At, state.View, error)
	// Reason names an error for the other side, and says with which status an answer refuses.
	Reason(err error) (reason string, status int)
}

// ErrBusy says that a server has as many views open as it may, or is about to end.
var ErrBusy = errors.New("too many views are open")

// Server answers requests for views. Make one with [NewServer].
type Server struct {
	source Source
	slots  chan struct{}
}

// NewServer returns a server without views.
func NewServer(source Source) *Server {
	return &Server{source: source, slots: make(chan struct{}, ViewsMax)}
}

// Close refuses further views and waits for those that are open. Their connections have to end
// first.
func (s *Server) Close() {
	for range cap(s.slots) {
		s.slots <- struct{}{}
	}
}

// ServeHTTP is part of http.Handler. It reads the parameters from the URL, and any method is good.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := ParseRequest(r.URL.Query())
	if err != nil {
		Refuse(w, http.StatusBadRequest, Refusal{Reason: reasonRequest, Text: err.Error()})
		return
	}
	s.Serve(w, r, req)
}

// Serve answers a request whose parameters are known.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, req Request) {
	rc := http.NewResponseController(w)
	// A refusal is read at once, and then the client ends the body.
	_ = rc.SetReadDeadline(time.Now().Add(AnswerMax)) // it fails only if the connection is gone, as below
	if err := rc.EnableFullDuplex(); err != nil {
		Refuse(w, http.StatusNotImplemented, Refusal{
			Reason: "server", Text: "the HTTP server cannot read a request while it answers: " + err.Error(),
		})
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.refuse(w, ErrBusy)
		return
	}
	at, view, err := s.source.View(r.Context(), req)
	if err != nil {
		s.refuse(w, err)
		return
	}
	defer func() { _ = view.Close() }() // it only releases the snapshot
	if r.Header.Get("Expect") == expectContinue {
		w.WriteHeader(http.StatusContinue) // the head comes before the first question is read
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for the end of the answer
	body := &questionBytes{r: http.MaxBytesReader(w, r.Body, questionsMax)}
	out, in := json.NewEncoder(w), json.NewDecoder(body)
	send := func(v any) error {
		_ = rc.SetWriteDeadline(time.Now().Add(AnswerMax)) // as above
		err := out.Encode(v)
		if err == nil {
			err = rc.Flush()
		}
		_ = rc.SetWriteDeadline(time.Time{}) // the connection may be used again
		return err
	}
	store := state.IDOf(req.Store)
	for err := send(at); err == nil; {
		_ = rc.SetReadDeadline(time.Now().Add(IdleMax))
		var q question
		body.left = questionMax
		switch err = in.Decode(&q); {
		case errors.Is(err, errLong):
			_ = send(answer{Refusal: &Refusal{Reason: reasonRequest, Text: errLong.Error()}}) // it ends in any case
		case err == nil: // else the client has ended the request, or is gone
			err = send(s.answer(view, store, q))
		}
	}
}

// questionBytes reads the body of a request, and at most left bytes of it.
type questionBytes struct {
	r    io.Reader
	left int
}

// Read is part of io.Reader.
func (q *questionBytes) Read(b []byte) (int, error) {
	if q.left <= 0 {
		return 0, errLong
	}
	n, err := q.r.Read(b[:min(len(b), q.left)])
	q.left -= n
	return n, err
}

// reasonRequest names a mistake of the client.
const reasonRequest = "request"

func (s *Server) refuse(w http.ResponseWriter, err error) {
	reason, status := s.source.Reason(err)
	Refuse(w, status, Refusal{Reason: reason, Text: err.Error()})
}

// answer answers one question.
func (s *Server) answer(view state.View, store state.StoreID, q question) (a answer) {
	var err error
	switch {
	case q.Get != nil:
		a.Value, a.Found, err = view.Get(store, q.Get.Key)
	case q.Scan != nil:
		a.Rows, a.More, err = part(view, store, *q.Scan)
	default:
		return answer{Refusal: &Refusal{Reason: reasonRequest, Text: "this build does not know the question"}}
	}
	if err != nil {
		reason, _ := s.source.Reason(err)
		return answer{Refusal: &Refusal{Reason: reason, Text: err.Error()}}
	}
	return a
}

// part returns the first rows of a scan, and whether there are more.
func part(view state.View, store state.StoreID, q scan) (rows []row, more bool, err error) {
	bytes := 0
	for e, err := range view.Scan(store, state.Range{From: q.From, To: q.To, Reverse: q.Reverse}) {
		if err != nil {
			return nil, false, err
		}
		if len(rows) > 0 && (bytes >= bytesMax || len(rows) >= min(q.Rows, rowsMax)) {
			return rows, true, nil
		}
		rows, bytes = append(rows, row{e.Key, e.Value}), bytes+len(e.Key)+len(e.Value)
	}
	return rows, false, nil
}

// Refuse answers with an error. One that passes says when to ask again.
func Refuse(w http.ResponseWriter, status int, refusal Refusal) {
	// The client may end its request only after the answer. Where this fails there is no such one.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(refusal) // the only way to fail is a client that has gone away
}
