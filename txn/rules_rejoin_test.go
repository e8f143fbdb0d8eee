package txn_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	keyFetch = 1
	// rarely is when a member watch looks that a test has turned off.
	rarely = time.Hour
)

// droppedMember is a member that the group removes without a word: it is made to join again, its
// request is held, and it is removed meanwhile. When the request continues, the client joins as a
// new member, without any callback.
type droppedMember struct {
	b                *testBroker
	instance         string
	rebalance, armed atomic.Bool
	joining, release chan struct{}
	letGo            func()
}

// dropSilently is called before the member starts, which is the only one that joins again until
// then.
func (b *testBroker) dropSilently(t *testing.T, instance string) *droppedMember {
	t.Helper()
	f := &droppedMember{b: b, instance: instance, joining: make(chan struct{}), release: make(chan struct{})}
	f.letGo = sync.OnceFunc(func() { close(f.release) })
	t.Cleanup(f.letGo)
	b.ControlKey(keyHeartbeat, func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if !f.rebalance.CompareAndSwap(true, false) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.RebalanceInProgress.Code
		return resp, nil, true
	})
	b.ControlKey(keyJoinGroup, func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if join := req.(*kmsg.JoinGroupRequest); join.MemberID != "" && f.armed.CompareAndSwap(true, false) {
			close(f.joining)
			b.SleepControl(func() { <-f.release })
		}
		return nil, nil, false
	})
	return f
}

// begin returns when the group has removed the member.
func (f *droppedMember) begin(t *testing.T) {
	t.Helper()
	f.armed.Store(true)
	f.rebalance.Store(true)
	waitFor(t, "the member to join again", func() bool {
		select {
		case <-f.joining:
			return true
		default:
			return false
		}
	})
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "counting"
	member := kmsg.NewLeaveGroupRequestMember()
	member.InstanceID = &f.instance
	req.Members = append(req.Members, member)
	resp, err := req.RequestWith(t.Context(), f.b.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) == 1 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("removing the member: %v", err)
	}
}

// end returns when the member is in the group again, under another id than before.
func (f *droppedMember) end(t *testing.T, before string) {
	t.Helper()
	f.letGo()
	waitFor(t, "the new member", func() bool { now := f.b.memberID(); return now != "" && now != before })
}

// memberID returns the id of the only member of a group that is at rest.
func (b *testBroker) memberID() string {
	info := b.GroupInfo("counting")
	if info == nil || info.State != "Stable" || len(info.Members) != 1 {
		return ""
	}
	return info.Members[0].MemberID
}

// owner lets another process own the tasks for n more records, and leave.
func (b *testBroker) owner(t *testing.T, n int) {
	t.Helper()
	app, stop := start(t, hooked(t, func(string) {}), b.config(txn.Config{
		StateDir: t.TempDir(), Instance: "another", Workers: 1,
	}))
	feed(t, b, n)
	waitFor(t, "another owner to commit", func() bool { return app.Status().Totals.Records == int64(n) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// logged keeps one attribute of the logs with one message.
type logged struct {
	slog.Handler
	message, attr string
	mu            *sync.Mutex
	values        *[]string
}

func newLogged(t *testing.T, message, attr string) logged {
	return logged{testLogger(t).Handler(), message, attr, new(sync.Mutex), new([]string)}
}

// newRestarts keeps why memberships were begun again.
func newRestarts(t *testing.T) logged {
	return newLogged(t, "the membership ended and is begun again", "error")
}

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logged) WithGroup(string) slog.Handler            { return l }

func (l logged) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == l.message {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == l.attr {
				l.mu.Lock()
				defer l.mu.Unlock()
				*l.values = append(*l.values, a.Value.String())
			}
			return true
		})
	}
	return l.Handler.Handle(ctx, record)
}

func (l logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), *l.values...)
}

