package restore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeLog is a changelog that needs no broker.
type fakeLog struct {
	p   kmsg.FetchResponseTopicPartition
	end int64
	// stable is the last stable offset: nothing at or above it is returned. It is waited for a
	// little, as a broker does.
	stable atomic.Int64
	// fetched is called before every answer.
	fetched func(offset int64) error
}

func newFakeLog(p kmsg.FetchResponseTopicPartition) *fakeLog {
	l := &fakeLog{p: p, end: batch.Next(&p, 0)}
	l.stable.Store(l.end)
	return l
}

func (l *fakeLog) Fetch(ctx context.Context, offset int64, bytesMax int32) (broker.Answer, error) {
	if l.fetched != nil {
		if err := l.fetched(offset); err != nil {
			return broker.Answer{}, err
		}
	}
	answer := l.p
	answer.RecordBatches = nil
	for in := l.p.RecordBatches; len(in) > 0; {
		size := 12 + int(binary.BigEndian.Uint32(in[8:]))
		last := int64(binary.BigEndian.Uint64(in)) + int64(binary.BigEndian.Uint32(in[23:]))
		full := len(answer.RecordBatches) > 0 && len(answer.RecordBatches)+size > int(bytesMax)
		if last >= l.stable.Load() || full {
			break
		}
		if last >= offset {
			answer.RecordBatches = append(answer.RecordBatches, in[:size]...)
		}
		in = in[size:]
	}
	if len(answer.RecordBatches) == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return broker.Answer{}, ctx.Err()
		}
	}
	return broker.NewAnswer(answer, offset), ctx.Err()
}

func (l *fakeLog) Close() {}

