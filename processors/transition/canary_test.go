package transition_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInFailures makes records whose key, id, states and headers hold a canary fail in
// every way there is, and looks for it in the headers of the dead letter and in the error of a task
// that stops.
func TestNoPayloadInFailures(t *testing.T) {
	const canary State = codectest.Canary
	id := codectest.Canary
	header := "\x01" + strings.Repeat("\x00", 7) + "\x01" + strings.Repeat("\x00", 8)
	placed, accepted := header+"\x01\x06placed", header+"\x00\x06placed"
	ways := map[string]struct {
		ask             transition.Transition[State]
		err             error
		aggregate, fact string
		opts            []transition.Option
	}{
		"error":         {err: errors.New(id)},
		"panic":         {err: errPanic},
		"missing id":    {ask: transition.Transition[State]{From: canary, To: canary}},
		"not UTF-8":     {ask: transition.Transition[State]{ID: id + "\xff", From: canary, To: canary}},
		"too long":      {ask: transition.Transition[State]{ID: strings.Repeat(id, 100), From: canary, To: canary}},
		"no state":      {ask: transition.Transition[State]{ID: id, From: canary}},
		"no version":    {ask: transition.Transition[State]{ID: id, From: canary, To: canary}, opts: versioned},
		"with version":  {ask: transition.Transition[State]{ID: id, From: canary, To: canary, Version: 1}},
		"illegal":       {ask: transition.Transition[State]{ID: id, From: canary, To: canary}},
		"missing":       {ask: transition.Transition[State]{ID: id, From: Placed, To: Paid}},
		"stale":         {ask: transition.Transition[State]{ID: id, To: Placed}, aggregate: placed},
		"out of order":  {ask: transition.Transition[State]{ID: id, From: Paid, To: Shipped}, aggregate: placed},
		"corruption":    {ask: transition.Transition[State]{ID: id, To: canary}, aggregate: placed, fact: accepted},
		"history":       {ask: transition.Transition[State]{ID: id, To: Placed}, fact: accepted},
		"unknown state": {ask: transition.Transition[State]{ID: id, To: Placed}, aggregate: header + "\x01\x06canary"},
		"other format":  {ask: transition.Transition[State]{ID: id, To: Placed}, aggregate: codectest.Canary},
		"damaged row":   {ask: transition.Transition[State]{ID: id, To: Placed}, aggregate: header + "\x02" + codectest.Canary},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				read := func(r ask) (transition.Transition[State], error) {
					if errors.Is(way.err, errPanic) {
						panic(r.Value.ID)
					}
					return way.ask, way.err
				}
				transition.Guard(topology.From(b, askTopic), "orders", orders, read, way.opts...)
			})
			if way.aggregate != "" {
				d.SetRow("orders-aggregates", codectest.Canary, way.aggregate)
			}
			if way.fact != "" {
				d.SetRow("orders-transitions", codectest.Canary+"\x00\x01"+id, way.fact)
			}
			err := d.PipeRaw("asks", []byte(codectest.Canary), []byte(`{"id":"`+id+`"}`),
				topologytest.Header("x", codectest.Canary))
			processortest.WantSilence(t, err, d.Take("dead"), "x", codectest.Canary)
		})
	}
}

var errPanic = errors.New("panic")
