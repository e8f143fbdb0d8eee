package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// lookout sees to it that no producer of the instance writes to a partition that holds an older transaction of it open, which nothing will
// end (protocol rule 13.7). The next transaction of that producer would take the old records along: aborted ones would appear, or committed
// ones be lost.
//
//   - Before a transactional id is initialised its coordinator is asked about the last transaction: the answer is evidence, and is gone after.
//   - After all ids of the instance are initialised, and before a record is produced, everything that the application writes is asked for what
//     it holds open. An id whose transaction hangs is not used, and the worker gets another one: so no task has to be closed for it. Tasks
//     that cannot read because of it wait, and say so (package waits).
//   - After a producer was initialised again because a round failed, the partitions of the round are asked. If its transaction hangs there, the
//     session ends, and the next one chooses other ids.
//   - While something hangs it is looked at again from time to time. If Config.RepairTransactions is set, what hangs and whose end is evident is
//     repaired, at start and at these times.
//
// It outlives sessions. Its methods are safe for concurrent use.
type lookout struct {
	in *instance

	mu sync.Mutex
	// before is what coordinators have said of transactional ids that tells how their last transactions ended.
	before map[string]broker.Transaction
	found  []hanging.Finding
	// used are the transactional ids with which workers produce.
	used map[string]bool
	// unread says that the topics that may not be looked at have been told.
	unread bool
}

const (
	// describeMax is how long coordinators are asked for evidence before an id is initialised without it.
	describeMax = 5 * time.Second
	// lookMax is how long the partitions are asked at start. Without an answer everything goes on, as one that has no leader would else hold
	// up all others.
	lookMax = 5 * time.Second
	// hangingWatch is how often what hangs is looked at again, hangingWatchMax how long that may take: it reads logs for evidence.
	hangingWatch    = 30 * time.Second
	hangingWatchMax = 5 * time.Minute
)

func newLookout(in *instance) *lookout {
	return &lookout{in: in, before: map[string]broker.Transaction{}, used: map[string]bool{}}
}

