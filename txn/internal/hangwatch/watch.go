package hangwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/hanging"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Config is what a watch needs of the process.
type Config struct {
	Cluster  *broker.Cluster
	Topology *topology.Topology
	// Directory has the answers of coordinators that are needed after a restart. Nil keeps them in
	// memory only. They are used while ClusterID and RoundsTopic, the id of that topic, are those
	// with which they were stored.
	Directory   *state.Directory
	ClusterID   string
	RoundsTopic [16]byte
	// Repairs says that transactions that hang are repaired where evidence says how they ended.
	Repairs    bool
	Logger     *slog.Logger
	Metrics    *metrics.Metrics
	Failpoints failpoint.Set
}

// Watch looks for transactions that hang. It outlives memberships, and its methods are safe for
// concurrent use.
type Watch struct {
	cfg Config
	// due has a token when a look is wanted now, repairs one when something hangs that may be
	// repaired, and untidy one when answers may not be needed any more.
	due, repairs, untidy chan struct{}

	mu sync.Mutex
	// before is what coordinators have said of transactional ids that tells how their last
	// transactions ended, the newest answer last.
	before []broker.Named
	found  []hanging.Finding
	// used are the transactional ids with which workers produce.
	used map[string]bool
	// unread says why topics are not looked at that may not be read; it is logged once. unanswered
	// says what did not answer in the last look.
	unread, unanswered string
	// read are the transactions whose evidence was read last, and again is when it is read again
	// although they are the same ones.
	read  string
	again time.Time
	pause backoff.Backoff

	// store replaces what is in the directory; nil stores nothing. keeping has a token while it runs,
	// which guards what follows.
	store   func(state.TransactionEnds) error
	keeping chan struct{}
	// kept are the answers in the directory. notKept says that the last ones could not be stored.
	kept    []broker.Named
	notKept bool
}

const (
	// describeMax is how long coordinators are asked for evidence before an id is initialised
	// without it.
	describeMax = 5 * time.Second
	// describeDeadMax is the same for the ids of an instance that is fenced: readers of its outputs
	// wait for the fencing. It also bounds the wait for the disk then.
	describeDeadMax = 500 * time.Millisecond
	// lookMax bounds each question of a look, and how long a look is repeated at start. A partition
	// without a leader is asked again later; it would else hold up all others.
	lookMax = 5 * time.Second
	// hangingWatch is how often what hangs is looked at again. A partition that did not answer is
	// asked again after unansweredPause at first.
	hangingWatch    = 30 * time.Second
	unansweredPause = time.Second
	// repairMax bounds one reading of logs for evidence. The evidence of the same transactions is
	// read again after hangingWatch, and then ever more rarely, down to once in readPauseMax: only
	// a marker of another process could change it.
	repairMax    = 15 * time.Minute
	readPauseMax = time.Hour
)

// New returns a watch that has not looked yet, with what an earlier process has stored.
func New(cfg Config) *Watch {
	w := &Watch{
		cfg: cfg, due: make(chan struct{}, 1), repairs: make(chan struct{}, 1), untidy: make(chan struct{}, 1), used: map[string]bool{},
		keeping: make(chan struct{}, 1),
	}
	if cfg.Directory != nil {
		w.load()
	}
	return w
}

// Note asks the coordinators about transactional ids that are about to be initialised, and stores
// what they say. Without an answer evidence is missing, and no more. committing says that a commit
// of them may be under way: that the transaction is ongoing tells nothing then.
func (w *Watch) Note(ctx context.Context, committing bool, ids ...string) {
	asking, cancel := context.WithTimeout(ctx, describeMax)
	w.note(asking, committing, ids)
	cancel()
	w.keep(ctx)
}

// NoteDead is Note for the transactional ids of another instance, which is taken for dead and may
// live. It waits for long neither for the coordinators nor for the disk.
func (w *Watch) NoteDead(ctx context.Context, ids ...string) {
	asking, cancel := context.WithTimeout(ctx, describeDeadMax)
	w.note(asking, true, ids)
	cancel()
	storing, cancel := context.WithTimeout(ctx, describeDeadMax)
	defer cancel()
	w.keep(storing)
}

