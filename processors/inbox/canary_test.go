package inbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInFailures makes records whose key, id, value and headers hold the canary fail in
// every way there is, and looks for it in the headers of the dead letter and in the error of a task
// that stops.
func TestNoPayloadInFailures(t *testing.T) {
	hash := inbox.PayloadHash(func(payment) (h [32]byte, err error) { return h, errors.New(codectest.Canary) })
	ways := map[string]struct {
		id   func(payment) (string, error)
		opts []inbox.Option
	}{
		"conflict":  {id: paymentID},
		"missing":   {id: func(payment) (string, error) { return "", nil }},
		"malformed": {id: func(r payment) (string, error) { return "", errors.New(r.Value.Note) }},
		"panic":     {id: func(r payment) (string, error) { panic(r.Value.Note) }},
		"not UTF-8": {id: func(r payment) (string, error) { return r.Value.Note + "\xff", nil }},
		"too long":  {id: func(r payment) (string, error) { return strings.Repeat(r.Value.Note, 1000), nil }},
		"no hash":   {id: paymentID, opts: []inbox.Option{hash}},
	}
	classes := []topology.Class{topology.Conflict, topology.Validation, topology.Poison}
	for name, way := range ways {
		for _, action := range []topology.Action{topology.DeadLetter, topology.Stop} {
			t.Run(name+", "+action.String(), func(t *testing.T) {
				opts := way.opts
				for _, class := range classes {
					opts = append(opts, inbox.OnError(class, topology.Policy{Action: action}))
				}
				d := processortest.New(t, func(b *topology.Builder) {
					inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", way.id, inbox.Kept(opts...)...)
				})
				key := []byte(codectest.Canary)
				header := topologytest.Header("x", codectest.Canary)
				value := `{"id":"` + codectest.Canary + `","note":"` + codectest.Canary
				err := errors.Join(
					d.PipeRaw("payments", key, []byte(value+`"}`), header),
					d.PipeRaw("payments", key, []byte(value+` and more"}`), header))
				if (err == nil) != (action == topology.DeadLetter) {
					t.Fatal(err)
				}
				processortest.WantSilence(t, err, d.Take("dead"), "x", codectest.Canary)
			})
		}
	}
}
