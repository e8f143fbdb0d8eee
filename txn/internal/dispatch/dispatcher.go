package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/task"
)

// Config is what a dispatcher needs of its membership.
type Config struct {
	// Subtopologies are those of the process, by name.
	Subtopologies map[string]graph.Subtopology
	// Pause and Resume work the switch of the group client. They are called under a lock, in the
	// order of the changes, and must not block.
	Pause, Resume func(topic string, partition int32)
	// QueueBytesMax is the most that one input partition holds.
	QueueBytesMax int64
	Metrics       *metrics.Metrics
}

// Dispatcher gives records to tasks.
type Dispatcher struct {
	subs    map[string]graph.Subtopology
	metrics *metrics.Metrics
	loop    health.Loop
	pauses  *pauses
	intake  intake
	table   table
}

// New returns a dispatcher without tasks.
func New(cfg Config) *Dispatcher {
	return &Dispatcher{
		subs: cfg.Subtopologies, metrics: cfg.Metrics, loop: health.Loop{Name: "dispatcher"}, pauses: newPauses(cfg.Pause, cfg.Resume),
		intake: intake{queueBytesMax: min(cfg.QueueBytesMax, queueBytesMost)}, table: newTable(),
	}
}

// Loop is the progress of the goroutine that polls.
func (d *Dispatcher) Loop() *health.Loop { return &d.loop }

// Dispatch hands records to their tasks. It never blocks: between Poll and Release no callback can
// run.
func (d *Dispatcher) Dispatch(b broker.Batch) {
	d.loop.Began(time.Now())
	d.metrics.Polled(b.Topic, b.Partition, b.Records)
	d.table.RLock()
	r := d.table.routes[Input{b.Topic, b.Partition}]
	d.table.RUnlock()
	if r == nil {
		return // given up; its next owner reads them again from the committed offset
	}
	r.task.SetEnd(r.input, b.LastStableOffset)
	waiting, ok := r.task.Enqueue(r.input, b.Records)
	if !ok {
		return
	}
	if waiting > d.intake.high() {
		// In this order: a resume that comes between the two finds no reason to clear, and the
		// reading below sees the drained queue.
		d.pauses.set(b.Topic, b.Partition, queueFull)
		if r.task.Waiting(r.input) < d.intake.low() {
			d.Resume(b.Topic, b.Partition)
		}
	}
	r.worker.Wake()
}

// Resume lets a partition be fetched again if its full queue had stopped it.
func (d *Dispatcher) Resume(topic string, partition int32) {
	d.pauses.clear(topic, partition, queueFull)
}

// Retrying pauses a task's inputs while it waits long for the next attempt of a record, and resumes
// them.
func (d *Dispatcher) Retrying(t *task.Task, waits bool) {
	d.table.RLock() // a task that was given up meanwhile must not pause the one that follows it
	defer d.table.RUnlock()
	for _, in := range t.Spec.Inputs {
		r := d.table.routes[Input{in.Topic, in.Partition}]
		switch {
		case r == nil || r.task != t:
		case waits:
			d.pauses.set(in.Topic, in.Partition, retrying)
		default:
			d.pauses.clear(in.Topic, in.Partition, retrying)
		}
	}
}

// Divide divides what may be fetched among so many input partitions; what is new is not opened or
// fetched before.
func (d *Dispatcher) Divide(partitions int) {
	d.intake.divide(partitions)
	// Where shares are larger now, nothing else may resume a partition whose queue was full.
	d.table.RLock()
	defer d.table.RUnlock()
	for key, r := range d.table.routes {
		if r.task.Waiting(r.input) < d.intake.low() {
			d.Resume(key.Topic, key.Partition)
		}
	}
}

// Held counts the bytes of all queues.
func (d *Dispatcher) Held() *atomic.Int64 { return &d.intake.held }

// Low is where a paused input is resumed, now.
func (d *Dispatcher) Low() int64 { return d.intake.low() }

// Journal is how much of the input a round may hold that is in no hurry to commit.
func (d *Dispatcher) Journal() int64 { return d.intake.journal() }

// Paused counts the partitions that are paused, by the reasons as metrics name them.
func (d *Dispatcher) Paused() map[string]int {
	out := map[string]int{}
	for why, n := range d.pauses.count() {
		out[pauseReasons[why]] = n
	}
	return out
}

// pauseReasons are the reasons as metrics name them.
var pauseReasons = map[pauseReason]string{
	queueFull: metrics.PausedQueueFull, restoring: metrics.PausedRestoring, retrying: metrics.PausedRetrying, taskHalted: metrics.PausedStopped,
}
