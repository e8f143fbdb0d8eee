package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/wake"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Failure is why workers have stopped: an entry has failed in a way that others would fail as well.
// The entry is tried again by the next Run.
type Failure struct {
	Entry int64
	Class topology.Class
	// Err is what the handler or the database has returned. Its text may quote the payload; that of
	// the Failure does not.
	Err error
}

// Error names the entry, the class and the reason.
func (f *Failure) Error() string {
	return fmt.Sprintf("entry %d: %s: %s", f.Entry, f.Class, work.Reason(f.Err))
}

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 30 * time.Second
	// lookMin and lookMax are how many due entries a claim looks at: the second one if entries that
	// wait for others are in the way.
	lookMin = 16
	lookMax = 1000
	// measureEvery is how often the age of the oldest entry is measured.
	measureEvery = 5 * time.Second
	// releaseFor bounds how long a worker that stops tries to give a claim back, which expires
	// otherwise.
	releaseFor = 5 * time.Second
	// contentionTries is how often a handler is called again at once because of other transactions.
	contentionTries = 3
	// contendedCounts is with which claim contention begins to count as an attempt: an entry that
	// never gets through must not be tried for ever.
	contendedCounts = 100
	contentionMin   = 5 * time.Millisecond
	contentionMax   = time.Second
)

// run is one Run of a queue.
type run struct {
	*Queue
	ctx   context.Context
	end   context.CancelCauseFunc // the first cause counts
	wake  chan struct{}           // has a token when there may be something to claim
	slots chan struct{}           // one for each entry at work
}

// Run hands entries to the handler until the context ends, and returns nil then. Any other end is
// an error: a [*Failure] names the entry that it is about. It can be called again afterwards, and
// by as many processes as wanted.
func (q *Queue) Run(ctx context.Context) error {
	if q.config.Handle == nil {
		return q.failed("run", errors.New("Config.Handle is nil"))
	}
	if c := q.config.Pool.Config(); c.MaxConns < int32(min(q.config.Parallel, 1<<20))+2 {
		return q.failed("run", fmt.Errorf("Config.Pool has %d connections, which is not enough for %d transactions and two more: raise MaxConns or lower Parallel",
			c.MaxConns, q.config.Parallel))
	}
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &run{Queue: q, ctx: inner, end: end, wake: make(chan struct{}, 1), slots: make(chan struct{}, q.config.Parallel)}
	var wg sync.WaitGroup
	wg.Go(func() { wake.Listen(inner, q.config.Pool, channel, q.config.Name, r.wake, q.config.Logger) })
	wg.Go(r.measure)
	r.work()
	wg.Wait()
	if ctx.Err() != nil {
		return nil // the caller has asked for this end
	}
	return q.failed("run", context.Cause(inner))
}

// work claims entries and handles them, until the context ends. It returns when none is at work.
func (r *run) work() {
	var wg sync.WaitGroup
	defer wg.Wait()
	failures := 0
	for look := lookMin; r.ctx.Err() == nil; {
		free := r.acquire()
		if free == 0 {
			return
		}
		// A claim that takes longer than it lasts is of no use; the network may have dropped the
		// connection.
		limited, cancel := context.WithTimeout(r.ctx, r.config.ClaimFor)
		c, err := r.claim(limited, free, max(look, free))
		cancel()
		for range free - len(c.entries) {
			<-r.slots
		}
		switch {
		case r.ctx.Err() != nil:
		case err == nil:
			failures = 0
		case work.Unavailable(err) || postgres.ClassOf(err) == topology.Transient || postgres.ClassOf(err) == topology.Overload:
			failures++
			r.config.Logger.Warn("entries cannot be claimed", "failures", failures, "reason", work.Reason(err))
			work.Wait(r.ctx, nil, work.Pause(failures, pauseMin, pauseMax))
			continue
		default:
			r.end(err)
			return
		}
		for _, e := range c.entries {
			wg.Go(func() {
				r.handle(e)
				<-r.slots
				r.again()
			})
		}
		switch {
		case len(c.entries) > 0 || c.parked > 0:
			look = lookMin
			if c.parked > 0 {
				look = lookMax
			}
			continue
		case c.seen > 0 && look < lookMax: // those in the way are about to be settled
			look = lookMax
			continue
		}
		look = lookMin
		select {
		case <-r.wake:
		case <-time.After(r.config.Poll):
		case <-r.ctx.Done():
		}
	}
}

// acquire takes all free slots, and waits for one. It returns how many, none at the end.
func (r *run) acquire() (free int) {
	select {
	case r.slots <- struct{}{}:
		free++
	case <-r.ctx.Done():
		return 0
	}
	for {
		select {
		case r.slots <- struct{}{}:
			free++
		default:
			return free
		}
	}
}

// again has the queue looked at once more: the end of an entry can make another one due.
func (r *run) again() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// handle brings a claim to its end.
func (r *run) handle(e *Entry) {
	ctx, cancel := context.WithDeadline(r.ctx, e.expires)
	defer cancel()
	if err := r.at(ctx, "claimed", e); err != nil {
		r.failedAttempt(ctx, e, Decision{}, err)
		return
	}
	for tries := 1; ; tries++ {
		d, err := r.attempt(ctx, e)
		if err == nil {
			r.metrics.settled[d.Status].Inc()
			return
		}
		if work.Contended(err) && tries < contentionTries && work.Wait(ctx, nil, work.Pause(tries, contentionMin, contentionMax)) {
			continue
		}
		r.failedAttempt(ctx, e, d, err)
		return
	}
}

