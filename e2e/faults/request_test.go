package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

// fault is what happens to a frame.
type fault struct {
	name      string
	direction proxy.Direction
	action    func() proxy.Action
	late      bool // the frame arrives when the fault is over
}

var faults = []fault{
	{"request dropped", proxy.ToBroker, proxy.Drop, false},
	{"request late", proxy.ToBroker, proxy.Hold, true},
	{"reply dropped", proxy.ToClient, proxy.Drop, false},
	{"reply late", proxy.ToClient, proxy.Hold, true},
	{"cut before the broker acted", proxy.ToBroker, proxy.Cut, false},
	{"cut after the broker acted", proxy.ToClient, proxy.Cut, false},
}

// phase is when a kind of request is sent, and so when a fault can strike.
type phase string

const (
	running  phase = "running"  // in every round, or all the time
	starting phase = "starting" // when an instance starts
	doubting phase = "doubting" // when a commit was not answered and is being resolved
)

// kind is a kind of request in a phase.
type kind struct {
	key   int16
	phase phase
}

// kinds begin with those whose loss takes longest.
var kinds = []kind{
	{proxy.KeyJoinGroup, starting},
	{proxy.KeySyncGroup, starting},
	{proxy.KeyInitProducerID, doubting},
	{proxy.KeyFindCoordinator, doubting},
	{proxy.KeyMetadata, doubting},
	{proxy.KeyOffsetFetch, doubting},
	{proxy.KeyProduce, running},
	{proxy.KeyTxnOffsetCommit, running},
	{proxy.KeyEndTxn, running},
	{proxy.KeyHeartbeat, running},
	{proxy.KeyInitProducerID, starting},
	{proxy.KeyFindCoordinator, starting},
	{proxy.KeyMetadata, starting},
	{proxy.KeyOffsetFetch, starting},
}

type requestCell struct {
	kind
	fault
}

func (c requestCell) String() string {
	return fmt.Sprintf("%s %s/%s", c.phase, kmsg.NameForKey(c.key), c.name)
}

// requestCells are all of the table.
func requestCells() []requestCell {
	var out []requestCell
	for _, k := range kinds {
		for _, f := range faults {
			out = append(out, requestCell{k, f})
		}
	}
	return out
}

// notOnce says why a cell has no run with a single loss, or "".
func (c requestCell) notOnce() string {
	if (c.key == proxy.KeyJoinGroup || c.key == proxy.KeySyncGroup) && (c.name == "request dropped" || c.name == "reply dropped") {
		return "the client waits for the reply as long as a rebalance may take, 60 s: a fault of 3 s strikes a single frame anyway"
	}
	return ""
}

// limits are the runs of a cell: how many frames the fault strikes, 0 is for a while.
func (c requestCell) limits() []int {
	if c.notOnce() != "" {
		return []int{0}
	}
	return []int{1, 0}
}

// commitKind says whether the kind is one of the commit protocol, in which real Kafka has what the
// embedded brokers have not: an end of transactions apart from its markers.
func (k kind) commitKind() bool {
	return k.phase == running && k.key != proxy.KeyHeartbeat || k == kind{proxy.KeyInitProducerID, doubting}
}

// TestEveryRequest runs all cells on virtual time, and under the race detector every fifth.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	cells := requestCells()
	if virtual.RaceDetector {
		n := -1
		cells = slices.DeleteFunc(cells, func(requestCell) bool {
			n++ // neighbours are other faults of the same kind of request, of which there are six: every kind keeps one
			return n%5 != 0
		})
	}
	eachVirtual(t, cells, requestCell.String, func(t *testing.T, c *cluster.Cluster, cell requestCell) {
		cell.run(newRequestScene(t, c))
	})
}

// TestEveryRequestOnKafka runs all cells, with -short those of the commit protocol.
func TestEveryRequestOnKafka(t *testing.T) {
	t.Parallel()
	run := requestCells()
	if testing.Short() {
		run = slices.DeleteFunc(run, func(c requestCell) bool { return !c.commitKind() })
	}
	eachOnKafka(t, requestsOnKafka, run, requestCell.String, func(t *testing.T, c *cluster.Cluster, cell requestCell) {
		cell.run(newRequestScene(t, c))
	})
}

// resolvedBy is how many rounds the application has to have committed since a fault for the one
// that the fault struck to be among them: rounds are committed in order, and one before it may have
// been on its way.
const resolvedBy = 2

// match is what the cell is about: of transactional requests only the application's.
func (c requestCell) match(s *requestScene, limit int) proxy.Match {
	m := proxy.Match{Key: c.key, Direction: c.direction, Limit: limit}
	if c.kind == (kind{proxy.KeyMetadata, starting}) {
		m.Skip = 1 // the very first request of an instance is how it finds the cluster: nothing has begun, and Run says that it cannot
	}
	switch c.key {
	case proxy.KeyProduce, proxy.KeyTxnOffsetCommit, proxy.KeyEndTxn, proxy.KeyInitProducerID:
		m.Where = func(f *proxy.Frame) bool { return strings.HasPrefix(f.TransactionalID(), s.application+"~") }
	}
	return m
}

