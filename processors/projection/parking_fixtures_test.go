package projection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	parkedTopic    = topology.Topic("parked", schemas.String(), schemas.JSON[projection.Gap[string]]())
	abandonedTopic = topology.Topic("abandoned", schemas.String(), schemas.JSON[projection.Abandoned[string]]())
	repairsTopic   = topology.Topic("repairs", schemas.String(), schemas.JSON[projection.Repair]())
)

// limits are wide in number and eight seconds of stream time; a look is a second apart.
func limits(then projection.GapPolicy) projection.Limits {
	return projection.Limits{Records: 100, StreamTime: 8 * time.Second, Then: then}
}

// wide has no limit that a test reaches.
var wide = projection.Limits{Records: 1000, StreamTime: 1000 * time.Hour}

// waiting declares a projection with RepairGaps all of whose outcomes go to topics. Versions begin
// with 1.
func waiting(b *topology.Builder, l projection.Limits, opts ...projection.Option) texts {
	opts = append(opts, projection.RepairGaps(textCodec, l), projection.FirstVersion(1))
	p := routed(b, l.Then == projection.AcceptLatest, opts...)
	p.Repairs().Into(repairsTopic)
	topology.MapValues(p.Parked(), "plain-parked",
		func(g projection.Gap[text]) (projection.Gap[string], error) {
			return projection.Gap[string]{
				Incarnation: g.Incarnation, Expected: g.Expected, Actual: g.Actual, Value: g.Value.Or("null"),
			}, nil
		}).Into(parkedTopic)
	topology.MapValues(p.Abandoned(), "plain-abandoned",
		func(a projection.Abandoned[text]) (projection.Abandoned[string], error) {
			return projection.Abandoned[string]{
				Reason: a.Reason, Message: a.Message, Incarnation: a.Incarnation, Expected: a.Expected,
				Actual: a.Actual, Value: a.Value.Or("null"),
			}, nil
		}).Into(abandonedTopic)
	return p
}

func newWaiting(tb testing.TB, l projection.Limits, opts ...projection.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) { waiting(b, l, opts...) })
}

// second returns the option that gives a record that time.
func second(n int) topologytest.PipeOption { return topologytest.At(time.Unix(int64(n), 0)) }

// sendAt is send with a time in seconds.
func sendAt(d *processortest.Driver, seconds int, events ...string) {
	for _, e := range events {
		v, s, _ := strings.Cut(e, ":")
		opts := []topologytest.PipeOption{topologytest.Header("version", v), second(seconds)}
		if s == "-" {
			d.PipeNull("events", "k", opts...)
			continue
		}
		d.Pipe("events", "k", fmt.Sprintf("%q", s), opts...)
	}
}

// tick moves the stream time with a record of another key.
func tick(d *processortest.Driver, seconds int) {
	d.Pipe("events", "other", `"tick"`, topologytest.Header("version", "1"), second(seconds))
	for _, topic := range []string{"changes", "stale"} {
		for range d.Take(topic) { // the row of the other key
		}
	}
}

// noneWaits fails the test if a record waits.
func noneWaits(tb testing.TB, d *processortest.Driver) {
	tb.Helper()
	if a, b := len(d.Rows("texts-parked", 0)), len(d.Rows("texts-queues", 0)); a != 0 || b != 0 {
		tb.Errorf("%d records and %d queues are left", a, b)
	}
}
