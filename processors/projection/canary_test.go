package projection_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInFailures makes records whose key, value and headers hold the canary fail in every way there
// is, and looks for it in the headers of the dead letter and in the error of a task that stops.
func TestNoPayloadInFailures(t *testing.T) {
	quote := errors.New(codectest.Canary)
	badVersion := func(event) (int64, error) { return 0, quote }
	badFold := func([]string, bool, event) ([]string, error) { return nil, quote }
	panicking := func(_ []string, _ bool, r event) ([]string, error) { panic(r.Value.Or("")) }
	const ofVersion1 = "\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	ways := map[string]struct {
		version func(event) (int64, error)
		fold    func([]string, bool, event) ([]string, error)
		row     string
	}{
		"gap":              {version: version, fold: appendText, row: "\x01\x00\x01" + ofVersion1 + "[]"},
		"version":          {version: badVersion, fold: appendText},
		"fold":             {version: version, fold: badFold},
		"panic":            {version: version, fold: panicking},
		"other definition": {version: version, fold: appendText, row: "\x01\x00\x02" + ofVersion1 + "[]"},
		"other format":     {version: version, fold: appendText, row: codectest.Canary},
		"other state": {version: version, fold: appendText,
			row: "\x01\x00\x01" + ofVersion1 + codectest.Canary},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				projection.Latest(topology.From(b, eventsTopic), "texts", way.version, way.fold, listCodec)
			})
			if way.row != "" {
				d.SetRow("texts", codectest.Canary, way.row)
			}
			err := d.PipeRaw("events", []byte(codectest.Canary), []byte(`"`+codectest.Canary+`"`),
				topologytest.Header("x", codectest.Canary), topologytest.Header("version", "3"))
			processortest.WantSilence(t, err, d.Take("dead"), "x", codectest.Canary)
		})
	}
}
