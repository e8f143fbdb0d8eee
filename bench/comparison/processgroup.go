package comparison

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
)

// reportsMax is more than a candidate ever writes.
const reportsMax = 8

// processGroup is the processes of one application. Its usage is safe for concurrent use.
type processGroup struct {
	// broker is the broker's process, 0 if unknown.
	broker int
	// contents are what the stores of Kafka Streams hold, after ask.
	contents []storeReport

	mu      sync.Mutex
	members []*member
}

// member is one process. A goroutine takes its reports until its output ends.
type member struct {
	*measure.Process
	reports chan report
}

var errEnded = errors.New("the process has ended by itself")

// start starts a process. Its end is told to fail.
func (g *processGroup) start(cmd *exec.Cmd, log string, fail context.CancelCauseFunc) error {
	p, err := measure.Start(cmd, log)
	if err != nil {
		return err
	}
	m := &member{Process: p, reports: make(chan report, reportsMax)}
	go func() {
		defer close(m.reports)
		for {
			var r report
			if err := p.Report(&r); err != nil {
				fail(fmt.Errorf("%w: %w", errEnded, err))
				return
			}
			m.reports <- r
		}
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	return nil
}

// usage is the processor time until now, that of the application before it has a process being
// none.
func (g *processGroup) usage() (u throughput.Usage, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		cpu, err := measure.CPUTime(m.PID())
		if err != nil {
			return u, err
		}
		u.CPU += cpu
	}
	if g.broker > 0 {
		u.Broker, err = measure.CPUTime(g.broker)
	}
	return u, err
}

// peakRSS is the sum of what the processes took at most.
func (g *processGroup) peakRSS() (sum int64, err error) {
	for _, m := range g.members {
		rss, err := m.PeakRSS()
		if err != nil {
			return 0, err
		}
		sum += rss
	}
	return sum, nil
}

// ask asks each process for what it knows, and keeps it.
func (g *processGroup) ask(c candidate, r *Run) error {
	for _, m := range g.members {
		if err := m.Continue(); err != nil {
			return err
		}
		answer, err := m.next(func(a report) bool { return c.kind == kindLoop || a.Contents != nil || a.Totals != nil })
		if err != nil {
			return err
		}
		g.contents = answer.Contents
		if t := answer.Totals; t != nil {
			r.Commits, r.Aborts, r.deadLetters = r.Commits+t.Commits, r.Aborts+t.Aborts, r.deadLetters+t.DeadLetters
		}
	}
	return nil
}

// next returns the next report of some kind.
func (m *member) next(wanted func(report) bool) (report, error) {
	for r := range m.reports {
		if wanted(r) {
			return r, nil
		}
	}
	return report{}, errEnded
}

// end ends the processes: in order, or at once after an error, which it returns with what the
// processes have to say.
func (g *processGroup) end(err error) error {
	for _, m := range g.members {
		if err == nil {
			err = m.End()
		} else {
			err = joined(err, m.Kill())
		}
		for range m.reports { // until its goroutine has ended
		}
	}
	return err
}