func (w *Watch) note(ctx context.Context, committing bool, ids []string) {
	now, err := w.cfg.Cluster.Transactions(ctx, ids...)
	if err != nil {
		w.cfg.Logger.Debug("how the last transactions ended is not known of all", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(now)) {
		w.before = withAnswer(w.before, broker.Named{TransactionalID: id, Transaction: now[id]}, committing)
	}
	w.before = bounded(w.before, w.found)
}

// Settle settles a producer after a round has failed, and returns an error if a transaction of it
// hangs.
func (w *Watch) Settle(ctx context.Context, p *broker.Producer) error {
	p.Close() // no request of it is on its way after the coordinator was asked
	w.Note(ctx, p.Committing(), p.TransactionalID())
	had := w.producerIDs(p.TransactionalID())
	wrote := p.Partitions()
	if err := p.Settle(ctx); err != nil {
		return err
	}
	w.Settled(ctx, p)
	defer signal(w.due) // for the other producers: what has failed here may have lost markers of theirs
	if brokenLook(w.cfg.Failpoints) {
		return nil
	}
	identity, err := p.Identity()
	if err != nil {
		return err
	}
	offsets, err := w.cfg.Cluster.OffsetsPartition(ctx)
	switch {
	case err == nil:
		wrote[broker.OffsetsTopic] = []int32{offsets}
	case !hanging.OnlyDenied(err) && !broker.NotYetKnown(err):
		return err
	}
	open, err := w.cfg.Cluster.OpenTransactions(ctx, wrote)
	if err != nil && !hanging.OnlyAbsent(err) {
		return err
	}
	for _, t := range open {
		if t.ProducerID == identity.ProducerID || had[t.ProducerID] {
			return fmt.Errorf("%w: %w: %s[%d] holds producer id %d epoch %d open since offset %d, and %s has no transaction",
				worker.ErrReopen, errHanging, t.Topic, t.Partition, t.ProducerID, t.Epoch, t.FirstOffset, p.TransactionalID())
		}
	}
	if err == nil || hanging.OnlyDenied(err) { // a topic that the cluster does not know stays to be looked at, and the tasks without it go on
		p.Looked()
	}
	return nil
}

// LookSoon has Watch look at everything once more. It does not block.
func (w *Watch) LookSoon() { signal(w.due) }

// signal leaves a token if there is none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// errHanging ends a session whose producers must not go on.
var errHanging = errors.New("a transaction hangs")

// AtStart looks at everything, and returns the transactional ids of the instance whose transactions
// hang. A partition that does not answer in time is looked at later. clean says that all has
// answered and nothing of the application hangs.
func (w *Watch) AtStart(ctx context.Context) (hangs map[string]bool, clean bool) {
	if brokenLook(w.cfg.Failpoints) {
		return nil, false
	}
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	for until := time.Now().Add(lookMax); ; {
		hangs, err := w.look(ctx)
		if err == nil {
			return hangs, len(w.Found()) == 0 && w.NotLookedAt() == ""
		}
		if time.Now().After(until) || pause.Wait(ctx) != nil {
			w.cfg.Logger.Warn("it is not known yet whether transactions hang, because not all partitions answer: they are asked again", "error", err)
			return hangs, false
		}
	}
}

// look asks all that the application reads and writes, and returns the transactional ids of the
// instance whose transactions hang. It is for this process to use others, so what hung before is
// among them until its partitions may be read and have answered. The error says what has not
// answered.
func (w *Watch) look(ctx context.Context) (map[string]bool, error) {
	search, found, unread, err := w.ask(ctx, hanging.Look)
	w.tellUnread(unread)
	w.mu.Lock()
	found = append(found, slices.DeleteFunc(missing(w.found, found), func(f hanging.Finding) bool {
		return err == nil && !unreadable(f, unread)
	})...)
	for i := range found {
		w.decide(&found[i])
	}
	wasUnanswered := w.unanswered
	w.unanswered = oneLine(err)
	if len(w.before) > 0 {
		signal(w.untidy)
	}
	w.mu.Unlock()
	w.tell(found)
	if err == nil && wasUnanswered != "" {
		w.cfg.Logger.Info("all partitions have answered whether transactions hang")
	}
	if len(found) > 0 && err == nil {
		signal(w.repairs)
	}
	ids := map[string]bool{}
	for _, f := range found {
		if f.Named != nil {
			ids[f.Named.TransactionalID] = true
			continue
		}
		for _, before := range search.Before {
			if before.ProducerID == f.ProducerID {
				ids[before.TransactionalID] = true
			}
		}
	}
	return ids, err
}

// ask looks at everything by way of hanging.Look or hanging.Find. It returns what of the
// application's own hangs, why topics are not looked at that may not be read, and what has not
// answered.
func (w *Watch) ask(ctx context.Context, by func(context.Context, *broker.Cluster, hanging.Search) ([]hanging.Finding, error)) (
	search hanging.Search, found []hanging.Finding, unread, err error,
) {
	search, found, unread, err = w.all(ctx, by)
	found = slices.DeleteFunc(found, func(f hanging.Finding) bool { return !f.Own || !f.Hanging() })
	return search, found, unread, err
}

// all is ask, with everything that is open.
func (w *Watch) all(ctx context.Context, by func(context.Context, *broker.Cluster, hanging.Search) ([]hanging.Finding, error)) (
	search hanging.Search, found []hanging.Finding, unread, err error,
) {
	within, cancel := context.WithTimeout(ctx, lookMax)
	search, hidden := hanging.SearchOf(within, w.cfg.Cluster, w.cfg.Topology)
	cancel()
	search.Patience = lookMax
	w.mu.Lock()
	search.Before = slices.Clone(w.before)
	w.mu.Unlock()
	if hidden != nil && !hanging.OnlyDenied(hidden) {
		return search, nil, nil, hidden
	}
	found, err = by(ctx, w.cfg.Cluster, search)
	if absent := search.Complete(); absent != nil { // every topic was there at the start: a broker has not heard of it yet, or it was deleted
		err = errors.Join(err, absent)
	}
	if err != nil && hanging.OnlyDenied(err) {
		return search, found, errors.Join(hidden, err), nil
	}
	return search, found, hidden, err
}

// decide lets a finding keep the evidence that was read for it. Without that it is judged by what
// coordinators have said; a verdict that they do not give is not looked for. The caller holds mu.
func (w *Watch) decide(f *hanging.Finding) {
	if i := slices.IndexFunc(w.found, same(*f)); i >= 0 && w.found[i].Evidence.Searched > 0 {
		said := f.Evidence.Before
		f.Evidence = w.found[i].Evidence
		f.Evidence.Before = said
		f.Decision = hanging.Decide(f.Transaction, f.Evidence)
		return
	}
	if d := hanging.Decide(f.Transaction, f.Evidence); d.Verdict != hanging.Unknown {
		f.Decision = d
	}
}

// uses reports whether a worker produces under the producer id of a finding.
func (w *Watch) uses(f hanging.Finding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.Named != nil && w.used[f.Named.TransactionalID]
}

// NotLookedAt says what is not known to be free of transactions that hang, "" if all is.
func (w *Watch) NotLookedAt() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.unanswered == "":
		return w.unread
	case w.unread == "":
		return w.unanswered
	}
	return w.unanswered + "; " + w.unread
}