// because fails unless a single restart was logged, for the reason that the member id has changed.
func (l logged) because(t *testing.T, what string) {
	t.Helper()
	waitFor(t, "the membership to begin again", func() bool { return len(l.all()) > 0 })
	if all := l.all(); len(all) != 1 || !strings.Contains(all[0], what) || !strings.Contains(all[0], "as a new member") {
		t.Errorf("the membership was begun again because of %q, want one reason: %q, and a new member", all, what)
	}
}

// hooked is countTopology with a function that sees every value first.
func hooked(t *testing.T, see func(value string)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).
		Peek("hook", func(r topology.Record[string, string]) error { see(r.Value); return nil })
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestSilentRejoinWithRound: while a process computes a round, the group removes it, and another
// process owns its tasks, processes the same records and commits them. The first process is back as
// a new member without having been told. The broker would accept its round under the new
// membership. The round must be aborted, and every task starts again where the other owner has left
// it (rule 6.2).
func TestSilentRejoinWithRound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		f := b.dropSilently(t, "one")
		inside, gate := make(chan struct{}), make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		var armed atomic.Bool
		why := newRestarts(t)
		app, _ := start(t, hooked(t, func(string) {
			if armed.CompareAndSwap(true, false) {
				close(inside)
				<-gate
			}
		}), b.config(txn.Config{
			StateDir: t.TempDir(), Instance: "one", Workers: 1, Logger: slog.New(why),
		}).WithMemberWatch(rarely))
		feed(t, b, 200)
		b.read(t, "out", 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		before := b.memberID()
		armed.Store(true)
		f.begin(t)
		b.owner(t, 200)
		<-inside
		f.end(t, before)
		if all := why.all(); len(all) > 0 {
			t.Fatalf("the process was told: %q. The test tests nothing", all)
		}
		open()
		feed(t, b, 200)
		check(t, b.read(t, "out", 600), 30)
		why.because(t, "a round cannot be committed")
	})
}

// TestSilentRejoinOfQuietMember: the member id of a process that has nothing to commit is watched
// (rule 6.2). The process begins a new membership before it gets a record, and continues where the
// other owner has left its tasks. The result is the same when the id changes before the watch has
// looked for the first time.
func TestSilentRejoinOfQuietMember(t *testing.T) {
	for name, age := range map[string]time.Duration{"after a minute": time.Minute, "at once": 0} {
		bubble(t, name, func(t *testing.T) { testSilentRejoinOfQuietMember(t, age) })
	}
}

func testSilentRejoinOfQuietMember(t *testing.T, age time.Duration) {
	b := newBroker(t, 2, "in", "out")
	f := b.dropSilently(t, "one")
	var seen atomic.Int64
	why := newRestarts(t)
	app, _ := start(t, hooked(t, func(string) { seen.Add(1) }), b.config(txn.Config{
		StateDir: t.TempDir(), Instance: "one", Workers: 1, Logger: slog.New(why),
	}))
	feed(t, b, 200)
	b.read(t, "out", 200)
	waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
	time.Sleep(age)
	before := b.memberID()
	fetches := b.network.Add(proxy.Match{Key: proxy.KeyFetch, Direction: proxy.ToBroker, ClientID: "counting-one"}, proxy.Cut())
	waitFor(t, "no record to be fetched any more", matched(fetches))
	f.begin(t)
	b.owner(t, 200)
	if all := why.all(); len(all) > 0 || len(app.Status().Tasks) != 2 {
		t.Fatalf("the process was told: %q. The test tests nothing", all)
	}
	f.letGo()
	why.because(t, "")
	fetches.Lift()
	waitFor(t, "another member id", func() bool { now := b.memberID(); return now != "" && now != before })
	feed(t, b, 200)
	check(t, b.read(t, "out", 600), 30)
	if n := seen.Load(); n != 400 {
		t.Errorf("the process has seen %d records, want its own 400 and none of the other owner's", n)
	}
}

