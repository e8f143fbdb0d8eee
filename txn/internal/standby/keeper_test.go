//go:build synctests

package standby

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// group has the commits of a group.
type group struct {
	offsets atomic.Pointer[[]broker.Offset]
	asked   atomic.Int64
}

func (g *group) CommittedOffsets(context.Context, map[string][]int32) ([]broker.Offset, error) {
	g.asked.Add(1)
	if offsets := g.offsets.Load(); offsets != nil {
		return *offsets, nil
	}
	return nil, errors.New("the coordinator is away")
}

// scene is a keeper that runs, of tasks whose commits no follower can read.
type scene struct {
	*Keeper
	group   group
	owned   atomic.Bool
	changed atomic.Int64
	stop    func()
}

func begin(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	s.Keeper = New(Config{
		Commits: &s.group, Restorer: &restore.Restorer{Logger: slog.New(slog.DiscardHandler)},
		Request: func(id graph.TaskID) restore.Request {
			return restore.Request{Task: id, Sources: []restore.Source{{Topic: "in"}}}
		},
		Used: func(graph.TaskID) bool { return s.owned.Load() }, Changed: func() { s.changed.Add(1) },
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
	return s
}

// commit sets what the group has committed of the one input partition, -1 for nothing.
func (s *scene) commit(at int64) {
	s.group.offsets.Store(&[]broker.Offset{{Topic: "in", Partition: 3, At: at}})
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var task = graph.TaskID{Subtopology: "in", Partition: 3}

func (s *scene) want(t *testing.T, what string, copies, warm, failing int) {
	t.Helper()
	status := s.Status()
	gotWarm, gotFailing := 0, 0
	for _, c := range status {
		if c.Warm {
			gotWarm++
		}
		if c.Failed != nil {
			gotFailing++
		}
	}
	if len(status) != copies || gotWarm != warm || gotFailing != failing || len(s.Warm()) != warm {
		t.Errorf("%s: %d copies, %d warm, %d failing, want %d, %d, %d: %+v", what, len(status), gotWarm, gotFailing, copies, warm, failing, status)
	}
}

// TestWarmCopies: a copy of a task without a commit is warm, until the commits cannot be read for a
// while, or there is one that cannot be followed. Each change is told.
func TestWarmCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.stop()
		after(time.Minute)
		if s.group.asked.Load() > 0 || s.changed.Load() > 0 {
			t.Error("a keeper without copies asks for commits, or tells of changes")
		}
		s.Plan([]assign.Copy{{Task: task}})
		after(time.Minute)
		s.want(t, "the commits cannot be read", 1, 0, 1)
		s.commit(-1)
		after(WarmMax / 2)
		s.want(t, "there is no commit, for a moment", 1, 0, 1)
		after(WarmMax)
		s.want(t, "there is no commit", 1, 1, 0)
		s.group.offsets.Store(nil)
		after(WarmMax / 2)
		s.want(t, "the commits cannot be read for a moment", 1, 1, 1)
		after(WarmMax)
		s.want(t, "the commits cannot be read for a while", 1, 0, 1)
		s.commit(7)
		after(2 * Interval)
		s.want(t, "the commit is not one of the application", 1, 0, 1)
		if n := s.changed.Load(); n != 2 {
			t.Errorf("%d changes were told, want 2", n)
		}
	})
}

// TestFailingCopyBacksOff: a copy that fails is tried again with growing pauses, and at once after
// it has followed.
func TestFailingCopyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.stop()
		s.commit(7)
		s.Plan([]assign.Copy{{Task: task}})
		after(5 * time.Minute)
		if n := s.group.asked.Load(); n < 10 || n > 20 {
			t.Errorf("the commit was looked at %d times in five minutes", n)
		}
		if failed := s.Status()[0].Failed; !errors.Is(failed, restore.ErrNoCommit) {
			t.Errorf("it fails with %v", failed)
		}
		s.commit(-1)
		after(retryMax + 2*WarmMax)
		s.want(t, "there is nothing to follow any more", 1, 1, 0)
		asked := s.group.asked.Load()
		after(10 * Interval)
		if n := s.group.asked.Load() - asked; n < 9 {
			t.Errorf("the commit was looked at %d times since", n)
		}
	})
}

// TestCopiesFollowThePlan: a copy that the plan does not name any more stays for a while, and is
// not shown. A task that is owned has none.
func TestCopiesFollowThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.stop()
		s.commit(-1)
		s.owned.Store(true)
		s.Plan([]assign.Copy{{Task: task}})
		after(time.Second)
		s.want(t, "the task is owned", 0, 0, 0)
		s.owned.Store(false)
		after(2 * WarmMax)
		s.want(t, "the task was given up", 1, 1, 0)
		s.Plan(nil)
		s.owned.Store(true)
		after(2 * dropAfter)
		if n := s.open(); n != 1 {
			t.Errorf("%d copies are open, want the one that the task may take", n)
		}
		s.owned.Store(false)
		after(dropAfter / 2)
		s.want(t, "the plan names no copy", 0, 0, 0)
		if n := s.open(); n != 1 {
			t.Errorf("%d copies are open, want the one that may be taken", n)
		}
		after(dropAfter)
		if n := s.open(); n != 0 {
			t.Errorf("%d copies are open long after the plan", n)
		}
		s.Plan([]assign.Copy{{Task: task}})
		after(time.Second)
		if db := s.Take(task); db != nil || s.open() != 0 {
			t.Errorf("a copy without rows was taken as %v, and %d are open", db, s.open())
		}
	})
}

func (s *scene) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.copies)
}

// TestViewDoesNotWaitForALongStep: the owner of a task answers sooner than a step that takes long.
func TestViewDoesNotWaitForALongStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, maxAge := range []time.Duration{time.Millisecond, 5 * time.Second, time.Hour} {
			k := New(Config{})
			k.copies[task] = &copied{id: task, idle: make(chan struct{}), seen: time.Now(), exact: true}
			began := time.Now()
			_, _, err := k.View(t.Context(), task, maxAge)
			if waited := time.Since(began); !errors.Is(err, ErrNoCopy) || waited > min(maxAge, Interval) {
				t.Errorf("a copy of at most %s: %v after %s", maxAge, err, waited)
			}
		}
	})
}
