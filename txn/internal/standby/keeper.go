package standby

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
)

const (
	// Interval is how often the commits of the owners are looked at.
	Interval = 500 * time.Millisecond
	// WarmMax is for how long a copy counts as warm after the look at a commit that it has reached.
	WarmMax = 5 * time.Second
	// A step that has failed is tried again after retryMin, and with each failure after twice the
	// pause, up to retryMax.
	retryMin, retryMax = time.Second, 30 * time.Second
	// dropAfter is for how long a copy stays open that the plan does not name any more. The task is
	// assigned to this instance a moment later, or another plan names the copy again.
	dropAfter = 10 * time.Second
	// troubleAfter is for how long a copy does not follow before the log says so.
	troubleAfter = 30 * time.Second
)

// Commits reads the committed offsets of partitions, without waiting for open transactions. They
// are sorted by topic and partition. [broker.Cluster] does so.
type Commits interface {
	CommittedOffsets(ctx context.Context, partitions map[string][]int32) ([]broker.Offset, error)
}

// Config is what a [Keeper] needs.
type Config struct {
	Commits  Commits
	Restorer *restore.Restorer
	// Request describes the copy of a task to the restorer.
	Request func(id graph.TaskID) restore.Request
	// DiskMax bounds what all open copies together take of the disk, in bytes; zero is no bound.
	// Only copies that were not warm yet wait for room.
	DiskMax int64
	// Used reports whether a task is assigned to this instance, or something of it still ends here.
	// It must not block.
	Used func(id graph.TaskID) bool
	// Changed is told that other copies are kept, or are warm. It must not block.
	Changed func()
	Logger  *slog.Logger
}

// Keeper keeps the copies of one session. Make one with New.
type Keeper struct {
	cfg Config
	// planned has room for one word that the plan is another one.
	planned chan struct{}
	// steps counts those that run.
	steps sync.WaitGroup

	mu     sync.Mutex
	wanted map[graph.TaskID]bool
	copies map[graph.TaskID]*copied
	// warm is what was warm when Changed was last called.
	warm []graph.TaskID
}

// copied is the copy of a task.
type copied struct {
	id       graph.TaskID
	sources  []restore.Source
	follower *restore.Follower
	progress restore.Progress
	// disk is what its database took of the disk when that was last looked at.
	disk   atomic.Int64
	ctx    context.Context
	cancel context.CancelFunc
	// idle is closed while no step runs: Take waits for it.
	idle chan struct{}
	// closed is closed once the database is, after the copy was dropped; nil before that.
	closed chan struct{}

	// The fields below are guarded by the keeper's lock.

	// unwanted is since when the plan does not name the copy; zero while it does.
	unwanted time.Time
	// seen is when the commit was looked at that the copy has reached; zero before the first.
	seen time.Time
	// exact says that the last step has ended at the commit of seen.
	exact bool
	// nothing is since when each look has found no commit; zero if the last one did.
	nothing time.Time
	at      state.Positions
	// failed is why the last step has failed, nil if it has not. since is when the first of the
	// steps failed that have failed since one went well, next is when the next one may begin.
	failed      error
	since, next time.Time
	pause       time.Duration
	reported    bool
}

// New returns a keeper without copies.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, planned: make(chan struct{}, 1), wanted: map[graph.TaskID]bool{}, copies: map[graph.TaskID]*copied{}}
}

// Plan says of which tasks copies are kept from now on. It returns whether their number is another
// one. It does not block.
func (k *Keeper) Plan(copies []assign.Copy) (changed bool) {
	k.mu.Lock()
	before := len(k.wanted)
	k.wanted = map[graph.TaskID]bool{}
	for _, c := range copies {
		k.wanted[c.Task] = true
	}
	k.mu.Unlock()
	select {
	case k.planned <- struct{}{}:
	default:
	}
	return len(copies) != before
}

