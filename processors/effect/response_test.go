package effect_test

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestResponsesAreOfTheLastOutcome: the end of an effect is not told with what was said of an
// attempt that failed.
func TestResponsesAreOfTheLastOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		last []byte
		hash int
		body string
	}{
		"none":      {nil, 0, ""},
		"empty":     {[]byte{}, 64, ""},
		"short":     {[]byte("receipt"), 64, "receipt"},
		"too large": {make([]byte, effect.ResponseBytesMax+1), 64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			call := func(_ context.Context, c effect.Call) ([]byte, error) {
				if c.Attempt == 1 {
					return []byte("busy"), effect.Retryable(schemas.Reason("busy"))
				}
				return test.last, nil
			}
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				e := effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, call)
				e.Completed().Into(topology.Topic("completed", schemas.String(), resultCodec))
			})
			d.request(oneOfTen)
			if row := d.row("c1"); row.Status != effect.FailedRetryable || string(row.ResponseBody) != "busy" {
				t.Fatalf("the row is %+v", row)
			}
			d.pass(time.Minute)
			if r := d.one("completed"); len(r.Response) != test.hash || string(r.ResponseBody) != test.body {
				t.Errorf("the response is %q, and its hash %q", r.ResponseBody, r.Response)
			}
		})
	}
}

// TestResponsesOfPeople: what a person says has the response that the person gives, or none.
func TestResponsesOfPeople(t *testing.T) {
	call := func(context.Context, effect.Call) ([]byte, error) {
		return []byte("internal error"), schemas.Reason("internal error")
	}
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, call)
		e.Completed().Into(topology.Topic("completed", schemas.String(), resultCodec))
		effect.Resolve(e, topology.From(b, resolutionsTopic), "people")
	})
	d.request(oneOfTen)
	d.Pipe("resolutions", "k", `{"id":"c1","attempts":1,"status":"COMPLETED","by":"ada"}`)
	d.pass(time.Second)
	if r := d.one("completed"); r.Response != "" || r.ResponseBody != nil {
		t.Errorf("the result is %+v", r)
	}
}
