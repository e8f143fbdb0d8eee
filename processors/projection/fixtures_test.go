package projection_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The tests project a text onto the list of all texts so far, so that a fold too many or too few
// shows. Texts may be null; versions are in a header, since a null has no other place for them.
type (
	text       = topology.Option[string]
	event      = topology.Record[string, text]
	row        = projection.Row[[]string]
	texts      = projection.Projection[string, text, []string]
	textStream = topology.Stream[string, text]
)

var (
	textCodec    = topology.Nullable(schemas.JSON[string]())
	eventsTopic  = topology.Topic("events", schemas.String(), textCodec)
	listCodec    = schemas.JSON[[]string]()
	changesTopic = topology.Topic("changes", schemas.String(), schemas.JSON[row]())
	// The codecs of skipped records and gaps need a value with a JSON form.
	staleTopic = topology.Topic("stale", schemas.String(), schemas.JSON[projection.Skipped[string]]())
	gapsTopic  = topology.Topic("gaps", schemas.String(), schemas.JSON[projection.Gap[string]]())
)

func version(r event) (int64, error) {
	v, ok := r.Header("version")
	if !ok {
		return 0, schemas.Reason("the version is missing")
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, topology.Fail(topology.Poison, schemas.Reason("the version is no number"))
	}
	return n, nil
}

func appendText(old []string, has bool, r event) ([]string, error) {
	if has != (old != nil) {
		return nil, schemas.Reason("there is a state exactly when has is true")
	}
	s, _ := r.Value.Get()
	if s == "fail" {
		return nil, schemas.Reason("asked to")
	}
	return append(old, s), nil
}

// routed declares a projection all of whose outcomes go to topics.
func routed(b *topology.Builder, gaps bool, opts ...projection.Option) texts {
	p := projection.Latest(topology.From(b, eventsTopic), "texts", version, appendText, listCodec, opts...)
	p.Changes().Into(changesTopic)
	topology.MapValues(p.Stale(), "plain-stale",
		func(s projection.Skipped[text]) (projection.Skipped[string], error) {
			return projection.Skipped[string]{
				Outcome: s.Outcome, Version: s.Version, Applied: s.Applied, Value: s.Value.Or("null"),
			}, nil
		}).Into(staleTopic)
	if gaps {
		topology.MapValues(p.Gaps(), "plain-gaps",
			func(g projection.Gap[text]) (projection.Gap[string], error) {
				return projection.Gap[string]{Expected: g.Expected, Actual: g.Actual, Value: g.Value.Or("null")}, nil
			}).Into(gapsTopic)
	}
	return p
}

func newRouted(tb testing.TB, gaps bool, opts ...projection.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) { routed(b, gaps, opts...) })
}

// send pipes events to the key k, written as version:text, where a text of "-" is a null.
func send(d *processortest.Driver, events ...string) {
	for _, e := range events {
		v, s, _ := strings.Cut(e, ":")
		header := topologytest.Header("version", v)
		if s == "-" {
			d.PipeNull("events", "k", header)
			continue
		}
		d.Pipe("events", "k", fmt.Sprintf("%q", s), header)
	}
}
