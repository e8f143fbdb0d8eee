package globaltable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/topics"
)

// table is one global table.
type table struct {
	cfg     *Config
	info    graph.StoreInfo
	id      state.StoreID
	fetcher *broker.Fetcher
	// seats has a token for each large answer that is under way.
	seats chan struct{}
	log   *slog.Logger
	// cause is why the rows on the disk cannot be gone on with, empty if it is not known that they
	// cannot. It belongs to the goroutine of run.
	cause Cause

	// mu is held for reading while db is read, and for writing while it is replaced.
	mu sync.RWMutex
	// db is nil before it is open, and after it has failed.
	db state.Database
	// serves says that db has been at the ends, so that its rows may be read.
	serves bool
	// serving is closed while the table serves. It is another channel after each time.
	serving chan struct{}
	// lost is why the table does not serve any more, nil if it has never served.
	lost error

	told told
}

// run lives one life after the other until ctx ends.
func (t *table) run(ctx context.Context) {
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: 10 * time.Second}
	for {
		err := t.life(ctx)
		if ctx.Err() != nil {
			return
		}
		switch lost, ok := errors.AsType[*lostError](err); {
		case ok:
			t.cause, pause.Next = lost.cause, 100*time.Millisecond
			t.log.Warn("the rows of a global table cannot be gone on with and are read again", "cause", lost.cause, "reason", lost.reason)
			continue
		case errors.Is(err, errChanged):
			pause.Next = 100 * time.Millisecond
			continue
		}
		if errors.Is(err, state.ErrFailed) || errors.Is(err, state.ErrCorrupt) {
			err = errors.Join(err, t.drop(err))
		}
		t.log.Warn("a global table cannot go on and tries again", "error", err, "after", pause.Next)
		t.told.fail(err, time.Now())
		t.tell()
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// errChanged says that the topic is not as it was when the life began.
var errChanged = errors.New("the topic has changed")

// life reads the topic until ctx ends, the topic changes, or something fails.
func (t *table) life(ctx context.Context) error {
	began := time.Now()
	topic, err := topics.Describe(ctx, t.cfg.Cluster, t.info.Topic())
	if err != nil {
		return err
	}
	ends, err := t.ends(ctx, topic)
	if err != nil {
		return err
	}
	db, beside, err := t.open(topic, ends)
	if err != nil {
		return err
	}
	t.told.succeed()
	if brokenFirst(t.cfg.Failpoints) && !beside {
		t.serve(0, began)
	}
	r := &reading{table: t, topic: topic, db: db}
	if err := t.reach(ctx, r, ends, beside); err != nil {
		if beside {
			err = errors.Join(err, db.Close()) // the next try begins it again
		}
		return err
	}
	if err := r.touch(began); err != nil {
		return err
	}
	if beside {
		if db, err = t.swap(db); err != nil {
			return err
		}
	}
	t.cause = ""
	t.serve(r.taken.Load(), began)
	return (&reading{table: t, topic: topic, db: db, follows: true}).run(ctx, nil)
}

// reach reads to the ends.
func (t *table) reach(ctx context.Context, r *reading, ends map[int32]int64, beside bool) error {
	now := Restoring
	switch {
	case beside:
		now = Rebuilding
	case t.isServing():
		now = Running
	}
	t.told.begin(now, t.cause, r, ends)
	return r.run(ctx, ends)
}

func (t *table) isServing() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.serves
}

// serve lets readers see the rows.
func (t *table) serve(records int64, began time.Time) {
	t.mu.Lock()
	first := !t.serves
	t.setServes(true)
	t.mu.Unlock()
	t.told.serve()
	if first || records > 0 {
		t.log.Info("a global table has reached the ends of its topic", "records", records, "took", time.Since(began).Round(time.Millisecond))
	}
}

// ends lists the stable end of each partition.
func (t *table) ends(ctx context.Context, topic topics.Topic) (map[int32]int64, error) {
	listed, err := t.cfg.Cluster.Ends(ctx, topic.Name)
	if err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	for p := range topic.Partitions {
		end, ok := listed[topic.Name][p]
		if !ok {
			return nil, fmt.Errorf("the end of %s[%d] is not known", topic.Name, p)
		}
		ends[p] = end.LastStable
	}
	return ends, nil
}