// Wanted returns the tasks of which copies are kept by the plan, in no order.
func (k *Keeper) Wanted() []graph.TaskID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.wanted))
}

// Run keeps the copies until ctx ends. Then it closes them, so that a later session or process goes
// on where they are. It is called once.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			k.end()
			return
		case <-tick.C:
		case <-k.planned:
		}
		k.drop()
		k.begin(ctx)
		k.look(ctx)
		k.tell()
	}
}

// end closes all copies, at the same time.
func (k *Keeper) end() {
	k.mu.Lock()
	for _, c := range k.copies {
		if c.closed == nil {
			k.close(c)
		}
	}
	k.mu.Unlock()
	k.steps.Wait()
}

// close ends a copy and closes its database on a goroutine of its own. Until that has ended the
// copy stays in the table, so that nothing opens the database meanwhile. The caller holds the lock.
func (k *Keeper) close(c *copied) {
	c.closed = make(chan struct{})
	c.cancel()
	k.steps.Go(func() {
		<-c.idle
		db, err := c.follower.Take()
		if db != nil {
			err = errors.Join(err, db.Flush(), db.Close())
		}
		if err != nil {
			k.cfg.Logger.Warn("the copy of a task is not closed in order, and what is missing is read again", "task", c.id.String(), "error", err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.copies, c.id)
		close(c.closed)
	})
}

// drop closes the copies that the plan has not named for a while. A copy whose task is assigned to
// this instance stays for the task to take it.
func (k *Keeper) drop() {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, c := range k.copies {
		switch {
		case c.closed != nil:
		case k.wanted[id]:
			c.unwanted = time.Time{}
		case c.unwanted.IsZero() || k.cfg.Used(id):
			c.unwanted = now
		case now.Sub(c.unwanted) >= dropAfter:
			k.close(c)
		}
	}
}

// begin makes the copies that are new, but for tasks that this instance uses. That is asked under
// the lock that Take needs, so a copy that is begun before the task is assigned is taken. A task that
// is given up is not owned for a moment before its closing counts as a use. A copy that is begun then
// finds the database locked: its first steps fail, and a later one goes on.
func (k *Keeper) begin(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.wanted {
		if k.copies[id] != nil || k.cfg.Used(id) {
			continue
		}
		req := k.cfg.Request(id)
		c := &copied{id: id, sources: req.Sources, idle: make(chan struct{})}
		close(c.idle)
		req.Room = func(db state.Database) error { return k.room(c, db) }
		c.ctx, c.cancel = context.WithCancel(ctx)
		c.follower = k.cfg.Restorer.Follow(req, &c.progress)
		k.copies[id] = c
	}
}

// Take ends the copy of a task that was assigned to this instance. It returns the open database,
// which is the caller's, or nil if it has no database that works. It waits for a step that runs,
// which ends early, and for a database that is being closed.
func (k *Keeper) Take(id graph.TaskID) state.Database {
	k.mu.Lock()
	c := k.copies[id]
	if c == nil {
		k.mu.Unlock()
		return nil
	}
	if closed := c.closed; closed != nil {
		k.mu.Unlock()
		<-closed
		return nil
	}
	delete(k.copies, id)
	c.cancel() // under the lock: look begins no step of a copy that has ended
	k.mu.Unlock()
	<-c.idle
	db, err := c.follower.Take()
	if err != nil {
		k.cfg.Logger.Warn("the copy of a task has failed, and its database is opened again", "task", id.String(), "error", err)
	}
	return db
}

// ErrNoCopy says that there is no copy to read, or none that is new enough.
var ErrNoCopy = errors.New("there is no copy of the task that is new enough")

// View returns a view of the copy of a task at a commit, and how long ago that was the last one: at
// most maxAge. Between two steps a copy is at a commit. During a step it is not: View waits for the
// end of the step, for at most [Interval]. A step can take long, and the owner answers sooner. The
// caller closes the view.
func (k *Keeper) View(ctx context.Context, id graph.TaskID, maxAge time.Duration) (state.View, time.Duration, error) {
	late := time.NewTimer(min(maxAge, Interval))
	defer late.Stop()
	for {
		k.mu.Lock()
		c := k.copies[id]
		if c == nil || c.closed != nil || !c.exact || !c.nothing.IsZero() {
			k.mu.Unlock()
			return nil, 0, ErrNoCopy
		}
		select {
		case <-c.idle:
			defer k.mu.Unlock()
			// Steps begin under the lock, and so does the end of a copy: what follows is of the
			// commit.
			age := time.Since(c.seen)
			db := c.follower.Database()
			if db == nil || age > maxAge {
				return nil, 0, ErrNoCopy
			}
			view, err := db.View()
			return view, age, err
		default:
		}
		idle := c.idle
		k.mu.Unlock()
		select {
		case <-idle:
		case <-late.C:
			return nil, 0, ErrNoCopy
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// look reads the commits of all copies at once that have no step, and begins one for each.
func (k *Keeper) look(ctx context.Context) {
	now := time.Now()
	partitions := map[string][]int32{}
	var asked []*copied
	k.mu.Lock()
	for id, c := range k.copies {
		if !c.due(now) {
			continue
		}
		asked = append(asked, c)
		for _, s := range c.sources {
			partitions[s.Topic] = append(partitions[s.Topic], id.Partition)
		}
	}
	k.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, WarmMax)
	defer cancel()
	offsets, err := k.cfg.Commits.CommittedOffsets(ctx, partitions)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range asked {
		switch {
		case !c.due(now): // dropped or taken meanwhile
			continue
		case err != nil:
			k.failed(c, err, false)
			continue
		}
		var of []broker.Offset
		for _, s := range c.sources {
			at := func(o broker.Offset) bool { return o.Topic == s.Topic && o.Partition == c.id.Partition }
			if i := slices.IndexFunc(offsets, at); i >= 0 {
				of = append(of, offsets[i])
			}
		}
		c.idle = make(chan struct{})
		k.steps.Go(func() { k.step(c, now, of) })
	}
}

// due reports whether a step may begin: none runs. The caller holds the keeper's lock.
func (c *copied) due(now time.Time) bool {
	select {
	case <-c.idle:
		return c.closed == nil && c.ctx.Err() == nil && c.unwanted.IsZero() && !now.Before(c.next)
	default:
		return false
	}
}

// step brings a copy to a commit that was looked at.
func (k *Keeper) step(c *copied, seen time.Time, offsets []broker.Offset) {
	err := c.follower.Step(c.ctx, offsets, seen)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(c.idle)
	if errors.Is(err, restore.ErrNoCommit) && !committed(offsets) {
		if c.nothing.IsZero() {
			c.nothing = seen
		}
		if seen.Sub(c.nothing) >= WarmMax { // a coordinator that loads can answer so for a moment
			k.follows(c, seen)
		}
		return
	}
	c.nothing = time.Time{}
	c.at = state.Positions{}
	if db := c.follower.Database(); db != nil {
		c.at = db.Positions()
	}
	switch {
	case err == nil:
		k.follows(c, seen)
	default:
		c.exact = false
		if c.ctx.Err() == nil {
			k.failed(c, err, true)
		}
	}
}

// ErrNoRoom says that a copy does not grow, because all copies together have reached DiskMax.
var ErrNoRoom = errors.New("the copies have reached their bound on the disk")

// room notes what a copy takes of the disk, and says whether it may take more. One that was warm may:
// it follows what its owner writes, and would have to be read again if it did not.
func (k *Keeper) room(c *copied, db state.Database) error {
	if k.cfg.DiskMax <= 0 {
		return nil
	}
	if m, ok := pebblestore.MetricsOf(db); ok {
		c.disk.Store(int64(m.DiskBytes))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !c.seen.IsZero() {
		return nil
	}
	var used int64
	for _, other := range k.copies {
		used += other.disk.Load()
	}
	if used < k.cfg.DiskMax {
		return nil
	}
	return fmt.Errorf("%w: they have %d bytes of %d (StandbyDiskMax)", ErrNoRoom, used, k.cfg.DiskMax)
}

// warm reports whether the copy counts as warm. The caller holds the keeper's lock.
func (c *copied) warm(now time.Time) bool { return !c.seen.IsZero() && now.Sub(c.seen) <= WarmMax }

// follows notes that a copy is at a commit, or has nothing to copy. The caller holds the lock.
func (k *Keeper) follows(c *copied, seen time.Time) {
	if c.reported {
		k.cfg.Logger.Info("the copy of a task follows again", "task", c.id.String())
	}
	c.seen, c.exact, c.failed, c.pause, c.next, c.reported = seen, true, nil, 0, time.Time{}, false
}

// failed notes that a copy does not follow, and whether it pauses before it is tried again. The
// caller holds the lock.
func (k *Keeper) failed(c *copied, err error, pauses bool) {
	now := time.Now()
	if c.failed == nil {
		c.since = now
	}
	c.failed = err
	if pauses {
		c.pause = min(max(2*c.pause, retryMin), retryMax)
		c.next = now.Add(c.pause)
	}
	if !c.reported && now.Sub(c.since) >= troubleAfter {
		c.reported = true
		k.cfg.Logger.Warn("the copy of a task does not follow its owner, and is tried again", "task", c.id.String(), "error", err, "since", c.since)
	}
}

// committed reports whether one of the offsets is.
func committed(offsets []broker.Offset) bool {
	return slices.ContainsFunc(offsets, func(o broker.Offset) bool { return o.At >= 0 })
}

// tell calls Changed if other copies are warm than before.
func (k *Keeper) tell() {
	warm := k.Warm()
	k.mu.Lock()
	changed := !slices.Equal(warm, k.warm)
	k.warm = warm
	k.mu.Unlock()
	if changed {
		k.cfg.Changed()
	}
}

// Warm returns the tasks of which the copy is warm, in order.
func (k *Keeper) Warm() (warm []graph.TaskID) {
	for _, s := range k.Status() {
		if s.Warm {
			warm = append(warm, s.Task)
		}
	}
	return warm
}

// State is what a copy is doing, as package txn and the metrics name it.
type State string

// The states.
const (
	Restoring State = "restoring"
	Warm      State = "warm"
	Failing   State = "failing"
)

// State returns what the copy is doing. A warm copy is warm also while the first tries since then
// fail.
func (s Status) State() State {
	switch {
	case s.Warm:
		return Warm
	case s.Failed != nil:
		return Failing
	}
	return Restoring
}

// Status is a picture of a copy.
type Status struct {
	Task graph.TaskID
	// Warm says that it is at a commit that was the last one a moment ago, or that there is none.
	Warm bool
	// At are its positions, zero before the first step.
	At state.Positions
	// Restore is what steps have read, and how many offsets are left of the one that runs.
	Restore restore.Snapshot
	// Failed is why it does not follow, nil if it does. Since is when that began.
	Failed error
	Since  time.Time
}

// Status returns a picture of each copy, in the order of the tasks.
func (k *Keeper) Status() []Status {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]Status, 0, len(k.copies))
	for id, c := range k.copies {
		if !c.unwanted.IsZero() || c.closed != nil {
			continue
		}
		s := Status{Task: id, At: c.at.Clone(), Restore: c.progress.Read(now), Failed: c.failed}
		s.Warm = c.warm(now)
		if c.failed != nil {
			s.Since = c.since
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int {
		if c := strings.Compare(a.Task.Subtopology, b.Task.Subtopology); c != 0 {
			return c
		}
		return int(a.Task.Partition) - int(b.Task.Partition)
	})
	return out
}
