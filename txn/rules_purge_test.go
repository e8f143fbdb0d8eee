package txn_test

import (
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

// repartitionTopology counts behind a repartition topic; see is told the key of every record that
// comes out of it.
func repartitionTopology(t *testing.T, see func(key string)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	keyed := topology.RepartitionWith(in, "again", schemas.String(), schemas.String()).
		Peek("hook", func(r topology.Record[string, string]) error { see(r.Key); return nil })
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(keyed, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// deletions are what DeleteRecords was asked for of the repartition topic, one map of offsets per
// request.
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

// turns are the turns of a purge. The first one comes an interval after the beginning of the
// session, which is less than a second after that of the application.
type turns struct{ began time.Time }

// before waits until shortly before a turn, the first of which is 1.
func (p turns) before(n int) { p.until(n, -2*time.Second) }

// after waits until shortly after a turn.
func (p turns) after(n int) { p.until(n, 2*time.Second) }

func (p turns) until(n int, and time.Duration) {
	time.Sleep(time.Until(p.began.Add(time.Duration(n)*txn.PurgeInterval + and)))
}

// TestPurgeLagsByOneTurn: rule 11.3. A turn deletes what was applied at the turn before it, and not
// what was applied since; nothing is asked for twice.
func TestPurgeLagsByOneTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		d := b.deletions()
		turn := turns{time.Now()}
		app, _ := start(t, repartitionTopology(t, func(string) {}), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		// applied feeds, and returns what is committed at a turn: until then the markers behind the
		// records are committed as well.
		applied := func(n int) map[int32]int64 {
			t.Helper()
			feed(t, b, 200)
			waitFor(t, "the records to be applied behind the repartition topic", func() bool { return app.Status().Totals.Records == int64(400*n) })
			turn.before(n)
			return b.committedIn(t, repartitioned)
		}
		first := applied(1)
		turn.after(1)
		d.want(t, "after the first turn")
		second := applied(2)
		turn.after(2)
		d.want(t, "after the second turn", first)
		third := applied(3)
		turn.after(3)
		d.want(t, "after the third turn", first, second)
		turn.after(5) // which has nothing to delete
		d.want(t, "after the last turn", first, second, third)
		if first[0] == 0 || first[1] == 0 || second[0] <= first[0] || third[1] <= second[1] {
			t.Errorf("the committed offsets are %v, %v and %v: the test tests nothing", first, second, third)
		}
		check(t, b.read(t, "out", 600), 30)
	})
}

// TestPurgeByOwnerOnly: rule 11.3. A task moves to another process between two turns, while its
// former worker is still busy with a record and has not let go of it. The former owner deletes what
// it has read for the tasks that it keeps, and nothing for that one.
func TestPurgeByOwnerOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 4, "in", "out")
		d := b.deletions()
		inside, gate := make(chan struct{}), make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		var armed atomic.Bool
		turn := turns{time.Now()}
		former, _ := start(t, repartitionTopology(t, func(string) {
			if armed.CompareAndSwap(true, false) {
				close(inside)
				<-gate
			}
		}), b.config(txn.Config{
			StateDir: t.TempDir(), Instance: "former", Workers: 1, TransactionTimeout: 10 * time.Minute,
		}))
		feed(t, b, 200)
		waitFor(t, "the records to be applied", func() bool { return former.Status().Totals.Records == 400 })
		turn.before(1)
		committed := b.committedIn(t, repartitioned)
		turn.after(1)
		armed.Store(true)
		feed(t, b, 200)
		<-inside
		next, _ := start(t, repartitionTopology(t, func(string) {}), b.config(txn.Config{
			StateDir: t.TempDir(), Instance: "next", Workers: 1,
		}))
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
		if time.Until(turn.began.Add(2*txn.PurgeInterval)) < 0 {
			t.Fatal("the tasks have moved after the second turn: the test tests nothing")
		}
		turn.after(2)
		d.want(t, "after the move", kept)
		turn.until(3, time.Second) // before the second one of the next owner
		d.want(t, "a turn later", kept)
		open()
		check(t, b.read(t, "out", 400), 20)
	})
}