// open returns the database to read into: the one of the table, or an empty one beside it. A
// database that does not serve yet is emptied in its place.
func (t *table) open(topic topics.Topic, ends map[int32]int64) (db state.Database, beside bool, err error) {
	t.mu.RLock()
	db, serves := t.db, t.serves
	t.mu.RUnlock()
	if db == nil {
		if db, err = t.openInPlace(); err != nil {
			return nil, false, err
		}
	}
	if t.cause == "" {
		var reason string
		if t.cause, reason = judge(db.Positions(), t.info.Name, topic, ends, time.Now()); t.cause != "" {
			t.log.Warn("a global table is read again from the start of its topic", "cause", t.cause, "reason", reason)
		}
	}
	switch {
	case t.cause == "":
		t.keep(db)
		return db, false, nil
	case serves:
		db, err = t.openBeside()
		return db, true, err
	}
	err = errors.Join(db.Close(), t.drop(nil), t.cfg.Directory.RemoveGlobal(t.info.Name))
	if err == nil {
		db, err = t.openInPlace()
	}
	if err != nil {
		return nil, false, err
	}
	t.keep(db)
	return db, false, nil
}

// openInPlace opens the database of the table. One that cannot be opened, or has rows of another
// layout, is removed.
func (t *table) openInPlace() (state.Database, error) {
	path, err := t.cfg.Directory.GlobalPath(t.info.Name)
	if err != nil {
		return nil, err
	}
	db, err := t.openAt(path)
	var why Cause
	switch {
	case errors.Is(err, state.ErrCorrupt):
		why = Damaged
	case errors.Is(err, state.ErrLayout), errors.Is(err, state.ErrStoreID):
		why = Declaration
	default:
		return db, err
	}
	t.log.Warn("the database of a global table cannot be used and is removed", "cause", why, "error", err)
	t.cause = cmp.Or(t.cause, why)
	if err := t.cfg.Directory.RemoveGlobal(t.info.Name); err != nil {
		return nil, err
	}
	return t.openAt(path)
}

func (t *table) openBeside() (state.Database, error) {
	path, err := t.cfg.Directory.GlobalRebuildPath(t.info.Name)
	if err != nil {
		return nil, err
	}
	return t.openAt(path)
}

func (t *table) openAt(path string) (state.Database, error) {
	db, err := t.cfg.Open(t.info.Name, path)
	if err != nil {
		return nil, fmt.Errorf("opening the database of global table %s: %w", t.info.Name, err)
	}
	if err := db.Declare(state.Declaration{Name: t.info.Name, Layout: t.info.Layout}); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database of global table %s: %w", t.info.Name, err), db.Close())
	}
	return db, nil
}

// keep makes db the database of the table.
func (t *table) keep(db state.Database) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.db = db
}

// swap puts the database beside the table into its place. Readers wait meanwhile.
func (t *table) swap(beside state.Database) (state.Database, error) {
	if err := beside.Close(); err != nil { // it flushes
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.db.Close(); err != nil {
		t.log.Warn("the database that is replaced is not closed in order", "error", err)
	}
	db, err := t.replace()
	t.db = db
	if err != nil {
		t.lost = err
		t.setServes(false)
	}
	return db, err
}

// replace moves the database beside the table into its place, and opens it there.
func (t *table) replace() (state.Database, error) {
	if err := t.cfg.Directory.ReplaceGlobal(t.info.Name); err != nil {
		return nil, err
	}
	path, err := t.cfg.Directory.GlobalPath(t.info.Name)
	if err != nil {
		return nil, err
	}
	return t.openAt(path)
}

// setServes notes whether the table serves. The caller holds mu.
func (t *table) setServes(now bool) {
	switch {
	case now && !t.serves:
		close(t.serving)
	case !now && t.serves:
		t.serving = make(chan struct{})
	}
	t.serves = now
}

// wait returns when the table serves, or with ctx's error.
func (t *table) wait(ctx context.Context) error {
	t.mu.RLock()
	serving := t.serving
	t.mu.RUnlock()
	select {
	case <-serving:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop closes the database, which run opens again. Readers get an error that wraps
// the reason meanwhile, so that a full disk is one for the tasks that read the table as well.
func (t *table) drop(why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	db := t.db
	if t.serves {
		t.lost = why
	}
	t.db = nil
	t.setServes(false)
	if db == nil {
		return nil
	}
	return db.Close()
}

// close closes the database for good.
func (t *table) close() error {
	if err := t.drop(nil); err != nil {
		return fmt.Errorf("closing global table %s: %w", t.info.Name, err)
	}
	return nil
}