// below returns what a store holds that has read everything committed below an offset.
func (l *fakeLog) below(t *testing.T, offset int64) map[string]string {
	t.Helper()
	want := map[string]string{}
	_, err := batch.NewDecoder().Decode(&l.p, 0, func(r batch.Record) error {
		switch {
		case r.Offset >= offset:
		case r.Value == nil:
			delete(want, string(r.Key))
		default:
			want[string(r.Key)] = string(r.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// testBench is a task that is restored from fake changelogs.
type testBench struct {
	t    *testing.T
	logs map[string]*fakeLog // by store
	r    *Restorer
	db   state.Database
	p    Progress
}

func newBench(t *testing.T, bytesMax int64, seats int, logs map[string]*fakeLog) *testBench {
	b := &testBench{t: t, logs: logs, db: memstore.New()}
	b.r = &Restorer{Logger: slog.New(slog.DiscardHandler), budget: newBudget(bytesMax, seats)}
	b.r.stream = func(c Changelog, _ int32) stream { return logs[c.Store] }
	return b
}

// replays go on where the database is.
func (b *testBench) replays() (out []Replay) {
	for store, log := range b.logs {
		at, _ := b.db.Positions().Changelog(store)
		out = append(out, Replay{Changelog: Changelog{Store: store, Topic: store, TopicID: [16]byte{1}}, From: at.Scanned, Target: log.end})
	}
	return out
}

func (b *testBench) opening(stores ...Store) *opening {
	for store := range b.logs {
		if !slices.ContainsFunc(stores, func(s Store) bool { return s.Name == store }) {
			stores = append(stores, Store{Name: store})
		}
	}
	return &opening{
		r: b.r, db: b.db, progress: &b.p, log: b.r.Logger, came: time.Now(),
		req: Request{Task: graph.TaskID{Subtopology: "in", Partition: 1}, Stores: stores},
	}
}

func (b *testBench) run(ctx context.Context) error {
	b.t.Helper()
	err := b.opening().replay(ctx, b.replays())
	if used, _ := b.r.Memory(); used != 0 || len(b.r.budget.waiters) != 0 || b.r.budget.loading != 0 {
		b.t.Errorf("%d bytes are still in use, %d wait, %d load", used, len(b.r.budget.waiters), b.r.budget.loading)
	}
	return err
}

// check compares every store with what is below its position.
func (b *testBench) check() (applied int64) {
	b.t.Helper()
	positions := b.db.Positions()
	for store, log := range b.logs {
		at, _ := positions.Changelog(store)
		if at.Applied >= log.end {
			b.t.Errorf("store %s is at %+v: that is the target, which only a whole restore has reached", store, at)
		}
		want := log.below(b.t, at.Scanned)
		got := map[string]string{}
		for e, err := range b.db.Scan(state.IDOf(store), state.Range{}) {
			if err != nil {
				b.t.Fatal(err)
			}
			got[string(e.Key)] = string(e.Value)
		}
		if len(got) != len(want) {
			b.t.Errorf("store %s at %d has %d keys, want %d", store, at.Scanned, len(got), len(want))
		}
		for k, v := range want {
			if have, ok := got[k]; !ok || have != v {
				b.t.Errorf("store %s at %d: key %.16x is %.16x (%t), want %.16x", store, at.Scanned, k, have, ok, v)
				break
			}
		}
		applied += at.Scanned
	}
	return applied
}

func randomLogs(seed uint64, n, batches int) map[string]*fakeLog {
	logs := map[string]*fakeLog{}
	for i := range n {
		logs[fmt.Sprintf("store-%d", i)] = newFakeLog(batchtest.RandomLog(rand.New(rand.NewPCG(seed, uint64(i))), batches))
	}
	return logs
}

// TestReplay: random changelogs of several stores, with aborted transactions, end up as what is
// committed in them.
func TestReplay(t *testing.T) {
	for seed := range uint64(12) {
		b := newBench(t, 0, 1+int(seed%3), randomLogs(seed, 1+int(seed%4), 100))
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.check()
		for store, log := range b.logs {
			if at, _ := b.db.Positions().Changelog(store); at.Scanned != log.end {
				t.Errorf("store %s is scanned to %d, want %d", store, at.Scanned, log.end)
			}
		}
		if s := b.p.Read(time.Now()); s.Remaining != 0 || s.Records == 0 {
			t.Errorf("the progress says %+v", s)
		}
	}
}

// TestReplayIsResumable: whatever ends a restore, each store is at what is below its position, and
// a further one goes on there. The changelogs are small, of all kinds, or so large that chunks go
// to the database in the middle of answers.
func TestReplayIsResumable(t *testing.T) {
	for seed := range uint64(14) {
		rng := rand.New(rand.NewPCG(seed, 3))
		logs := randomLogs(seed, 2, 60)
		if seed < 4 {
			logs = map[string]*fakeLog{"a": largeLog(40_000, 30_000, 200), "b": largeLog(20_000, 300, 200)}
		}
		b := newBench(t, 0, 2, logs)
		var left atomic.Int64
		var cancel context.CancelFunc
		broken := errors.New("broken")
		for _, log := range b.logs {
			log.fetched = func(int64) error {
				switch {
				case left.Add(-1) >= 0:
				case seed%2 == 0:
					return broken
				default:
					cancel()
				}
				return nil
			}
		}
		tries, before := 0, int64(0)
		for {
			tries++
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			left.Store(rng.Int64N(8) + int64(tries)) // more and more, so that it ends
			err := b.run(ctx)
			cancel()
			now := b.check()
			if now < before {
				t.Fatalf("the positions went from %d to %d", before, now)
			}
			if before = now; err == nil {
				break
			}
			if !errors.Is(err, broken) && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
}

// largeLog has n records over keys, of about valueSize bytes, in batches of 200.
func largeLog(n, keys, valueSize int) *fakeLog {
	var p kmsg.FetchResponseTopicPartition
	rng := rand.New(rand.NewPCG(uint64(n), uint64(keys)))
	for base := 0; base < n; base += 200 {
		records := make([]batchtest.Record, 200)
		for i := range records {
			records[i] = batchtest.Record{
				Delta: int64(i), Timestamp: 1_700_000_000_000, Key: fmt.Appendf(nil, "key-%08d", rng.IntN(keys)),
				Value: bytes.Repeat([]byte{byte(base), byte(i)}, valueSize/2),
			}
		}
		p.RecordBatches = append(p.RecordBatches, batchtest.Encode(int64(base), 199, 1, 0, kgo.NoCompression(), records)...)
	}
	return newFakeLog(p)
}

// counting counts the ways into a database.
type counting struct {
	state.Database
	applies, loads atomic.Int64
}

func (c *counting) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	c.applies.Add(1)
	return c.Database.Apply(base, next, writes)
}

func (c *counting) Load(base, next state.Positions, store state.StoreID, sorted iter.Seq[state.Write]) error {
	c.loads.Add(1)
	return c.Database.Load(base, next, store, sorted)
}

// TestReplayWithinBudget: with far less memory than there is to read, in parallel, nothing is held
// beyond the budget, large chunks are loaded as tables, small ones are applied.
func TestReplayWithinBudget(t *testing.T) {
	logs := map[string]*fakeLog{"a": largeLog(60_000, 50_000, 300), "b": largeLog(30_000, 100, 300), "c": largeLog(400, 100, 10)}
	const bytesMax = 16 << 20
	b := newBench(t, bytesMax, 3, logs)
	db := &counting{Database: b.db}
	b.db = db
	var most atomic.Int64
	for _, log := range logs {
		log.fetched = func(int64) error {
			used, _ := b.r.Memory()
			most.Store(max(most.Load(), used))
			return nil
		}
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.check()
	if most.Load() > bytesMax || most.Load() < bytesMax/4 {
		t.Errorf("%d bytes of %d were in use at most", most.Load(), bytesMax)
	}
	if db.loads.Load() < 3 || db.applies.Load() == 0 {
		t.Errorf("%d loads and %d applies", db.loads.Load(), db.applies.Load())
	}
	if n := len(b.r.budget.spare); n != 0 {
		t.Errorf("%d pages are kept although nothing is restored", n)
	}
}

// TestReplayTakesWhatIsLargerThanTheBudget: a single record never waits for memory that there is
// not.
func TestReplayTakesWhatIsLargerThanTheBudget(t *testing.T) {
	logs := map[string]*fakeLog{"a": largeLog(200, 1000, 200_000), "b": largeLog(20_000, 1000, 100)} // 40 MB in one batch
	var p kmsg.FetchResponseTopicPartition
	for i := range 3 {
		p.RecordBatches = append(p.RecordBatches, batchtest.Encode(int64(i), 0, 1, 0, kgo.NoCompression(), []batchtest.Record{
			{Key: []byte{byte(i)}, Value: make([]byte, 20<<20), Timestamp: 1_700_000_000_000}})...)
	}
	logs["c"] = newFakeLog(p)
	b := newBench(t, 0, 2, logs)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.check()
}

// TestReplayWaitsForATransaction: a changelog that an open transaction holds keeps neither the only
// seat nor what was read of it, and goes on when the transaction ends.
func TestReplayWaitsForATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := map[string]*fakeLog{"held": largeLog(40_000, 1000, 100), "free": largeLog(40_000, 1000, 100)}
		logs["held"].stable.Store(20_000)
		b := newBench(t, 0, 1, logs)
		done := make(chan error, 1)
		go func() { done <- b.opening().replay(t.Context(), b.replays()) }()
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		positions := b.db.Positions()
		held, _ := positions.Changelog("held")
		free, _ := positions.Changelog("free")
		if free.Scanned != logs["free"].end {
			t.Errorf("the free one is at %d of %d", free.Scanned, logs["free"].end)
		}
		if held.Scanned != 20_000 {
			t.Errorf("the held one is at %d: what was read of it is lost with a kill", held.Scanned)
		}
		if used, _ := b.r.Memory(); used != 0 {
			t.Errorf("%d bytes are in use by a restore that waits", used)
		}
		b.check()
		if s := b.p.Read(time.Now()); s.Remaining != 20_000 || s.Rate > 1000 {
			t.Errorf("the progress of a restore that waits says %+v", s)
		}
		logs["held"].stable.Store(logs["held"].end)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.check()
	})
}

// TestReplayEndsWhenItsTaskIsTakenAway: at once, in whatever it waits for.
func TestReplayEndsWhenItsTaskIsTakenAway(t *testing.T) {
	for name, hold := range map[string]func(*testBench){
		"an open transaction": func(b *testBench) { b.logs["a"].stable.Store(10_000) },
		"a seat":              func(b *testBench) { b.r.budget.seats = 0 },
		"memory":              func(b *testBench) { b.r.budget.pages = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 0, 1, map[string]*fakeLog{"a": largeLog(40_000, 1000, 100)})
				hold(b)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- b.opening().replay(ctx, b.replays()) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(done) > 0 {
					t.Fatalf("it does not wait: %v", <-done)
				}
				before := time.Now()
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("it took %s", took)
				}
				b.check()
			})
		})
	}
}