func (c requestCell) run(s *requestScene) {
	dir := s.t.TempDir()
	if c.phase == starting {
		c.runStart(s, dir)
		return
	}
	i := s.start(dir)
	stop := s.feeding()
	defer stop()
	s.must(s.until(s.ctx, 50, i))
	for _, limit := range c.limits() {
		var doubt *proxy.Rule
		if c.phase == doubting {
			doubt = s.link.Add(unanswered(s), proxy.Cut())
			s.must(doubt.AwaitMatched(s.ctx, 1))
		}
		st := c.strike(s, i, limit)
		if doubt != nil {
			doubt.Lift()
		}
		st.end(i)
		st.resolve(i)
	}
	stop()
	s.check(i)
}

// unanswered matches the replies to commits.
func unanswered(s *requestScene) proxy.Match {
	return requestCell{kind{proxy.KeyEndTxn, running}, fault{direction: proxy.ToClient}}.match(s, 0)
}

// runStart strikes at the start of one instance after the other, on the same state directory.
func (c requestCell) runStart(s *requestScene, dir string) {
	for _, limit := range c.limits() {
		stop := s.feeding()
		defer stop()
		rule := s.link.Add(c.match(s, limit), c.action())
		i := s.start(dir)
		st := c.struck(s, i, rule, limit)
		st.end(i)
		st.resolve(i)
		stop()
		s.must(s.until(s.ctx, s.total(), i))
		if limit == 0 {
			s.check(i)
		} else {
			i.End()
		}
	}
}

// stroke is a fault that has struck.
type stroke struct {
	requestCell
	s       *requestScene
	rule    *proxy.Rule
	limit   int
	waiting int       // records of input that were there by then
	commits int64     // rounds that the application had committed when nothing stood in its way any more
	began   time.Time // when that was
}

// strike installs the fault and waits until it has struck.
func (c requestCell) strike(s *requestScene, i *instance.App, limit int) *stroke {
	s.t.Helper()
	return c.struck(s, i, s.link.Add(c.match(s, limit), c.action()), limit)
}

func (c requestCell) struck(s *requestScene, i *instance.App, r *proxy.Rule, limit int) *stroke {
	s.t.Helper()
	s.must(r.AwaitMatched(s.ctx, 1))
	st := &stroke{requestCell: c, s: s, rule: r, limit: limit, waiting: s.total()}
	st.free(i)
	return st
}

// free notes that nothing stands in the way any more.
func (st *stroke) free(i *instance.App) { st.commits, st.began = i.Status().Totals.Commits, time.Now() }

// end ends the fault: after its span, or, for a single late frame, when the application has gone on
// without it, if it can.
func (st *stroke) end(i *instance.App) {
	st.s.t.Helper()
	ctx, cancel := context.WithTimeout(st.s.ctx, st.s.timing.span)
	defer cancel()
	switch {
	case st.limit == 0:
		<-ctx.Done()
		st.free(i)
	case st.late:
		if st.s.until(ctx, st.waiting+10, i) != nil {
			st.free(i)
		}
	}
	st.rule.Lift()
}

// resolve waits until the round that the fault struck is resolved, and then until all that was
// waiting by then is committed. On virtual time the test judges how long the former takes. It never
// judges the latter: after a loss rounds are small, and only ten that are committed make the next
// ones twice as large.
func (st *stroke) resolve(i *instance.App) {
	t := st.s.t
	t.Helper()
	if st.phase != starting {
		i.Until("the resolution of the round that was struck", func(now txn.Status) bool {
			return now.Totals.Commits >= st.commits+resolvedBy
		})
		took := time.Since(st.began).Round(time.Millisecond)
		t.Logf("limit %d: resolved after %s", st.limit, took)
		if resolveMax := st.s.timing.resolveMax; resolveMax > 0 && took > resolveMax {
			t.Errorf("the round that was struck is resolved %s after the end of the fault, want %s at most", took, resolveMax)
		}
	}
	st.s.must(st.s.until(st.s.ctx, st.waiting, i))
	frames := st.rule.Counts().Matched
	t.Logf("limit %d: %d frames, all is committed after %s and %d rounds", st.limit, frames,
		time.Since(st.began).Round(time.Millisecond), i.Status().Totals.Commits-st.commits)
	if st.notOnce() != "" && frames != 1 {
		t.Errorf("%d frames were struck, although %s", frames, st.notOnce())
	}
}

// TestEveryRequestHasCells counts the cells: each kind of request that a round and a membership
// consist of has each fault, once and for a while, or a reason.
func TestEveryRequestHasCells(t *testing.T) {
	runs, reasons := 0, 0
	for _, c := range requestCells() {
		runs += len(c.limits())
		if c.notOnce() != "" {
			reasons++
		}
	}
	if want := 2 * len(kinds) * len(faults); runs+reasons != want || reasons != 4 {
		t.Errorf("%d runs and %d reasons, want %d together and 4 reasons", runs, reasons, want)
	}
	for _, key := range []int16{
		proxy.KeyProduce, proxy.KeyInitProducerID, proxy.KeyTxnOffsetCommit, proxy.KeyEndTxn, proxy.KeyFindCoordinator,
		proxy.KeyOffsetFetch, proxy.KeyHeartbeat, proxy.KeyJoinGroup, proxy.KeySyncGroup, proxy.KeyMetadata,
	} {
		for _, f := range faults {
			if !slices.ContainsFunc(requestCells(), func(c requestCell) bool { return c.key == key && c.name == f.name }) {
				t.Errorf("%s, %s: there is no cell", kmsg.NameForKey(key), f.name)
			}
		}
	}
}
