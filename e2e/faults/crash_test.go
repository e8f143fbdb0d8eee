//go:build unix

package faults

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/virtual"
)

// TestEveryPointHasCells: a point without cells, and a row without a point, are found.
func TestEveryPointHasCells(t *testing.T) {
	all := instance.Points()
	if err := coverage(all); err != nil {
		t.Fatal(err)
	}
	if coverage(all[1:]) == nil || coverage(append(all, "new-point")) == nil {
		t.Error("a point without a row, or a row without a point, was not found")
	}
}

// TestEveryPoint runs the crash matrix and its variants on virtual time. With -short it runs every
// kill and two of five other cells, under the race detector every fifth cell.
//
// Rows of the failure matrix: crash before processing; crash after processing before flush; crash
// after flush before offsets; crash after offsets before end. Rows of the failure matrix: crash after
// end before the local apply; crash after the apply; worker frozen past its session and back.
func TestEveryPoint(t *testing.T) {
	t.Parallel()
	cells := append(matrix(actions...), variants()...)
	n := -1
	cells = slices.DeleteFunc(cells, func(c crashCell) bool {
		n++ // neighbours are other actions at the same point, of which there are not five
		switch {
		case virtual.RaceDetector: // under which the whole matrix takes minutes
			return n%5 != 0
		case testing.Short():
			return n%5 > 1 && c.action != kill
		}
		return false
	})
	eachVirtual(t, cells, crashCell.name, runCrash)
}

// TestEveryPointOnKafka kills at every point, and freezes where a zombie could do harm. With -short
// it uses only the points of the commit: on real Kafka its end and its markers are two things.
//
// Rows of the failure matrix: crash before processing; crash after processing before flush; crash
// after flush before offsets; crash after offsets before end. Rows of the failure matrix: crash after
// end before the local apply; crash after the apply; worker frozen past its session and back.
func TestEveryPointOnKafka(t *testing.T) {
	t.Parallel()
	cells := matrix(kill)
	if testing.Short() {
		cells = slices.DeleteFunc(cells, func(c crashCell) bool { return !c.commits() })
	}
	for _, r := range rows {
		if r.commits() {
			cells = append(cells, crashCell{row: r, action: stall}, crashCell{row: r, action: nap})
		}
	}
	eachOnKafka(t, crashesOnKafka, cells, crashCell.name, runCrash)
}

func runCrash(t *testing.T, c *cluster.Cluster, cell crashCell) { newCrashScene(t, c).run(cell) }

// run runs one cell.
func (s *crashScene) run(c crashCell) {
	s.t.Helper()
	if !c.fresh {
		s.before(c)
	}
	if c.says != nil {
		s.says = c.says
	}
	others := s.armedLife(c)
	s.says = plain
	s.finishing(c, others)
	s.fromNothing()
	s.checkTopics()
}

// before is the life before the armed one.
func (s *crashScene) before(c crashCell) {
	s.t.Helper()
	l := s.start("the life before", s.settings)
	s.feed(4 * batch)
	s.finish(l.Alive)
	l.End()
	if c.lost {
		s.lose()
	}
}