// Found returns what hung when it was last looked at.
func (w *Watch) Found() []hanging.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}

// Hangs reports whether a transaction hung when it was last looked at.
func (w *Watch) Hangs(producerID int64, epoch int16) bool {
	return slices.ContainsFunc(w.Found(), func(f hanging.Finding) bool { return f.ProducerID == producerID && f.Epoch == epoch })
}

// Use notes with which transactional ids workers produce from now on.
func (w *Watch) Use(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.used)
	for _, id := range ids {
		w.used[id] = true
	}
}

// Run looks again at what hangs, at what did not answer, and at what tasks wait for, until ctx
// ends. It calls end once, and returns, if a worker must not produce on.
func (w *Watch) Run(ctx context.Context, tasks *waits.Waits, end func(error)) {
	if brokenLook(w.cfg.Failpoints) {
		return
	}
	pause := backoff.Backoff{Next: unansweredPause, Max: hangingWatch}
	for next := unansweredPause; ; {
		timer := time.NewTimer(next)
		wanted := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.due:
			timer.Stop()
			wanted = true
		case <-timer.C:
		}
		next = hangingWatch
		if !wanted && len(w.Found()) == 0 && w.notAnswered() == "" && !slices.ContainsFunc(tasks.All(), mayHang) {
			continue
		}
		_, err := w.look(ctx)
		if id := w.inUse(); id != "" {
			end(fmt.Errorf("%w: %w: %s must not produce on", worker.ErrReopen, errHanging, id))
			return
		}
		if err != nil {
			w.cfg.Logger.Debug("not all partitions have answered which transactions they hold open", "error", err)
			next = pause.Next
			pause.Next = min(2*pause.Next, pause.Max)
			continue
		}
		pause.Next = unansweredPause
	}
}

// mayHang reports whether a wait is for something other than ongoing transactions.
func mayHang(h waits.Held) bool { return !h.Looked.IsZero() && !h.Ongoing() }

// notAnswered says what did not answer in the last look.
func (w *Watch) notAnswered() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unanswered
}

// inUse returns a transactional id with which a worker produces although a transaction of its
// producer hangs, "" if there is none. An id that has another producer id by now takes nothing
// along.
func (w *Watch) inUse() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.found {
		if f.Named != nil && w.used[f.Named.TransactionalID] {
			return f.Named.TransactionalID
		}
	}
	return ""
}
