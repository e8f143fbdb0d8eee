package drill_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"sync"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
)

// gateway is the provider: it captures whatever it is asked to, as often as it is asked, and keeps count.
type gateway struct {
	mu       sync.Mutex
	captured map[string]int
	calls    map[string]int
	lost     int
	refused  int
	lookups  int
}

func newGateway() *gateway { return &gateway{captured: map[string]int{}, calls: map[string]int{}} }

// total is how often it was called to capture something.
func (g *gateway) total() (calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, times := range g.calls {
		calls += times
	}
	return calls
}

// fate is what happens to a call: the same for the same request and attempt, whoever makes it.
func fate(key string, call int) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, key, call)
	return h.Sum32() % 100
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method == http.MethodGet {
		g.lookups++
		if g.captured[key] == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "receipt")
		return
	}
	g.calls[key]++
	switch f := fate(key, g.calls[key]); {
	case f < 3: // captured, and nobody is told
		g.captured[key]++
		g.lost++
		panic(http.ErrAbortHandler)
	case f < 6:
		g.refused++
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case fate(key, 0) < 2: // for good
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	g.captured[key]++
	fmt.Fprint(w, "receipt")
}

// caller is the other side, in the application.
type caller struct{ url string }

const errRefused = schemas.Reason("the gateway has refused")

func (c caller) capture(ctx context.Context, call effect.Call) ([]byte, error) {
	body, status, err := c.do(ctx, http.MethodPost, call)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return body, nil
	case status == http.StatusTooManyRequests:
		return nil, effect.Retryable(errRefused)
	}
	return nil, effect.Terminal(errRefused)
}

func (c caller) find(ctx context.Context, call effect.Call) (effect.Answer, error) {
	body, status, err := c.do(ctx, http.MethodGet, call)
	switch {
	case err != nil:
		return effect.Answer{}, err
	case status == http.StatusOK:
		return effect.Answer{Status: effect.Completed, Response: body}, nil
	}
	return effect.Answer{Status: effect.FailedRetryable}, nil
}

func (c caller) do(ctx context.Context, method string, call effect.Call) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(call.Payload))
	if err != nil {
		return nil, 0, err
	}
	// Go's client sends a request with this header again by itself when a connection breaks; that would be a call of
	// which the ledger knows nothing.
	r.GetBody = nil
	r.Header.Set("Idempotency-Key", call.IdempotencyKey)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}
