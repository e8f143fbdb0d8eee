package capture

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
)

// Gateway is a fake provider, over HTTP: it captures whatever it is asked to, as often as it is
// asked, loses replies, has no time, declines, and does not always know what it has done. It
// honours no idempotency keys, so that every call that should not have been made shows. What
// becomes of a call depends on its key and its number alone, so that it is the same in every run.
// It is safe for concurrent use.
//
//	POST with an Idempotency-Key   200 captured; 402 declined, for good; 429 no time; or the connection breaks, and it is captured
//	GET with an Idempotency-Key    200 captured; 404 not captured; 202 not known yet; 503 no answer
//	GET /books                     its [Books] as JSON
type Gateway struct {
	mu sync.Mutex
	// captured is how often it has captured under a key, called and asked how often it was called
	// and asked.
	captured, called, asked map[string]int
	books                   Books
}

// Books count what a gateway has answered.
type Books struct {
	// Captured, Lost, Busy and Declined are its answers to calls. A lost one was captured, and its
	// answer did not arrive.
	Captured int `json:"captured"`
	Lost     int `json:"lost"`
	Busy     int `json:"busy"`
	Declined int `json:"declined"`
	// Found, Missing, Pending and Failed are its answers to those who ask.
	Found   int `json:"found"`
	Missing int `json:"missing"`
	Pending int `json:"pending"`
	Failed  int `json:"failed"`
}

// NewGateway returns a gateway that has captured nothing.
func NewGateway() *Gateway {
	return &Gateway{captured: map[string]int{}, called: map[string]int{}, asked: map[string]int{}}
}

// Books returns what it has answered so far.
func (g *Gateway) Books() Books {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.books
}

// Captured returns how often it has captured under a key, which is for people: to those who ask
// over HTTP it does not always tell.
func (g *Gateway) Captured(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.captured[key]
}

const receipt = "receipt"

// ServeHTTP answers.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(headerKey)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case r.URL.Path == "/books":
		_ = json.NewEncoder(w).Encode(g.books) // who has asked is gone, if it fails
	case key == "":
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet:
		g.find(w, key)
	default:
		g.capture(w, key)
	}
}

// capture answers a call: of a hundred three are not told, three have to come again, and of a
// hundred keys two are declined.
func (g *Gateway) capture(w http.ResponseWriter, key string) {
	g.called[key]++
	switch f := fate(key, "call", g.called[key]); {
	case f < 3:
		g.captured[key]++
		g.books.Lost++
		panic(http.ErrAbortHandler) // the server hangs up without an answer
	case f < 6:
		g.books.Busy++
		w.WriteHeader(http.StatusTooManyRequests)
	case fate(key, "decline", 0) < 2:
		g.books.Declined++
		w.WriteHeader(http.StatusPaymentRequired)
	default:
		g.captured[key]++
		g.books.Captured++
		fmt.Fprint(w, receipt)
	}
}

// find answers who asks: of a hundred answers fifteen are none and fifteen say that it is not known
// yet, which is all that is ever said of ten keys in a hundred.
func (g *Gateway) find(w http.ResponseWriter, key string) {
	g.asked[key]++
	switch f := fate(key, "ask", g.asked[key]); {
	case f < 15:
		g.books.Failed++
		w.WriteHeader(http.StatusServiceUnavailable)
	case f < 30, fate(key, "never", 0) < 10:
		g.books.Pending++
		w.WriteHeader(http.StatusAccepted)
	case g.captured[key] == 0:
		g.books.Missing++
		w.WriteHeader(http.StatusNotFound)
	default:
		g.books.Found++
		fmt.Fprint(w, receipt)
	}
}

// fate is a number below 100: the same for the same key, question and number of times that it was
// put.
func fate(key, question string, times int) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, question, " ", times, " ", key) // never fails
	return h.Sum32() % 100
}