var errSlow = topology.Fail(topology.Transient, schemas.Reason("the handler was at work when the claim expired"))

// failedAttempt says what follows from an attempt that has failed in the context of its claim. The
// decision is that of a commit in doubt.
func (r *run) failedAttempt(claim context.Context, e *Entry, d Decision, err error) {
	// The claim ends by itself when it expires, so there is no use in trying for longer; a worker
	// that stops is not kept for so long.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.ctx), e.expires.Add(releaseFor))
	defer cancel()
	defer context.AfterFunc(r.ctx, func() { time.AfterFunc(releaseFor, cancel) })()
	log := r.config.Logger.With("entry", e.Number, "claim", e.Claims)
	_, inDoubt := errors.AsType[*commitError](err)
	switch {
	case errors.Is(err, errFenced):
		r.metrics.fenced.Inc()
		log.Warn("an entry could not be settled, and what was done for it is rolled back", "because", r.reasonOf(ctx, e))
		return
	case r.ctx.Err() != nil:
		if err := r.release(ctx, e); err != nil {
			log.Warn("a claim could not be given back; it expires", "reason", work.Reason(err))
		}
		return
	case errors.Is(claim.Err(), context.DeadlineExceeded):
		err = errSlow // whatever it has broken off
	}
	f := failureOf(e, err)
	status, there, failErr := r.fail(ctx, e, f)
	switch {
	case failErr != nil:
		r.metrics.failures.WithLabelValues(r.config.Name, f.class.String()).Inc()
		log.Warn("an entry has failed, which could not be recorded; its claim expires", "class", f.class, "reason", f.reason, "because", work.Reason(failErr))
	case !there:
		if tookEffect := r.claimIsOver(ctx, e, d, f, inDoubt); tookEffect {
			return
		}
	default:
		if inDoubt {
			r.metrics.hadNoEffect.Inc()
		}
		r.metrics.failures.WithLabelValues(r.config.Name, f.class.String()).Inc()
		say := log.Warn
		if status == Quarantined || f.fatal {
			say = log.Error
		}
		if status == Quarantined {
			r.metrics.quarantined.Inc()
		}
		say("an entry has failed", "status", status, "class", f.class, "attempts", e.Attempts, "reason", f.reason)
	}
	if f.fatal {
		r.end(&Failure{e.Number, f.class, err})
	}
}

// claimIsOver logs and counts the end of an attempt whose claim was over before its failure could
// be recorded. An attempt with a COMMIT in doubt has taken effect if its decision is there.
func (r *run) claimIsOver(ctx context.Context, e *Entry, d Decision, f failed, inDoubt bool) (tookEffect bool) {
	log := r.config.Logger.With("entry", e.Number, "claim", e.Claims)
	over, err := r.endOf(ctx, e)
	switch {
	case err != nil:
		over.gone = true
		log.Warn("it is not known why a claim is over", "reason", work.Reason(err))
	case inDoubt && !over.gone && over.own.Final():
		r.metrics.tookEffect.Inc()
		r.metrics.settled[d.Status].Inc()
		log.Info("a COMMIT without an answer has taken effect")
		return true
	}
	switch {
	case inDoubt && over.gone:
		r.metrics.notKnown.Inc()
		log.Error("a COMMIT without an answer cannot be resolved: the entry cannot be read, or is removed")
	case inDoubt:
		r.metrics.hadNoEffect.Inc()
	}
	r.metrics.failures.WithLabelValues(r.config.Name, f.class.String()).Inc()
	log.Warn("an entry has failed, which changes nothing: the claim is over", "class", f.class, "reason", f.reason, "because", over)
	return false
}

// failureOf says what an error of an attempt means.
func failureOf(e *Entry, err error) failed {
	f := failed{class: postgres.ClassOf(err), reason: work.Reason(err)}
	_, inDoubt := errors.AsType[*commitError](err)
	if f.class == topology.Config || f.class == topology.Corruption || f.class == topology.Fatal {
		f.fatal = true
		return f
	}
	switch {
	case work.Contended(err):
		if e.Claims < contendedCounts {
			f.blame = ofOthers
		}
	case inDoubt, work.Own(err) && work.Unavailable(err):
		f.blame = ofOthers
		if _, lost := errors.AsType[*work.LostError](err); lost { // behind the handler
			f.blame = ofConnection
		}
	case work.Unavailable(err):
		f.blame = ofConnection
	}
	return f
}

// oldestPending is the age of the oldest entry that a worker has to bring to an end, without a row
// if there is none.
const oldestPending = `
SELECT extract(epoch FROM clock_timestamp() - received_at)::float8 FROM onceward.queue
WHERE queue = $1 AND settled_at IS NULL AND status <> 'QUARANTINED' ORDER BY entry LIMIT 1`

// measure keeps the gauge of the oldest entry up to date.
func (r *run) measure() {
	for {
		var age float64
		err := r.config.Pool.QueryRow(r.ctx, oldestPending, r.config.Name).Scan(&age)
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			r.metrics.oldest.Set(age)
		} else if r.ctx.Err() == nil {
			r.config.Logger.Warn("the oldest entry cannot be found", "reason", work.Reason(work.Failed("measure", err)))
		}
		if !work.Wait(r.ctx, nil, measureEvery) {
			return
		}
	}
}
