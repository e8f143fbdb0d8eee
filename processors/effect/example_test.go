package effect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExamplePerform() {
	type Capture struct {
		ID     string `json:"id"`
		Amount int64  `json:"amount"`
	}
	captures := topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	captured := topology.Topic("captured", schemas.String(), schemas.JSON[effect.Result]())

	request := func(r topology.Record[string, Capture]) (effect.Request, error) {
		payload := fmt.Appendf(nil, `{"amount":%d}`, r.Value.Amount)
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway", Payload: payload}, nil
	}
	call := func(_ context.Context, c effect.Call) ([]byte, error) {
		// A real one is an HTTP request with c.IdempotencyKey in a header.
		fmt.Printf("call %s with key %s\n", c.ID, c.IdempotencyKey)
		return []byte("receipt"), nil
	}

	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	done := effect.Perform(topology.From(b, captures), "capture", request, call)
	done.Completed().Into(captured)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d, err := topologytest.New(t, topologytest.Clock(time.Now()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := topologytest.Pipe(d, captures, "account-7", Capture{ID: "c1", Amount: 100}); err != nil {
			fmt.Println(err)
			return
		}
		if err := d.Advance(time.Second); err != nil { // a tick claims the call
			fmt.Println(err)
			return
		}
	}
	results, err := topologytest.Output(d, captured)
	for _, r := range results {
		fmt.Println(r.Value.Status, string(r.Value.ResponseBody), r.Value.Replayed)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// call c1 with key d81bed6d14e31305df81121f7873edea
	// COMPLETED receipt false
	// COMPLETED receipt true
}

// The outcome of a call is unknown if its reply is lost. A person finds it, and sends a resolution.
func ExampleResolve() {
	type Capture struct {
		ID string `json:"id"`
	}
	captures := topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	open := topology.Topic("captures-open", schemas.String(), schemas.JSON[effect.Result]())
	captured := topology.Topic("captured", schemas.String(), schemas.JSON[effect.Result]())
	resolutions := topology.Topic("resolutions", schemas.String(), schemas.JSON[effect.Resolution]())

	request := func(r topology.Record[string, Capture]) (effect.Request, error) {
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway"}, nil
	}
	call := func(context.Context, effect.Call) ([]byte, error) { return nil, errors.New("the reply is lost") }

	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	done := effect.Perform(topology.From(b, captures), "capture", request, call)
	done.Unknown().Into(open)
	done.Completed().Into(captured)
	effect.Resolve(done, topology.From(b, resolutions), "people")
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d, err := topologytest.New(t, topologytest.Clock(time.Now()))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := topologytest.Pipe(d, captures, "account-7", Capture{ID: "c1"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Advance(time.Second); err != nil { // a tick claims the call
		fmt.Println(err)
		return
	}
	unknown, err := topologytest.Output(d, open)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range unknown {
		fmt.Println(r.Value.ID, r.Value.Status, "after attempt", r.Value.Attempts)
		said := effect.Resolution{
			ID: r.Value.ID, Attempts: r.Value.Attempts, Status: effect.Completed, By: "ada", Note: "seen in their console",
		}
		if err := topologytest.Pipe(d, resolutions, r.Key, said); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := d.Advance(time.Second); err != nil { // a tick tells it
		fmt.Println(err)
		return
	}
	results, err := topologytest.Output(d, captured)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Printf("%s %s, says %s: %s\n", r.Value.ID, r.Value.Status, r.Value.ResolvedBy, r.Value.ResolvedNote)
	}
	// Output:
	// c1 UNKNOWN after attempt 1
	// c1 COMPLETED, says ada: seen in their console
}
