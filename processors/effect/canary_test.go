package effect_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInReasons makes calls fail with errors that quote the request, and looks for it in
// what is told.
func TestNoPayloadInReasons(t *testing.T) {
	value := `{"id":"c1","order":"` + codectest.Canary + `","amount":1}`
	quote := errors.New(value)
	calls := map[string]effect.Func{
		"unknown":   func(context.Context, effect.Call) ([]byte, error) { return nil, quote },
		"terminal":  func(context.Context, effect.Call) ([]byte, error) { return nil, effect.Terminal(quote) },
		"retryable": func(context.Context, effect.Call) ([]byte, error) { return nil, effect.Retryable(quote) },
		"panic":     func(context.Context, effect.Call) ([]byte, error) { panic(value) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, call)
			})
			d.request(value)
			row := d.row("c1")
			if row.Reason == "" || strings.Contains(row.Reason, codectest.Canary) {
				t.Errorf("the reason is %q", row.Reason)
			}
		})
	}
}

// TestNoPayloadInFailures makes requests fail in every way there is.
func TestNoPayloadInFailures(t *testing.T) {
	value := `{"id":"` + codectest.Canary + `","order":"x","amount":1}`
	ways := map[string]func(capture) (effect.Request, error){
		"refused": func(r capture) (effect.Request, error) { return effect.Request{}, errors.New(r.Value.ID) },
		"panic":   func(r capture) (effect.Request, error) { panic(r.Value.ID) },
		"no id":   func(r capture) (effect.Request, error) { return effect.Request{Payload: []byte(r.Value.ID)}, nil },
		"no JSON": func(r capture) (effect.Request, error) {
			return effect.Request{ID: r.Value.ID, Payload: []byte(r.Value.ID)}, nil
		},
		"no type": func(r capture) (effect.Request, error) {
			return effect.Request{ID: "c1", Type: r.Value.ID + "\xff"}, nil
		},
	}
	for name, request := range ways {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				effect.Perform(topology.From(b, capturesTopic), "capture", request, newGateway().capture, effect.PayloadJSON())
			})
			d.Pipe("captures", codectest.Canary, value, topologytest.Header("x", codectest.Canary))
			processortest.WantSilence(t, nil, d.Take("dead"), "x", codectest.Canary)
		})
	}
}
