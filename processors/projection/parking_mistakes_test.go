package projection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func TestParkingMistakes(t *testing.T) {
	from := func(b *topology.Builder) textStream { return topology.From(b, eventsTopic) }
	bad := projection.Limits{Records: 0, WallClock: time.Microsecond, Then: 7}
	for want, opts := range map[string][]projection.Option{
		"OnGap, ParkGaps and RepairGaps contradict each other": {
			projection.ParkGaps(textCodec, wide), projection.OnGap(projection.FailFast)},
		"Sparse contradicts FirstVersion": {projection.Sparse(), projection.FirstVersion(1)},
		"ParkGaps: Limits.Records is 0; it takes at least 1\na time in Limits is 1µs; it takes whole milliseconds, or 0\n" +
			"Limits.Then: gap-policy(7) is no policy": {projection.ParkGaps(textCodec, bad)},
		"RepairGaps: Limits has neither StreamTime nor WallClock": {
			projection.RepairGaps(textCodec, projection.Limits{Records: 1})},
		"ParkGaps: the codec is nil":               {projection.ParkGaps[text](nil, wide)},
		"the codec of the records that wait is a ": {projection.ParkGaps(schemas.Int64(), wide)},
		"Incarnation: the function is nil":         {projection.Incarnation[string, text](nil)},
		"Incarnation is a func": {projection.Incarnation(func(topology.Record[string, int64]) (int64, error) {
			return 0, nil
		})},
	} {
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			projection.Latest(from(b), "texts", version, appendText, listCodec, opts...)
			return processortest.Above()
		}, want)
	}
	for want, declare := range map[string]func(p texts){
		"Parked is used, but no record waits":       func(p texts) { use(p.Parked()) },
		"Abandoned is used, but no record waits":    func(p texts) { use(p.Abandoned()) },
		"Repairs is used, but nothing is asked for": func(p texts) { use(p.Repairs()) },
	} {
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			p := projection.Latest(from(b), "texts", version, appendText, listCodec)
			line := processortest.Above()
			declare(p)
			return line
		}, want)
	}
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		p := projection.Latest(from(b), "texts", version, appendText, listCodec, projection.ParkGaps(textCodec, wide))
		line := processortest.Above()
		use(p.Abandoned())
		p.Gaps().Into(topology.Topic("gaps", schemas.String(), schemas.JSON[projection.Gap[text]]()))
		return line
	}, "Gaps is used, but no gap is accepted; Limits.Then does it with AcceptLatest")
}

// TestD3AbandonedCannotDie: what is abandoned has no record at work that could become a dead letter
// on purpose, however far behind.
func TestD3AbandonedCannotDie(t *testing.T) {
	declare := func(b *topology.Builder) topology.Stream[string, projection.Abandoned[text]] {
		return projection.Latest(topology.From(b, eventsTopic), "texts", version, appendText, listCodec,
			projection.ParkGaps(textCodec, wide)).Abandoned()
	}
	for _, behind := range []bool{false, true} {
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			abandoned := declare(b)
			if behind {
				abandoned = abandoned.Filter("large", func(topology.Record[string, projection.Abandoned[text]]) (bool, error) {
					return false, nil
				})
			}
			deadletter.Send(abandoned, "lost", topology.Validation, "it was abandoned")
			return processortest.Above()
		}, "what a projection abandons has no record at work whose dead letter it could be")
	}
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	plain := topology.MapValues(declare(b), "plain", func(v projection.Abandoned[text]) (string, error) {
		return v.Message, nil
	})
	deadletter.Send(topology.RepartitionWith(plain, "lost", schemas.String(), schemas.String()), "lost", topology.Validation, "it was abandoned")
	if _, err := b.Build(); err != nil {
		t.Errorf("behind a repartition topic it is a mistake too: %v", err)
	}
}

// use declares a node that gets the records of s.
func use[V any](s topology.Stream[string, V]) {
	s.Filter("end", func(topology.Record[string, V]) (bool, error) { return false, nil })
}

// TestWaitingMustBeUsed: Build refuses a projection that could lose what it abandons, or what it
// asks for.
func TestWaitingMustBeUsed(t *testing.T) {
	for want, opt := range map[string]projection.Option{
		"nothing uses Abandoned": projection.ParkGaps(textCodec, wide),
		"nothing uses Repairs":   projection.RepairGaps(textCodec, wide),
	} {
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			p := projection.Latest(topology.From(b, eventsTopic), "texts", version, appendText, listCodec, opt)
			line := processortest.Above()
			if strings.Contains(want, "Repairs") {
				use(p.Abandoned())
			}
			return line
		}, want)
	}
}
