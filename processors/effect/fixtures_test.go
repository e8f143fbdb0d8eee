package effect_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Capture is the request of the tests.
type Capture struct {
	ID     string `json:"id"`
	Order  string `json:"order,omitempty"`
	Amount int64  `json:"amount"`
}

type capture = topology.Record[string, Capture]

var (
	capturesTopic    = topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	conflictsTopic   = topology.Topic("conflicts", schemas.String(), schemas.JSON[Capture]())
	resolutionsTopic = topology.Topic("resolutions", schemas.String(), schemas.JSON[effect.Resolution]())
	resultCodec      = schemas.JSON[effect.Result]()
)

func captureRequest(r capture) (effect.Request, error) {
	payload, err := json.Marshal(r.Value)
	return effect.Request{
		ID: r.Value.ID, Type: "capture", Target: "gateway", BusinessKey: r.Value.Order, Payload: payload,
	}, err
}

// gateway is a provider that does not honour idempotency keys, so that every call that should not
// have been made shows; unless it is idempotent: then it makes one effect of all calls with one
// key, and refuses whatever it likes.
type gateway struct {
	idempotent bool
	mu         sync.Mutex
	// next are what happens to the next calls; after them all is well.
	next []behaviour
	// captured counts the effects, calls the calls, by idempotency key.
	captured, calls map[string]int
	attempts        []int
	during          func()
}

type behaviour int

const (
	fine behaviour = iota
	lost
	cut
	refused
	declined
	panics
	behaviours
)

const errGateway = schemas.Reason("the gateway has failed")

func newGateway(next ...behaviour) *gateway {
	return &gateway{next: next, captured: map[string]int{}, calls: map[string]int{}}
}

func (g *gateway) capture(_ context.Context, c effect.Call) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := fine
	if len(g.next) > 0 {
		b, g.next = g.next[0], g.next[1:]
	}
	g.calls[c.IdempotencyKey]++
	g.attempts = append(g.attempts, c.Attempt)
	if (b == fine || b == lost || b == panics) && (!g.idempotent || g.captured[c.IdempotencyKey] == 0) {
		g.captured[c.IdempotencyKey]++
	}
	if g.during != nil {
		g.during()
	}
	switch b {
	case lost, cut:
		return nil, context.DeadlineExceeded
	case refused:
		return nil, effect.Retryable(errGateway)
	case declined:
		return nil, effect.Terminal(errGateway)
	case panics:
		panic(string(c.Payload))
	}
	return []byte("receipt of " + c.ID), nil
}

func (g *gateway) find(_ context.Context, c effect.Call) (effect.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.captured[c.IdempotencyKey] > 0 {
		return effect.Answer{Status: effect.Completed, Response: []byte("receipt of " + c.ID)}, nil
	}
	return effect.Answer{Status: effect.FailedRetryable}, nil
}

func (g *gateway) count(id string) (calls, captured int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := effect.IdempotencyKey("capture", id)
	return g.calls[key], g.captured[key]
}

// declare declares a ledger of captures all of whose outcomes go to topics.
func declare(b *topology.Builder, g *gateway, opts ...effect.Option) effect.Effects[string, Capture] {
	e := effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, g.capture, opts...)
	for name, s := range map[string]topology.Stream[string, effect.Result]{
		"completed": e.Completed(), "failed": e.Failed(), "unknown": e.Unknown(), "progress": e.InProgress(),
		"suppressed": e.Suppressed(),
	} {
		s.Into(topology.Topic(name, schemas.String(), resultCodec))
	}
	return e
}

// driver is a topologytest.Driver with the clock of the machine.
type driver struct {
	*processortest.Driver
	tb testing.TB
}

func newDriver(tb testing.TB, mode topology.Mode, declare func(b *topology.Builder)) *driver {
	tb.Helper()
	d := processortest.New(tb, declare, topologytest.Clock(time.Now()), topologytest.Mode(mode))
	return &driver{d, tb}
}

// pass lets time pass.
func (d *driver) pass(by time.Duration) {
	d.tb.Helper()
	if err := d.Advance(by); err != nil {
		d.tb.Fatal(err)
	}
}

// request asks for a capture under the key k and lets the next ticks do what is due.
func (d *driver) request(value string, opts ...topologytest.PipeOption) {
	d.tb.Helper()
	d.Pipe("captures", "k", value, opts...)
	d.pass(100 * time.Millisecond)
}

// results returns what a topic got since the last time.
func (d *driver) results(topic string) []effect.Result {
	d.tb.Helper()
	var got []effect.Result
	for _, r := range d.Take(topic) {
		v, err := resultCodec.Decode(r.Value)
		if err != nil || string(r.Key) != "k" {
			d.tb.Fatalf("topic %s got %s: %s, error %v", topic, r.Key, r.Value, err)
		}
		got = append(got, v)
	}
	return got
}

// one returns the only result that a topic got since the last time.
func (d *driver) one(topic string) effect.Result {
	d.tb.Helper()
	got := d.results(topic)
	if len(got) != 1 {
		d.tb.Fatalf("topic %s got %d results: %+v; counts %v", topic, len(got), got, d.Counts())
	}
	return got[0]
}

// row returns the row of an effect.
func (d *driver) row(id string) effect.Effect {
	d.tb.Helper()
	kv, err := topologytest.Store(d.Driver.Driver, effect.Store("capture"), 0)
	if err != nil {
		d.tb.Fatal(err)
	}
	e, has, err := kv.Get(id)
	if err = errors.Join(err, wanted(has)); err != nil {
		d.tb.Fatal(err)
	}
	return e
}

func wanted(has bool) error {
	if !has {
		return errors.New("there is no row")
	}
	return nil
}

const (
	oneOfTen = `{"id":"c1","order":"o1","amount":10}`
	oneOfSix = `{"id":"c1","order":"o1","amount":6}`
)

// largely makes the responses of calls too large to be kept.
func largely(call effect.Func) effect.Func {
	return func(ctx context.Context, c effect.Call) ([]byte, error) {
		_, err := call(ctx, c)
		return make([]byte, effect.ResponseBytesMax+1), err
	}
}
