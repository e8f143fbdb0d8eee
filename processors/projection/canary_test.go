package projection_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInFailures makes records whose key, value and headers hold the canary fail in every
// way there is, and looks for it in the headers of the dead letter and in the error of a task that
// stops.
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

// TestNoPayloadInWaiting does the same for records that wait, and looks at what is said of the
// abandoned ones.
func TestNoPayloadInWaiting(t *testing.T) {
	full := wide
	full.Records = 1
	ways := map[string]struct {
		events        []string
		fold          func([]string, bool, event) ([]string, error)
		record, queue string
	}{
		"full":            {events: []string{"3", "4"}},
		"below the first": {events: []string{"0"}},
		"fold": {events: []string{"2", "1"}, fold: func([]string, bool, event) ([]string, error) {
			return nil, errors.New(codectest.Canary)
		}},
		"panic": {events: []string{"2", "1"}, fold: func([]string, bool, event) ([]string, error) {
			panic(codectest.Canary)
		}},
		"damaged queue":  {events: []string{"3"}, queue: codectest.Canary},
		"damaged record": {events: []string{"1"}, queue: queueOfOne, record: codectest.Canary},
		"other version":  {events: []string{"1"}, queue: queueOfOne, record: "\x02" + codectest.Canary},
		"damaged headers": {
			events: []string{"1"}, queue: queueOfOne,
			record: "\x01\x00" + nines + "\x00\x00\x00\x09" + codectest.Canary,
		},
		"null with a rest": {
			events: []string{"1"}, queue: queueOfOne,
			record: "\x01\x01" + nines + "\x00\x00\x00\x00" + codectest.Canary,
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			fold := appendText
			if way.fold != nil {
				fold = func(old []string, has bool, r event) ([]string, error) {
					if v, err := version(r); err != nil || v == 1 {
						return appendText(old, has, r)
					}
					return way.fold(old, has, r)
				}
			}
			var err error
			d := processortest.New(t, func(b *topology.Builder) {
				p := projection.Latest(topology.From(b, eventsTopic), "texts", version, fold, listCodec,
					projection.ParkGaps(textCodec, full), projection.FirstVersion(1))
				p.Abandoned().Peek("message", func(r topology.Record[string, projection.Abandoned[text]]) error {
					err = errors.Join(err, errors.New(r.Value.Message))
					return nil
				})
			})
			if way.queue != "" {
				d.SetRow("texts-queues", codectest.Canary, way.queue)
			}
			if way.record != "" {
				d.SetRow("texts-parked", codectest.Canary+"\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00"+
					"\x80\x00\x00\x00\x00\x00\x00\x02", way.record)
			}
			for _, v := range way.events {
				failed := d.PipeRaw("events", []byte(codectest.Canary), []byte(`"`+codectest.Canary+`"`),
					topologytest.Header("x", codectest.Canary), topologytest.Header("version", v))
				err = errors.Join(err, failed)
			}
			processortest.WantSilence(t, err, d.Take("dead"), "x", codectest.Canary)
		})
	}
}

const nines = "\x09\x09\x09\x09\x09\x09\x09\x09"

// queueOfOne is the queue of one record with version 2.
var queueOfOne = "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00" +
	"\x80\x00\x00\x00\x00\x00\x00\x02" + strings.Repeat("\x00", 16)