// lose takes the first instance's directory away.
func (s *crashScene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.settings.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// outlivesSession is a transaction timeout that lets a frozen application commit after its session
// has ended.
const outlivesSession = 5 * time.Minute

// armedLife brings the armed process to the point and through what follows. It returns the lives
// that it leaves running.
func (s *crashScene) armedLife(c crashCell) (others []*instance.App) {
	s.t.Helper()
	armed, lines := c.arm()
	settings := s.settings
	settings.Workers = c.workers[0]
	if c.action == nap && s.virtual() {
		settings.TransactionTimeout = outlivesSession
	}
	p := s.startArmed(settings, armed, lines...)
	if c.joins || c.stops {
		s.feed(4 * batch)
		s.finish(p.Alive)
	}
	if c.joins {
		others = append(others, s.start("the second instance", s.other()))
	}
	if c.stops {
		p.Cancel()
	}
	for i, hit := range p.hits {
		if i > 0 { // frozen at the first
			others = append(others, s.overtake())
			s.thaw(c, p, hit, others[0])
		} else {
			s.reach(c, p, hit)
		}
	}
	switch c.action {
	case kill:
		s.settings.StateDir = p.Killed()
	case stall:
		if len(others) == 0 {
			others = append(others, s.overtake())
		}
		s.feed(batch)
		s.finish(others[0].Alive)
		p.Thaw()
		s.feed(batch)
		s.finish(others[0].Alive)
		others[0].End()
		others = nil
		if !c.stops {
			s.feed(batch)
			s.finish(p.Alive) // the former zombie works again
		}
		s.ends(c, p)
	case nap:
		l := s.start("the second instance", s.other())
		s.feedUntil(has(l, allTasks), "the second instance having the tasks", l.Alive)
		p.Thaw()
		s.feed(batch)
		s.finish(l.Alive)
		l.End()
		s.feed(batch)
		s.finish(p.Alive)
		s.ends(c, p)
	default:
		if len(p.hits) > 1 {
			others[0].End()
			others = nil
		}
		s.feed(batch)
		if !c.stops && !c.row.ends(c.action) {
			s.finish(p.Alive)
		}
		s.ends(c, p)
	}
	return others
}

// reach feeds until the armed process has told of a hit; one that is stopping has its inputs.
func (s *crashScene) reach(c crashCell, p *victim, hit <-chan struct{}) {
	s.t.Helper()
	if !c.stops {
		s.feedUntil(closed(hit), c.point, p.Alive)
		return
	}
	select {
	case <-hit:
	case <-p.Ended():
		if !instance.Closed(hit) {
			s.t.Fatalf("point %s was not hit; the armed life ended with %v", c.point, p.Wait())
		}
	}
}

// thaw lets the armed process go on, whose tasks the other life has taken, until it has told of the
// hit.
//
// It need not learn of its loss: if a heartbeat was on its way when it froze and is answered with a
// rebalance, the client joins again without telling it, and takes tasks back. Then it is frozen
// again, once it has worked. A process that is frozen while the other one still hands the tasks
// over has nothing to lose, and its join would end unanswered each time.
func (s *crashScene) thaw(c crashCell, p *victim, hit <-chan struct{}, other *instance.App) {
	s.t.Helper()
	for range thaws {
		p.Thaw()
		s.feedUntil(func() bool { return instance.Closed(hit) || len(other.Status().Tasks) < allTasks },
			c.point+", or the armed life having tasks again", p.Alive)
		if !instance.Closed(hit) {
			s.feed(batch)
			s.finish(aliveUntil(p, hit))
		}
		if instance.Closed(hit) {
			return
		}
		p.Freeze()
		s.feedUntil(has(other, allTasks), "the second instance having the tasks again", other.Alive)
	}
	s.t.Fatalf("%s was not hit, although the process was frozen %d times until another one had its tasks", c.point, thaws)
}

// aliveUntil returns an error if the incarnation has ended without a hit. Later events are checked
// elsewhere.
func aliveUntil(p *victim, hit <-chan struct{}) func() error {
	return func() error {
		if err := p.Alive(); err != nil && !instance.Closed(hit) {
			return err
		}
		return nil
	}
}

// thaws bounds how often a process is frozen until it learns of its loss.
const thaws = 12

// overtake starts another instance, which has finished when it returns.
func (s *crashScene) overtake() *instance.App {
	s.t.Helper()
	l := s.start("the second instance", s.other())
	s.feed(batch)
	s.finish(l.Alive)
	return l
}

// ends brings the armed process to its end, if it has not ended, and compares how it does.
func (s *crashScene) ends(c crashCell, p *victim) {
	s.t.Helper()
	fatal := c.row.ends(c.action)
	if !fatal {
		p.Cancel()
	}
	err := p.Wait()
	switch {
	case fatal && !p.Failed(err):
		s.t.Fatalf("the armed life was to end with an error, and ended with %v", err)
	case !fatal && err != nil:
		s.t.Fatalf("the armed life was to end in order, and ended with %v", err)
	}
}

// finishing is the life that finishes what the armed one has left.
func (s *crashScene) finishing(c crashCell, others []*instance.App) {
	s.t.Helper()
	var l *instance.App
	if c.takeover {
		if len(others) == 0 {
			others = append(others, s.start("the second instance", s.other()))
		}
		l, others = others[0], others[1:]
	} else {
		settings := s.settings
		settings.Workers = c.workers[1]
		l = s.start("the life after", settings)
	}
	s.feed(2 * batch)
	s.finish(l.Alive)
	s.checkState(append(others, l)...)
	l.End()
	for _, o := range others {
		o.End()
	}
}

// fromNothing is a life that has to restore everything.
func (s *crashScene) fromNothing() {
	s.t.Helper()
	s.lose()
	l := s.start("the life from nothing", s.settings)
	s.feed(batch)
	s.finish(l.Alive)
	s.checkState(l)
	l.End()
}
