package pgrequests

import (
	"fmt"
	"net/http"

	"github.com/onceward/onceward/schemas"
)

const errResponseTooLong = schemas.Reason("the response is too long to be stored")

// recorder keeps what a Func answers until its transaction has ended.
type recorder struct {
	header http.Header
	sent   http.Header // as they were when the status was set: what is set later is not part of the answer
	status int
	body   []byte
	failed bool
}

// Header returns the headers of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader sets the status, once. Informational statuses are not sent. It panics where that of
// net/http would, which is before the COMMIT.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("pgrequests: invalid status %d", status))
	}
	if r.status == 0 && status >= http.StatusOK {
		r.status, r.sent = status, r.header.Clone()
	}
}

// Write appends to the body.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if len(r.body)+len(b) > ResponseBytesMax {
		r.failed = true
		return 0, errResponseTooLong
	}
	r.body = append(r.body, b...)
	return len(b), nil
}

// response returns the answer.
func (r *recorder) response() (Response, error) {
	r.WriteHeader(http.StatusOK)
	a := Response{Status: r.status, Header: r.sent, Body: r.body}
	if r.failed || a.check() != nil {
		return Response{}, errResponseTooLong
	}
	return a, nil
}

// send writes an answer.
func (r Response) send(w http.ResponseWriter) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // a client that is gone asks again
}
