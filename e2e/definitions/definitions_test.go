//go:build unix

package definitions

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/projection"
)

func TestMain(m *testing.M) { instance.Main(m) }

// cell is a scene: the point at which the switch is killed, and that at which the roll back is.
type cell struct{ there, back string }

func (c cell) name() string { return c.there + ", back " + c.back }

// cells have every point of a commit, on the way there and on the way back.
func cells() (all []cell) {
	for i, point := range points {
		all = append(all, cell{point, points[(i+len(points)/2)%len(points)]})
	}
	return all
}

// How many scenes run at a time: they wait most of the time, and a broker is slower than none.
const (
	inParallel        = 4
	inParallelOnKafka = 3
)

// TestD5KilledInMidSwitch builds a definition beside another one, switches to it and rolls back, under load, and kills what is at work on
// each of that.
func TestD5KilledInMidSwitch(t *testing.T) {
	t.Parallel()
	c := cluster.Embedded(t)
	cluster.Cells(t, inParallel, cells(), cell.name, func(t *testing.T, cell cell) { newScene(t, c).run(cell) })
}

// TestD5KilledInMidSwitchOnKafka does so on a real Kafka, where the end of a transaction and its markers are two things.
func TestD5KilledInMidSwitchOnKafka(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t)
	some := []cell{{"flush-after", "end-after"}, {"offsets-after", "apply-before"}, {"end-after", "end-before"}}
	cluster.Cells(t, inParallelOnKafka, some, cell.name, func(t *testing.T, cell cell) { newScene(t, c).run(cell) })
}

// run is one scene.
func (s *scene) run(c cell) {
	s.t.Helper()
	l := s.start(s.settings)
	s.feed()
	s.finish(l.Alive)
	s.build(l, c.back)
	for _, way := range []struct {
		point    string
		from, to uint16
	}{{c.there, First, Second}, {c.back, Second, First}} {
		s.verify(l, way.from, way.to)
		l.End()
		var c projection.Command
		l, c = s.switches(way.point, way.from, way.to)
		s.repeated(c, way.to)
	}
	s.verify(l, First, Second)
	l.End()
	s.lose()
	l = s.start(s.settings)
	s.feed()
	s.verify(l, First, Second)
	l.End()
	s.second.End()
	s.judge()
}