// TestReplayRefusesDamage: what is no record ends the restore, and names where it is without a byte
// of it.
func TestReplayRefusesDamage(t *testing.T) {
	log := largeLog(1000, 50, 40)
	log.p.RecordBatches[len(log.p.RecordBatches)-5] ^= 1
	b := newBench(t, 0, 1, map[string]*fakeLog{"a": log})
	err := b.run(t.Context())
	if !errors.Is(err, batch.ErrMalformed) || !strings.Contains(err.Error(), "reading a[1]") || !strings.Contains(err.Error(), "at offset 800") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(fmt.Sprint(err), "key-") {
		t.Errorf("the error has a key in it: %v", err)
	}
}

// TestReplayRows: a store's rows can be other bytes than its records. A record that cannot be one
// of its layout ends the restore, and is not taken for damage of the database.
func TestReplayRows(t *testing.T) {
	b := newBench(t, 0, 1, map[string]*fakeLog{"a": largeLog(1000, 50, 40)})
	if err := b.opening(Store{Name: "a", Layout: state.Layout{Kind: state.TimestampedKind}}).replay(t.Context(), b.replays()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range b.db.Scan(state.IDOf("a"), state.Range{}) {
		n++
		if err != nil || len(e.Value) != 8+40 || binary.BigEndian.Uint64(e.Value) != 1_700_000_000_000 {
			t.Fatalf("got %q with %x, %v", e.Key, e.Value, err)
		}
	}
	if n != 50 {
		t.Errorf("%d rows", n)
	}
	b = newBench(t, 0, 1, map[string]*fakeLog{"a": largeLog(1000, 50, 40)})
	o := b.opening(Store{Name: "a", Layout: state.Layout{Kind: state.SessionKind, Retention: 1000}}) // keys end with two times
	err := o.replay(t.Context(), b.replays())
	if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "holds at offset 0 what a session store") {
		t.Errorf("got %v", err)
	}
	o.req.Remove = func() error { t.Error("the database was removed"); return nil }
	if o.abandon(err) == nil {
		t.Error("the error is gone")
	}
}

