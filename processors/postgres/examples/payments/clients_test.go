package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// response is the answer to a request, without what a replay may change.
type response struct {
	status             int
	contentType, place string
	body               string
}

// clients send the requests of payments, and ask again until they have an answer.
type clients struct {
	t *testing.T
	// address returns the address of a service at the moment.
	address func(number int) string
	work    chan payment
	client  *http.Client

	mu sync.Mutex
	// answers are those to each key, in the order of their arrival, and reused those to other
	// requests under the key.
	answers, reused map[string][]response

	// answered counts answers, and done payments. The others count what has come instead of an
	// answer.
	answered, done                          atomic.Int64
	lost, unavailable, inProgress, replayed atomic.Int64
}

const (
	services      = 2
	clientsAtWork = 8
)

// newClients starts clients for the payments that are sent to work.
func newClients(t *testing.T, address func(number int) string) *clients {
	c := &clients{t: t, address: address, work: make(chan payment, 1<<16), answers: map[string][]response{}, reused: map[string][]response{}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
		var number int
		if _, err := fmt.Sscanf(host, "service-%d:80", &number); err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, address(number))
	}}
	c.client = &http.Client{Transport: transport}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range clientsAtWork {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for p := range c.work {
				if ctx.Err() == nil {
					c.pay(ctx, random, p)
					c.done.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		close(c.work)
		wg.Wait()
		transport.CloseIdleConnections()
	})
	return c
}

// pay sends all requests of a payment.
func (c *clients) pay(ctx context.Context, random *rand.Rand, p payment) {
	var created accepted
	for _, r := range p.requests {
		first := c.request(ctx, random, created.Payment, r)
		if r.step == "" && first.status == http.StatusAccepted {
			if err := json.Unmarshal([]byte(first.body), &created); err != nil {
				c.t.Errorf("the answer to %s: %v", r.key, err)
			}
		}
	}
}

// request sends one request as its client does, and returns an answer.
func (c *clients) request(ctx context.Context, random *rand.Rand, payment string, r request) response {
	path := "/payments"
	if r.step != "" {
		path += "/" + payment + "/" + r.step
	}
	ask := func(seed uint64) response {
		return c.ask(ctx, rand.New(rand.NewPCG(seed, 0)), path, r)
	}
	if r.hasty {
		gone, leave := context.WithCancel(ctx)
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }}
		_, _ = c.send(httptrace.WithClientTrace(gone, trace), random, path, r) // the client does not care
		leave()
	}
	if r.doubled {
		var wg sync.WaitGroup
		seed := random.Uint64()
		wg.Go(func() { ask(seed) })
		ask(random.Uint64())
		wg.Wait()
	}
	answer := ask(random.Uint64())
	if r.again {
		ask(random.Uint64())
	}
	if r.reused {
		other := r
		other.body = `{"account":"mallory","cents":1}`
		a := c.untilAnswered(ctx, random, path, other)
		c.mu.Lock()
		c.reused[r.key] = append(c.reused[r.key], a)
		c.mu.Unlock()
	}
	return answer
}

// ask sends a request until it is answered.
func (c *clients) ask(ctx context.Context, random *rand.Rand, path string, r request) response {
	a := c.untilAnswered(ctx, random, path, r)
	if ctx.Err() == nil {
		c.mu.Lock()
		c.answers[r.key] = append(c.answers[r.key], a)
		c.mu.Unlock()
		c.answered.Add(1)
	}
	return a
}

func (c *clients) untilAnswered(ctx context.Context, random *rand.Rand, path string, r request) response {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := c.send(ctx, random, path, r)
		switch {
		case err != nil:
			c.lost.Add(1)
		case a.status == http.StatusServiceUnavailable:
			c.unavailable.Add(1)
		case a.status == http.StatusConflict && strings.Contains(a.body, pgrequests.RequestInProgress):
			c.inProgress.Add(1)
		default:
			return a
		}
		select {
		case <-ctx.Done():
			return response{}
		case <-tick.C:
		}
	}
}

// send sends a request to one of the services.
func (c *clients) send(ctx context.Context, random *rand.Rand, path string, r request) (response, error) {
	url := fmt.Sprintf("http://service-%d%s", random.IntN(services), path)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(r.body))
	if err != nil {
		return response{}, err
	}
	q.SetBasicAuth("shop", "")
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(pgrequests.KeyHeader, `"`+r.key+`"`)
	a, err := c.client.Do(q)
	if err != nil {
		return response{}, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if a.Header.Get(pgrequests.ReplayedHeader) == "true" {
		c.replayed.Add(1)
	}
	return response{a.StatusCode, a.Header.Get("Content-Type"), a.Header.Get("Location"), string(body)}, err
}

// get reads what a service shows.
func (c *clients) get(path string, into any) error {
	q, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://service-0"+path, nil)
	if err != nil {
		return err
	}
	a, err := c.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, a.Status)
	}
	return json.NewDecoder(a.Body).Decode(into)
}
