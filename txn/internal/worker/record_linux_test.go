package worker

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// BenchmarkRecord is the way of a record inside a task, without a broker: from the queue through the
// graph into the batches, the journal and the overlay, with the end of its round. The round before
// is in flight meanwhile, and is applied outside of the measurement. cpu-ns/op is the processor time
// of the worker's thread.
func BenchmarkRecord(b *testing.B) {
	for _, name := range []string{"pass", "count", "ledger"} {
		b.Run(name, func(b *testing.B) {
			way := newRecordWay(b, name, b.N)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			b.ResetTimer()
			var spent time.Duration
			for left := b.N; left > 0; left -= recordsOfRound {
				began := threadTime(b)
				way.compute(min(left, recordsOfRound))
				spent += threadTime(b) - began
				b.StopTimer()
				way.applyBefore()
				b.StartTimer()
			}
			b.ReportMetric(float64(spent)/float64(b.N), "cpu-ns/op")
		})
	}
}

// TestRecordsAllocateNothing: a record of bytes that are lent costs less than a tenth of an allocation
// between the queue and the batches. A count has none either, but for copies of rows that the
// database looks up.
func TestRecordsAllocateNothing(t *testing.T) {
	for name, most := range map[string]float64{"pass": 0.1, "count": 1} {
		const warm, rounds = 3, 2
		way := newRecordWay(t, name, (warm+rounds)*recordsOfRound)
		var allocated uint64
		for i := range warm + rounds {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			way.compute(recordsOfRound)
			runtime.ReadMemStats(&after)
			way.applyBefore()
			if i >= warm {
				allocated += after.Mallocs - before.Mallocs
			}
		}
		if got := float64(allocated) / (rounds * recordsOfRound); got > most {
			t.Errorf("%s: a record costs %.2f allocations, want %v at most", name, got, most)
		}
	}
}

// recordsOfRound is how many records a task has in one of the rounds of a benchmark.
const recordsOfRound = 5000

// threadTime is the processor time of this thread.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	const ofThread = 1 // RUSAGE_THREAD
	var use syscall.Rusage
	if err := syscall.Getrusage(ofThread, &use); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// recordWay is a worker with one task, whose rounds the test ends.
type recordWay struct {
	tb     testing.TB
	w      *Worker
	task   *task.Task
	inputs []broker.Record
	// records are those of the rounds in flight, one after the other.
	records [3][]broker.Record
	given   [recordsOfRound]*broker.Record
	next    int
	rounds  int
	before  *round
}

// newRecordWay makes inputs for n records.
func newRecordWay(tb testing.TB, name string, n int) *recordWay {
	tb.Helper()
	wl, err := workload.Find(name)
	if err != nil {
		tb.Fatal(err)
	}
	top, err := wl.Topology("bench", workload.Topics{In: "in", Out: "out", Dead: "dead"})
	if err != nil {
		tb.Fatal(err)
	}
	sub := top.Subtopologies()[0]
	spec := task.Spec{
		ID: graph.TaskID{Subtopology: sub.Name}, Inputs: []state.Input{{Topic: "in"}},
	}
	var ofGraph graph.State
	if stores := sub.Declarations(); len(stores) > 0 {
		db, err := pebblestore.Open(tb.TempDir(), pebblestore.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		if spec.State, err = state.NewTask(db, stores); err != nil {
			tb.Fatal(err)
		}
		ofGraph = spec.State
	}
	spec.Graph, err = top.NewGraph(spec.ID, ofGraph, topology.GraphConfig{Now: time.Now, Partitions: func(string) int32 { return 4 }})
	if err != nil {
		tb.Fatal(err)
	}
	x := &recordWay{tb: tb, task: task.New(spec), inputs: make([]broker.Record, n)}
	tb.Cleanup(func() {
		if err := x.task.Close(); err != nil {
			tb.Error(err)
		}
	})
	source, err := wl.NewSource(workload.Input{Seed: 1, Keys: 10_000, Distribution: workload.Uniform})
	if err != nil {
		tb.Fatal(err)
	}
	at := time.Now()
	for i := range x.inputs {
		r := source.Next(at.Add(time.Duration(i)).UnixNano())
		x.inputs[i] = broker.Record{Topic: "in", Key: r.Key, Value: r.Value, Timestamp: at, Offset: int64(i)}
	}
	x.w = &Worker{cfg: Config{
		Cadence:       Cadence{BytesMax: 1 << 40},
		QueueBytesLow: func() int64 { return 0 },
		Resume:        func(string, int32) {},
	}, rounds: map[uint64]*round{}}
	return x
}

// compute takes so many records into a round, and seals it.
func (x *recordWay) compute(n int) {
	x.begin()
	slab := x.records[x.rounds%3]
	if slab == nil {
		slab = make([]broker.Record, recordsOfRound)
		x.records[x.rounds%3] = slab
	}
	for i := range n {
		slab[i] = x.inputs[x.next+i]
		x.given[i] = &slab[i]
	}
	x.next += n
	x.task.Enqueue(0, x.given[:n])
	x.task.Pull()
	s := slice{w: x.w, began: time.Now(), left: n + 1}
	if !x.w.computeTask(x.task, &s) {
		x.tb.Fatal("the worker has not taken all records")
	}
}

// begin opens a round. The worker's protocol is where it asks for nothing.
func (x *recordWay) begin() {
	w := x.w
	w.open = newRound(uint64(x.rounds), w.spare.take(func() *batch.Set { return batch.NewSet(func(string) int { return 1_000_012 }) }))
	w.rounds[w.open.n] = w.open
	w.state.Back, w.state.WantStream = protocol.Streaming, true
}

// applyBefore ends the round before and seals the present one, which is in flight from then on.
func (x *recordWay) applyBefore() {
	if x.before != nil {
		x.end(x.before)
	}
	r := x.w.open
	for _, c := range r.contributions {
		c.Seal(time.Now())
	}
	x.w.open, x.before = nil, r
	x.rounds++
}

// end applies a round and gives its memory back.
func (x *recordWay) end(r *round) {
	r.outputs.take(true)
	for _, c := range r.contributions {
		if len(c.Journal) == 0 || c.DeadLetters > 0 {
			x.tb.Fatal("the round is not that of the workload")
		}
		c.Flushed(state.RoundID{ProducerID: int64(r.n) + 1}, true, [8]byte{}, nil)
		if err := c.Apply(); err != nil {
			x.tb.Fatal(fmt.Errorf("round %d: %w", r.n, err))
		}
		c.Retire()
		x.w.giveBack(c)
	}
	delete(x.w.rounds, r.n)
	x.w.reuse(r)
}