// TestDamagedDatabaseIsRemoved: damage that only shows in the middle of a restore would stop every
// further try at the same place. Row of the failure matrix: corrupt state directory.
func TestDamagedDatabaseIsRemoved(t *testing.T) {
	b := newBench(t, 0, 1, map[string]*fakeLog{"a": largeLog(1000, 50, 40)})
	b.db = &corrupt{b.db}
	o := b.opening()
	removed := 0
	o.req.Remove = func() error { removed++; return nil }
	if err := o.abandon(o.replay(t.Context(), b.replays())); !errors.Is(err, state.ErrCorrupt) || removed != 1 {
		t.Errorf("got %v; the database was removed %d times", err, removed)
	}
}

// corrupt finds damage with every write.
type corrupt struct{ state.Database }

func (corrupt) Apply(state.Positions, state.Positions, iter.Seq[state.Write]) error {
	return fmt.Errorf("a block: %w", state.ErrCorrupt)
}

// TestEmptyOneStore: the stores that are restored in full are emptied one by one and their
// neighbours are not touched. The age of the database stays that of the oldest gap.
func TestEmptyOneStore(t *testing.T) {
	id := [16]byte{1}
	full := func(store string) Replay {
		return Replay{Changelog: Changelog{Store: store, TopicID: id}, Target: 10, Full: Expired, Reason: "why"}
	}
	whole := Replay{Changelog: Changelog{Store: "b", TopicID: id}, From: 7, Target: 7}
	gap := Replay{Changelog: Changelog{Store: "b", TopicID: id}, From: 5, Target: 7}
	for _, tc := range []struct {
		name    string
		replays []Replay
		young   bool
	}{
		{"its neighbour has everything", []Replay{full("a"), whole}, true},
		{"its neighbour has a gap", []Replay{full("a"), gap}, false},
		{"both", []Replay{full("a"), full("b")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 0, 1, nil)
			at := state.Positions{WrittenAt: 1000, Round: round7, State: round6, Changelogs: []state.Changelog{
				{Store: "a", TopicID: id, Applied: 5, Scanned: 6}, {Store: "b", TopicID: id, Applied: 7, Scanned: 7},
			}}
			err := b.db.Apply(state.Positions{}, at, func(yield func(state.Write) bool) {
				for _, store := range []string{"a", "b"} {
					if !yield(state.Write{Store: state.IDOf(store), Key: []byte("k"), Value: []byte("v")}) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			var told strings.Builder
			o := b.opening()
			o.log = slog.New(slog.NewTextHandler(&told, nil))
			if err := o.empty(tc.replays); err != nil {
				t.Fatal(err)
			}
			p := b.db.Positions()
			for _, c := range tc.replays {
				_, there, err := b.db.Get(state.IDOf(c.Store), []byte("k"))
				now, _ := p.Changelog(c.Store)
				before, _ := at.Changelog(c.Store)
				if c.Full != "" {
					before = state.Changelog{Store: c.Store, TopicID: id}
				}
				if err != nil || there != (c.Full == "") || now != before {
					t.Errorf("store %s: its key is there: %t (%v), at %+v", c.Store, there, err, now)
				}
				line := "store=" + c.Store + " cause=tombstones_expired reason=why"
				if strings.Contains(told.String(), line) != (c.Full != "") {
					t.Errorf("the log says %q", told.String())
				}
			}
			if (p.WrittenAt != 1000) != tc.young {
				t.Errorf("the database is of %d", p.WrittenAt)
			}
		})
	}
}

func about(got, want float64) bool { return math.Abs(got-want) < want/1000 }

// TestProgress: the rate is that of the last seconds, and what is left follows from it.
func TestProgress(t *testing.T) {
	var p Progress
	now := time.Unix(0, 0)
	if s := p.Read(now); s != (Snapshot{}) {
		t.Errorf("before it begins it says %+v", s)
	}
	p.Expect(now, 100_000)
	for range 100 { // 10 s at 5,000 a second
		now = now.Add(100 * time.Millisecond)
		p.Add(now, 400, 4000, 500)
	}
	if s := p.Read(now); s.Records != 40_000 || s.Bytes != 400_000 || s.Remaining != 50_000 || !about(s.Rate, 5000) || !about(s.Left.Seconds(), 10) {
		t.Errorf("in the middle it says %+v", s)
	}
	now = now.Add(time.Minute)
	if s := p.Read(now); s.Rate > 500 {
		t.Errorf("a restore that has stood still for a minute has a rate of %f", s.Rate)
	}
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		p.Add(now, 1, 1, 100)
	}
	if s := p.Read(now); !about(s.Rate, 1000) {
		t.Errorf("ten seconds later the rate is %f", s.Rate)
	}
	var all sync.WaitGroup // the race detector looks
	for range 4 {
		all.Go(func() { p.Add(now, 1, 1, 1); p.Read(now) })
	}
	all.Wait()
}

// TestFailedFetchIsNoEnd: a failed fetch has not reached the target, and must not end the answers
// as if it had. Otherwise the collected records would go to the database with the target as their
// position, and the rest would never be read.
func TestFailedFetchIsNoEnd(t *testing.T) {
	errDenied := errors.New("fetching is not allowed any more")
	for _, fails := range []bool{true, false} {
		b := newBench(t, 0, 1, map[string]*fakeLog{"a": largeLog(400, 50, 40)})
		fetches := 0
		b.logs["a"].fetched = func(int64) error {
			if fetches++; fails && fetches > 1 {
				return errDenied
			}
			return nil
		}
		b.logs["a"].stable.Store(map[bool]int64{true: b.logs["a"].end / 2, false: b.logs["a"].end}[fails])
		x := &changelog{opening: b.opening(), Replay: b.replays()[0], id: state.IDOf("a")}
		answers := make(chan broker.Answer, 400)
		err := x.fetch(t.Context(), answers)
		for len(answers) > 0 {
			<-answers
		}
		select {
		case <-answers:
			if fails {
				t.Error("a fetch that failed has ended the answers")
			}
		default:
			if !fails {
				t.Error("the answers have no end")
			}
		}
		if fails != errors.Is(err, errDenied) {
			t.Errorf("fetching ended with %v", err)
		}
	}
}

// TestStandbyLetsOthersPass: the restore of a task that is to work does not wait until a standby has
// read its changelogs.
func TestStandbyLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := map[string]*fakeLog{"big": largeLog(400_000, 1000, 100)}
		logs["big"].fetched = func(int64) error { time.Sleep(time.Second); return nil }
		b := newBench(t, 0, 1, logs)
		standby := make(chan error, 1)
		go func() {
			o := b.opening()
			o.req.Standby = true
			standby <- o.replay(t.Context(), b.replays())
		}()
		time.Sleep(3 * time.Second)
		active := &testBench{t: t, logs: map[string]*fakeLog{"small": largeLog(500, 10, 10)}, db: memstore.New(), r: b.r}
		synctest.Wait() // nothing looks at the logs now
		logs["small"] = active.logs["small"]
		began := time.Now()
		if err := active.opening().replay(t.Context(), active.replays()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 3*time.Second {
			t.Errorf("the task has waited %s for 500 records", waited)
		}
		if err := <-standby; err != nil {
			t.Error(err)
		}
	})
}

