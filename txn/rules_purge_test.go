package txn_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const repartitioned = "counting-again-repartition"

// repartitionTopology counts behind a repartition topic; see is told the key of every record that comes out of it.
func repartitionTopology(t *testing.T, see func(key string)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	keyed := topology.Repartition(in, "again", schemas.String(), schemas.String()).
		Peek("hook", func(r topology.Record[string, string]) error { see(r.Key); return nil })
	counts := topology.Store("counts", schemas.String(), schemas.Int64())
	topology.Process(keyed, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// deletions are what DeleteRecords was asked for of the repartition topic, one map of offsets per request.
type deletions struct {
	mu  sync.Mutex
	all []map[int32]int64
}

func (b *testBroker) deletions() *deletions {
	d := &deletions{}
	b.ControlKey(int16(kmsg.DeleteRecords), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked := map[int32]int64{}
		for _, topic := range req.(*kmsg.DeleteRecordsRequest).Topics {
			for _, p := range topic.Partitions {
				asked[p.Partition] = p.Offset
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, asked)
		return nil, nil, false
	})
	return d
}

// want compares all requests so far.
func (d *deletions) want(t *testing.T, what string, want ...map[int32]int64) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.EqualFunc(d.all, want, maps.Equal[map[int32]int64]) {
		t.Errorf("%s: deleted before %v, want %v", what, d.all, want)
	}
}

// turns are the turns of a purge, which come when the test says so.
type turns struct{ begin, over chan struct{} }

func newTurns() turns { return turns{make(chan struct{}), make(chan struct{})} }

// wait is the purge's side of it.
func (c turns) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c.over <- struct{}{}: // at first nothing is over: the purge is ready
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.begin:
		return nil
	}
}

// ready waits for the purge to be between two turns.
func (c turns) ready(t *testing.T) {
	t.Helper()
	select {
	case <-c.over:
	case <-time.After(patience):
		t.Fatalf("waited %s for a turn of the purge to be over", patience)
	}
}

// next makes a turn, and returns when it is over.
func (c turns) next(t *testing.T) {
	t.Helper()
	select {
	case c.begin <- struct{}{}:
	case <-time.After(patience):
		t.Fatalf("waited %s for the purge to take a turn", patience)
	}
	c.ready(t)
}

// TestPurgeLagsByOneTurn: rule 11.3. A turn deletes what was applied at the turn before it, and not what was applied since; nothing is
// asked for twice.
func TestPurgeLagsByOneTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		d := b.deletions()
		turn := newTurns()
		app, _ := start(t, repartitionTopology(t, func(string) {}), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1,
		}).WithPurgeTurn(turn.wait).WithEmptyMax(time.Hour)) // a marker alone moves nothing while the test looks
		applied := func(n int) map[int32]int64 {
			t.Helper()
			feed(t, b, 200)
			waitFor(t, "the records to be applied behind the repartition topic", func() bool { return app.Status().Totals.Records == int64(2*n) })
			return b.committedIn(t, repartitioned)
		}
		turn.ready(t)
		first := applied(200)
		turn.next(t)
		d.want(t, "after the first turn")
		second := applied(400)
		turn.next(t)
		d.want(t, "after the second turn", first)
		third := applied(600)
		turn.next(t)
		d.want(t, "after the third turn", first, second)
		turn.next(t)
		turn.next(t) // has nothing to delete
		d.want(t, "after the last turn", first, second, third)
		if first[0] == 0 || first[1] == 0 || second[0] <= first[0] || third[1] <= second[1] {
			t.Errorf("the committed offsets are %v, %v and %v: the test tests nothing", first, second, third)
		}
		check(t, b.read(t, "out", 600), 30)
	})
}

// TestPurgeByOwnerOnly: rule 11.3. A task moves to another process between two turns, while its former worker is still busy with a
// record and has not let go of it. The former owner deletes what it has read for the tasks that it keeps, and nothing for that one.
func TestPurgeByOwnerOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 4, "in", "out")
		d := b.deletions()
		turn := newTurns()
		inside, gate := make(chan struct{}), make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		var armed atomic.Bool
		former, _ := start(t, repartitionTopology(t, func(string) {
			if armed.CompareAndSwap(true, false) {
				close(inside)
				<-gate
			}
		}), b.config(txn.Config{
			StateDir: t.TempDir(), Instance: "former", Workers: 1, TransactionTimeout: time.Minute,
		}).WithPurgeTurn(turn.wait).WithEmptyMax(time.Hour))
		feed(t, b, 200)
		waitFor(t, "the records to be applied", func() bool { return former.Status().Totals.Records == 400 })
		committed := b.committedIn(t, repartitioned)
		turn.ready(t)
		turn.next(t)
		armed.Store(true)
		feed(t, b, 200)
		<-inside
		next, _ := start(t, repartitionTopology(t, func(string) {}), b.config(txn.Config{
			StateDir: t.TempDir(), Instance: "next", Workers: 1,
		}).WithPurgeTurn(newTurns().wait))
		behind := func(app *txn.App) (partitions []int32) {
			for _, task := range app.Status().Tasks {
				if task.State == txn.TaskRunning && task.ID.Subtopology == "again" {
					partitions = append(partitions, task.ID.Partition)
				}
			}
			return partitions
		}
		waitFor(t, "two of the four tasks to move", func() bool { return len(behind(former)) == 2 && len(behind(next)) == 2 })
		kept := map[int32]int64{}
		for _, p := range behind(former) {
			kept[p] = committed[p]
		}
		for _, p := range behind(next) {
			if committed[p] == 0 {
				t.Fatalf("nothing of partition %d was committed: the test tests nothing", p)
			}
		}
		turn.next(t)
		turn.next(t)
		d.want(t, "after the move", kept)
		open()
		check(t, b.read(t, "out", 400), 20)
	})
}
