//go:build unix

package processing

import (
	"math/bits"
	"runtime"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/processors/projection"
)

// switchCell is a scene: the point at which the switch is killed, and that at which the roll back
// is.
type switchCell struct{ there, back string }

func (c switchCell) name() string { return c.there + ", back " + c.back }

// switchCells have every point of a commit, on the way there and on the way back. Under the race
// detector they have each of them once.
func switchCells() (all []switchCell) {
	for i, point := range commitPoints {
		if virtual.RaceDetector && bits.OnesCount(uint(i))%2 == 1 {
			continue // the cell that goes back at this point, half of the points away, is another one
		}
		all = append(all, switchCell{point, commitPoints[(i+len(commitPoints)/2)%len(commitPoints)]})
	}
	return all
}

// TestKilledDuringASwitch builds a definition beside another one, switches to it and rolls back,
// under load, and kills what is at work on each of that. Requirement D5.
func TestKilledDuringASwitch(t *testing.T) {
	t.Parallel()
	cluster.Cells(t, runtime.GOMAXPROCS(0), switchCells(), switchCell.name, func(t *testing.T, cell switchCell) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) { newDefinitionScene(t, c).run(cell) })
	})
}

// TestKilledDuringASwitchOnKafka does so on a real Kafka, where the end of a transaction and its
// markers are two things. Requirement D5.
func TestKilledDuringASwitchOnKafka(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t)
	some := []switchCell{{"flush-after", "end-after"}, {"offsets-after", "apply-before"}, {"end-after", "end-before"}}
	cluster.Cells(t, inParallelOnKafka, some, switchCell.name, func(t *testing.T, cell switchCell) {
		newDefinitionScene(t, c).run(cell)
	})
}

// run is one scene.
func (s *definitionScene) run(c switchCell) {
	s.t.Helper()
	l := s.start(s.settings)
	s.feed()
	s.finish(l.Alive)
	s.build(l, c.back)
	for _, way := range []struct {
		point    string
		from, to uint16
	}{{c.there, firstDefinition, secondDefinition}, {c.back, secondDefinition, firstDefinition}} {
		s.verify(l, way.from, way.to)
		l.End()
		var c projection.Command
		l, c = s.switches(way.point, way.from, way.to)
		s.repeated(c, way.to)
	}
	s.verify(l, firstDefinition, secondDefinition)
	l.End()
	s.lose()
	l = s.start(s.settings)
	s.feed()
	s.verify(l, firstDefinition, secondDefinition)
	l.End()
	s.second.End()
	s.judge()
}