// TestStandbysShareTheirPace: all copies together read no more than the bound, also where one
// answer is more than the bytes of a second. A task that is to work has no bound.
func TestStandbysShareTheirPace(t *testing.T) {
	const perSecond = 256 << 10
	for _, standby := range []bool{true, false} {
		t.Run(fmt.Sprintf("standby=%t", standby), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := map[string]*fakeLog{"one": largeLog(20_000, 1000, 100), "two": largeLog(40_000, 1000, 100)}
				b := newBench(t, 0, 2, logs)
				b.r.pace = newPace(perSecond)
				bytes := len(logs["one"].p.RecordBatches) + len(logs["two"].p.RecordBatches)
				began := time.Now()
				o := b.opening()
				o.req.Standby = standby
				if err := o.replay(t.Context(), b.replays()); err != nil {
					t.Fatal(err)
				}
				// One answer is free at the start, and the last one of each log is not waited for.
				least := time.Duration(bytes-3*fetchBytes) * time.Second / perSecond
				switch took := time.Since(began); {
				case standby && took < least:
					t.Errorf("%d bytes were read in %s, want at least %s", bytes, took, least)
				case standby && took > time.Duration(bytes)*time.Second/perSecond+time.Second:
					t.Errorf("%d bytes took %s, which is slower than the bound", bytes, took)
				case !standby && took > time.Second:
					t.Errorf("a task that is to work has waited %s", took)
				}
			})
		})
	}
}

// TestStandbyStopsWithoutRoom: a copy reads until its database may not grow any more, ends with that
// error, and goes on there later.
func TestStandbyStopsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := map[string]*fakeLog{"log": largeLog(40_000, 1000, 100)}
		b := newBench(t, 0, 1, logs)
		errFull := errors.New("full")
		asked, room := 0, 3
		open := func() *opening {
			o := b.opening()
			o.req.Standby, o.req.Room = true, func(db state.Database) error {
				if asked++; asked > room || db != b.db {
					return errFull
				}
				return nil
			}
			return o
		}
		if err := open().replay(t.Context(), b.replays()); !errors.Is(err, errFull) {
			t.Fatalf("the copy ends with %v, want the error of Room", err)
		}
		at, _ := b.db.Positions().Changelog("log")
		if at.Scanned >= logs["log"].end {
			t.Fatal("all was read")
		}
		asked, room = 0, 1000
		if err := open().replay(t.Context(), b.replays()); err != nil {
			t.Fatal(err)
		}
		if at, _ := b.db.Positions().Changelog("log"); at.Scanned != logs["log"].end {
			t.Errorf("the copy is at %d, want %d", at.Scanned, logs["log"].end)
		}
	})
}
