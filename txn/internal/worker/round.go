package worker

import (
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// round is one commit round of a worker. The compute goroutine fills it; from Flush on it belongs
// to its turn.
type round struct {
	n             uint64
	contributions []*task.Contribution
	byTask        map[*task.Task]*task.Contribution
	// outputs are all records that the round produces, in order; the first handed of them are with
	// the turn.
	outputs []*broker.Record
	handed  int
	// origins says for each output which journal entry it comes from.
	origins []origin
	// records is what outputs were lent.
	records lent
	// waiting and total count the bytes of outputs: those not handed over, and all.
	waiting, total int64
	entries        int
	worked         bool
	// held is the memory of the journal, state that of the open overlays.
	held, state int64
	started     time.Time
	sealed      time.Time
	// full says that the byte bound ended the round: nothing more may join.
	full bool
	// dropped says that the round runs again and only its transaction is left to be aborted.
	dropped bool
	// refused is the record that the cluster will never take; it decides how the round runs again.
	refused *broker.ProduceError
	// unread is the input topic of which no offset can be committed, if that is what ended the
	// round.
	unread *broker.OffsetError
	// failure is the answer that ended the round, if it had one of its own; for the metrics.
	failure protocol.EventKind

	turnState turnState
}

// turnState is what the turn's goroutine knows of a round.
type turnState struct {
	began    bool
	beganAt  time.Time
	identity broker.Identity
	// offsetsSent says that the transaction may have touched the group's offsets.
	offsetsSent bool
	// ended says that the transaction is over, and markers in how many partitions it has then left
	// one.
	ended   bool
	markers int
	id      state.RoundID
	records int
	// changelog is what the changelog records were lent.
	changelog lent
	// err is the first failure before the flush, and answered by it; unusable says that the
	// producer has to be settled.
	err      error
	unusable bool
}

// origin is the journal entry that an output comes from.
type origin struct {
	contribution *task.Contribution
	entry        int
}

func newRound(n uint64, l lists) *round {
	return &round{n: n, byTask: map[*task.Task]*task.Contribution{}, outputs: l.outputs, origins: l.origins}
}

func (r *round) contribution(t *task.Task) *task.Contribution {
	c := r.byTask[t]
	if c == nil {
		c = t.Begin()
		r.byTask[t] = c
		r.contributions = append(r.contributions, c)
	}
	return c
}

// setDoubt tells the tasks of the round since when its commit is in doubt, nil when it no longer
// is. It is called for rounds whose commit was sent, and for no other: the round on top, which is
// dropped while the one below is in doubt, holds the same tasks.
func (r *round) setDoubt(since *time.Time) {
	for _, c := range r.contributions {
		c.Task.SetDoubt(since)
	}
}

// outputOverhead is what a produced record costs beside its bytes.
const outputOverhead = 96

// add takes over the outputs of the contribution's last journal entry. The bytes are not copied:
// the graph never reuses them.
func (r *round) add(c *task.Contribution, outputs []graph.Output, slab *slab) {
	from := origin{c, len(c.Journal) - 1}
	for i := range outputs {
		o := &outputs[i]
		rec := slab.next(&r.records)
		rec.Topic, rec.Partition, rec.Key, rec.Value = o.Topic, o.Partition, o.Key, o.Value
		rec.Timestamp = time.UnixMilli(o.Timestamp)
		n := int64(outputOverhead + len(o.Key) + len(o.Value))
		for _, h := range o.Headers {
			rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
			n += int64(len(h.Key) + len(h.Value))
		}
		r.outputs = append(r.outputs, rec)
		r.origins = append(r.origins, from)
		r.waiting += n
		r.total += n
	}
}

// take hands the waiting outputs over.
func (r *round) take() []*broker.Record {
	out := r.outputs[r.handed:]
	r.handed, r.waiting = len(r.outputs), 0
	return out
}

// countState brings the sum of the overlays up to date after one task has written. Asking all of
// them for every record would cost more with every task.
func (r *round) countState(c *task.Contribution) {
	if c.Task.State == nil {
		return
	}
	n := int64(c.Task.State.OpenBytes())
	r.state += n - c.StateBytes
	c.StateBytes = n
}

// sends reports whether committing the round would send any record.
func (r *round) sends() bool { return len(r.outputs) > 0 || r.state > 0 }
