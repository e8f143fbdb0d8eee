package processing

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
)

// provider pays out.
type provider interface {
	pay(ctx context.Context, key string) (receipt []byte, err error)
	find(ctx context.Context, c effect.Call) (effect.Answer, error)
}

const (
	headerKey = "Idempotency-Key"
	// headerUntil is until when the caller waits. A later call is not paid: the ledger makes no
	// promise for a caller that was frozen between its decision to call and the call itself
	// (package effect), which would happen here sometimes.
	headerUntil = "Wanted-Until"
)

// Gateway is a provider that does not honour idempotency keys, so that every call that should not
// have been made shows. Of one key in so many the first reply is lost. It is safe for concurrent
// use.
type Gateway struct {
	mu     sync.Mutex
	paid   map[string]int
	losing byte
}

// Of how many keys the providers lose the first reply to one.
const (
	gatewayLoses = 7
	postLoses    = 2
)

// NewGateway returns a gateway that has paid nothing, and loses the first reply of one key in so
// many.
func NewGateway(losing byte) *Gateway { return &Gateway{paid: map[string]int{}, losing: losing} }

// payment makes the payment, and reports whether the caller gets the answer.
func (g *Gateway) payment(key string) (told bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paid[key]++
	return g.paid[key] > 1 || key[0]%g.losing != 0
}

func (g *Gateway) times(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paid[key]
}

// all returns how often each key was paid.
func (g *Gateway) all() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]int, len(g.paid))
	for key, n := range g.paid {
		out[key] = n
	}
	return out
}

// ServeHTTP makes it a server for pipelines in other processes.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(headerKey)
	until, err := time.Parse(time.RFC3339Nano, r.Header.Get(headerUntil))
	late := err == nil && time.Now().After(until)
	switch {
	case key == "":
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet && g.times(key) == 0:
		w.WriteHeader(http.StatusNotFound)
	case late && r.Method == http.MethodPost:
		panic(http.ErrAbortHandler)
	case r.Method == http.MethodGet || g.payment(key):
		_, _ = io.WriteString(w, receipt)
	default:
		panic(http.ErrAbortHandler) // the server hangs up without an answer
	}
}

const receipt = "receipt"

const errLost = schemas.Reason("the reply is lost")

func (g *Gateway) pay(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // as what comes later than wanted is not paid
	}
	if !g.payment(key) {
		return nil, errLost
	}
	return []byte(receipt), nil
}

func (g *Gateway) find(_ context.Context, c effect.Call) (effect.Answer, error) {
	return found(g.times(c.IdempotencyKey) > 0), nil
}

func found(paid bool) effect.Answer {
	if paid {
		return effect.Answer{Status: effect.Completed, Response: []byte(receipt)}
	}
	return effect.Answer{Status: effect.FailedRetryable}
}

// client is the other side of a gateway in another process.
type client struct{ url string }

func (c client) pay(ctx context.Context, key string) ([]byte, error) {
	body, _, err := c.do(ctx, http.MethodPost, key)
	return body, err
}

func (c client) find(ctx context.Context, call effect.Call) (effect.Answer, error) {
	_, status, err := c.do(ctx, http.MethodGet, call.IdempotencyKey)
	return found(status == http.StatusOK), err
}

func (c client) do(ctx context.Context, method, key string) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	// A connection of its own: Go's transport makes a request with this header again by itself
	// where one breaks that was used before, which would be a call of which the ledger knows
	// nothing.
	r.Close = true
	r.Header.Set(headerKey, key)
	if until, ok := ctx.Deadline(); ok {
		r.Header.Set(headerUntil, until.Format(time.RFC3339Nano))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}
