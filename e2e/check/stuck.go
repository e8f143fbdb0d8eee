package check

import "fmt"

// stuck judges the samples of logs: a last stable offset below the high watermark has to move
// before any transaction could have timed out. What an open transaction of a living client may hold
// it for is within that bound.
type stuck struct {
	*judge
	behind map[logAt]*behind
}

type logAt struct {
	topic     string
	partition int32
}

// behind is how long a partition has been held at one offset.
type behind struct {
	stable      int64
	since, last int64
	told        bool
}

// sampleGapMax is the time in milliseconds without a sample after which the clock starts anew: the
// broker was down, and a transaction does not time out without it.
const sampleGapMax = 5000

func newStuck(j *judge) *stuck { return &stuck{judge: j, behind: map[logAt]*behind{}} }

func (s *stuck) see(e *Event) {
	if e.Log == nil {
		return
	}
	l := e.Log
	at := logAt{l.Topic, l.Partition}
	b := s.behind[at]
	if b == nil || l.Stable >= l.End || b.stable != l.Stable || e.At-b.last > sampleGapMax {
		s.behind[at] = &behind{stable: l.Stable, since: e.At, last: e.At}
		return
	}
	b.last = e.At
	if held := e.At - b.since; held > s.spec.OpenMax.Milliseconds() && !b.told {
		b.told = true
		s.found(Anomaly{Kind: Stuck, Topic: l.Topic, Partition: l.Partition, Offset: l.Stable,
			Detail: fmt.Sprintf("the last stable offset has stayed there for %d ms, the high watermark is %d", held, l.End)})
	}
}

func (s *stuck) end() {}