// note asks the coordinators about transactional ids that are about to be initialised. Without an answer evidence is missing, and no more.
func (l *lookout) note(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(ctx, describeMax)
	defer cancel()
	now, err := l.in.cluster.Transactions(ctx, ids...)
	if err != nil {
		l.in.app.log.Debug("how the last transactions ended is not known", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, tx := range now {
		if tx.State != "Empty" {
			l.before[id] = tx
		}
	}
}

// settle settles a producer after a round has failed, and returns an error if a transaction of it hangs.
func (l *lookout) settle(ctx context.Context, p *broker.Producer) error {
	l.note(ctx, p.TransactionalID())
	l.mu.Lock()
	before, known := l.before[p.TransactionalID()]
	l.mu.Unlock()
	wrote := p.Partitions()
	if err := p.Settle(ctx); err != nil {
		return err
	}
	if brokenLook(l.in.app.cfg.failpoints) {
		return nil
	}
	identity, err := p.Identity(ctx)
	if err != nil {
		return err
	}
	offsets, err := l.in.cluster.OffsetsPartition(ctx)
	switch {
	case err == nil:
		wrote[broker.OffsetsTopic] = []int32{offsets}
	case !hanging.OnlyDenied(err) && !broker.NotYetKnown(err):
		return err
	}
	open, err := l.in.cluster.OpenTransactions(ctx, wrote)
	if err != nil && !hanging.OnlyDenied(err) {
		return err
	}
	for _, t := range open {
		if t.ProducerID == identity.ProducerID || known && t.ProducerID == before.ProducerID {
			return fmt.Errorf("%w: %w: %s[%d] holds producer id %d epoch %d open since offset %d, and %s has no transaction",
				worker.ErrReopen, errHanging, t.Topic, t.Partition, t.ProducerID, t.Epoch, t.FirstOffset, p.TransactionalID())
		}
	}
	return nil
}

// errHanging ends a session whose producers must not go on.
var errHanging = errors.New("a transaction hangs")

// atStart looks at everything, and returns the transactional ids of the instance whose transactions hang. If partitions do not answer in
// time it returns none.
func (l *lookout) atStart(ctx context.Context) map[string]bool {
	if brokenLook(l.in.app.cfg.failpoints) {
		return nil
	}
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	for until := time.Now().Add(lookMax); ; {
		hangs, err := l.look(ctx)
		if err == nil {
			return hangs
		}
		if time.Now().After(until) || ctx.Err() != nil {
			l.in.app.log.Warn("it is not known whether transactions hang, because not all partitions answer", "error", err)
			return nil
		}
		if pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// look asks all that the application reads and writes, repairs what may be repaired, and returns the transactional ids of the instance whose
// transactions hang.
func (l *lookout) look(ctx context.Context) (map[string]bool, error) {
	search, hidden := hanging.SearchOf(ctx, l.in.cluster, l.in.app.topology)
	if hidden != nil && !hanging.OnlyDenied(hidden) {
		return nil, hidden
	}
	l.mu.Lock()
	search.Before = maps.Clone(l.before)
	l.mu.Unlock()
	found, err := hanging.Look(ctx, l.in.cluster, search)
	if err != nil && !hanging.OnlyDenied(err) {
		return nil, err
	}
	l.tellUnread(errors.Join(hidden, err))
	if found = ownHanging(found); len(found) > 0 && l.in.app.cfg.RepairTransactions {
		if found, err = l.repair(ctx, search); err != nil {
			return nil, err
		}
	}
	l.tell(found)
	ids := map[string]bool{}
	for _, f := range found {
		if f.Named != nil {
			ids[f.Named.TransactionalID] = true
		}
		for id, before := range search.Before {
			ids[id] = ids[id] || before.ProducerID == f.ProducerID
		}
	}
	return ids, nil
}

// ownHanging returns the findings that are the application's own and hang.
func ownHanging(found []hanging.Finding) []hanging.Finding {
	return slices.DeleteFunc(found, func(f hanging.Finding) bool { return !f.Own || !f.Hanging() })
}

// repair repairs what evidence decides, and returns what hangs then, with the evidence.
func (l *lookout) repair(ctx context.Context, search hanging.Search) ([]hanging.Finding, error) {
	found, err := hanging.Find(ctx, l.in.cluster, search)
	if err != nil && !hanging.OnlyDenied(err) {
		return nil, err
	}
	var left []hanging.Finding
	for _, f := range ownHanging(found) {
		if f.Decision.Verdict == hanging.Unknown || l.uses(f) {
			left = append(left, f)
			continue
		}
		outcomes, err := hanging.Repair(ctx, l.in.cluster, f, f.Decision.Verdict, nil)
		for _, o := range outcomes {
			if o.Written {
				l.in.app.metrics.TransactionRepaired()
			}
		}
		if err != nil {
			l.in.app.log.Warn("a transaction that hangs could not be repaired", append(attributes(f), "error", err)...)
			left = append(left, f)
			continue
		}
		l.in.app.log.Warn("a transaction that hung was repaired", attributes(f)...)
	}
	return left, nil
}

// uses reports whether a worker produces under the producer id of a finding.
func (l *lookout) uses(f hanging.Finding) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.Named != nil && l.used[f.Named.TransactionalID]
}

// attributes describe a finding in the log.
func attributes(f hanging.Finding) []any {
	id, state := "", "unknown"
	if f.Named != nil {
		id, state = f.Named.TransactionalID, f.Named.State
	}
	out := []any{"producer_id", f.ProducerID, "epoch", f.Epoch, "transactional_id", id, "coordinator", state, "partitions", partitionsOf(f)}
	if len(f.Decision.Reasons) > 0 {
		out = append(out, "verdict", f.Decision.Verdict.String(), "reasons", f.Decision.Reasons)
	}
	return out
}

func partitionsOf(f hanging.Finding) []string {
	var out []string
	for _, open := range f.Open {
		out = append(out, fmt.Sprintf("%s[%d]", open.Topic, open.Partition))
	}
	return out
}

// tell takes what hangs now, and logs what is new.
func (l *lookout) tell(found []hanging.Finding) {
	l.mu.Lock()
	before := l.found
	l.found = found
	l.mu.Unlock()
	same := func(a hanging.Finding) func(hanging.Finding) bool {
		return func(b hanging.Finding) bool {
			return a.ProducerID == b.ProducerID && a.Epoch == b.Epoch && slices.Equal(partitionsOf(a), partitionsOf(b))
		}
	}
	for _, f := range found {
		if !slices.ContainsFunc(before, same(f)) {
			l.in.app.log.Warn("a transaction of the application hangs: nothing ends it, and readers of its partitions wait for it",
				append(attributes(f), "remedy", waits.Remedy)...)
		}
	}
	for _, f := range before {
		if !slices.ContainsFunc(found, same(f)) {
			l.in.app.log.Info("a transaction hangs no more, or in fewer partitions", attributes(f)...)
		}
	}
}

// tellUnread says once which topics are not looked at.
func (l *lookout) tellUnread(err error) {
	l.mu.Lock()
	told := l.unread
	l.unread = told || err != nil
	l.mu.Unlock()
	if err != nil && !told {
		l.in.app.log.Info("transactions that hang are not found in topics that may not be read", "reason", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// all returns what hung when it was last looked at.
func (l *lookout) all() []hanging.Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}

// hangs reports whether a transaction hung when it was last looked at.
func (l *lookout) hangs(producerID int64, epoch int16) bool {
	return slices.ContainsFunc(l.all(), func(f hanging.Finding) bool { return f.ProducerID == producerID && f.Epoch == epoch })
}

// use notes with which transactional ids workers produce from now on.
func (l *lookout) use(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.used)
	for _, id := range ids {
		l.used[id] = true
	}
}

// watchHanging looks again at what hangs, and at what a task waits for, until the session ends.
func (s *session) watchHanging() {
	tick := time.NewTicker(hangingWatch)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		l := s.in.lookout
		if len(l.all()) == 0 && !slices.ContainsFunc(s.in.waits.All(), waits.Held.Hanging) {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, hangingWatchMax)
		hangs, err := l.look(ctx)
		cancel()
		if err != nil {
			s.in.app.log.Debug("what hangs could not be looked at", "error", err)
			continue
		}
		l.mu.Lock()
		maps.DeleteFunc(hangs, func(id string, hangs bool) bool { return !hangs || !l.used[id] })
		l.mu.Unlock()
		for id := range hangs {
			s.cancel(fmt.Errorf("%w: %w: %s must not produce on", worker.ErrReopen, errHanging, id))
			return
		}
	}
}