// TestSilentRejoinWhileRestoring: the member id changes between the reading of the offsets and the
// end of the restore, and another process has moved the tasks on in between (rule 7.1). The second
// comparison finds it. No task is opened at the old positions, although there is nothing to commit
// and no watch runs.
func TestSilentRejoinWhileRestoring(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Instance: "one", Workers: 1})
		_, stop := start(t, hooked(t, func(string) {}), cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		f := b.dropSilently(t, "one")
		// The fetches of the restore are held. Those of the other process, which come later, are
		// not.
		var alone atomic.Bool
		alone.Store(true)
		fetches := b.network.Add(proxy.Match{
			Key: proxy.KeyFetch, Direction: proxy.ToBroker, ClientID: "counting", Where: func(*proxy.Frame) bool { return alone.Load() },
		}, proxy.Hold())
		why := newRestarts(t)
		cfg.StateDir, cfg.Logger = t.TempDir(), slog.New(why)
		var seen atomic.Int64
		app, _ := start(t, hooked(t, func(string) { seen.Add(1) }), cfg.WithMemberWatch(rarely))
		waitFor(t, "both tasks to know where they are, and to restore", func() bool {
			tasks := app.Status().Tasks
			return len(tasks) == 2 && tasks[0].Remaining > 0 && tasks[1].Remaining > 0 && matched(fetches)()
		})
		alone.Store(false)
		before := b.memberID()
		f.begin(t)
		b.owner(t, 200)
		f.end(t, before)
		if all := why.all(); len(all) > 0 {
			t.Fatalf("the process was told: %q. The test tests nothing", all)
		}
		fetches.Lift()
		why.because(t, "opening task")
		waitFor(t, "both tasks", running(app, 2))
		for _, task := range app.Status().Tasks {
			if at := task.Inputs[0].Offset; at < 200 {
				t.Errorf("task %s was opened at offset %d, want at least the 200 of the other owner", task.ID, at)
			}
		}
		feed(t, b, 200)
		check(t, b.read(t, "out", 600), 30)
		if n := seen.Load(); n != 200 {
			t.Errorf("the process has seen %d records, want its own 200 and none of the other owner's", n)
		}
	})
}

// TestOwnRejoinIsNoFence: the answer FENCED_INSTANCE_ID to offsets says that the group has a newer
// member with this instance id (rule 6.8). The newer member can be this process itself, which has
// joined again while the offsets were on their way. Then its tasks are lost (rule 6.2), but no
// other process has its identity. It begins a new membership, and does not end with the advice to
// look for a second process.
func TestOwnRejoinIsNoFence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		f := b.dropSilently(t, "one")
		var armed atomic.Bool
		sent, answer := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(answer) })
		defer letGo()
		b.ControlKey(keyTxnOffsetCommit, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !armed.CompareAndSwap(true, false) {
				return nil, nil, false
			}
			close(sent)
			b.SleepControl(func() { <-answer })
			req, resp := kreq.(*kmsg.TxnOffsetCommitRequest), kreq.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
			for _, topic := range req.Topics {
				rt := kmsg.NewTxnOffsetCommitResponseTopic()
				rt.Topic = topic.Topic
				for _, p := range topic.Partitions {
					rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
					rp.Partition, rp.ErrorCode = p.Partition, kerr.FencedInstanceID.Code
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
		why, dir := newRestarts(t), t.TempDir()
		app, stop := start(t, countTopology(t), b.config(txn.Config{
			StateDir: dir, Instance: "one", Workers: 1, Logger: slog.New(why),
		}).WithMemberWatch(rarely))
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		before := b.memberID()
		armed.Store(true)
		feed(t, b, 200)
		<-sent
		f.begin(t)
		f.end(t, before)
		letGo()
		why.because(t, "while it was committing")
		check(t, b.read(t, "out", 400), 20)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "FENCED")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a fence is recorded: %v", err)
		}
	})
}
