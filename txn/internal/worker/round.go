package worker

import (
	"math"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// round is one commit round of a worker. The compute goroutine fills it; from Flush on it belongs
// to its committer.
type round struct {
	n             uint64
	contributions []*task.Contribution
	byTask        map[*task.Task]*task.Contribution
	// outputs are what the round writes for its journal.
	outputs outputs
	// entries counts those of the journal.
	entries int
	worked  bool
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

	committerState committerState
}

// committerState is what the committer's goroutine knows of a round.
type committerState struct {
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
	// err is the first failure before the flush, and answered by it; unusable says that the
	// producer has to be settled.
	err      error
	unusable bool
}

func newRound(n uint64, o outputs) *round {
	return &round{n: n, byTask: map[*task.Task]*task.Contribution{}, outputs: o}
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

// add encodes the outputs of the contribution's last journal entry.
func (r *round) add(c *task.Contribution, outputs []graph.Output) {
	if len(outputs) == 0 {
		return
	}
	at := len(r.contributions) - 1
	for r.contributions[at] != c {
		at--
	}
	r.outputs.add(at, len(c.Journal)-1, outputs)
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
func (r *round) sends() bool { return r.outputs.records() > 0 || r.state > 0 }

// records returns how many records the journals hold, without control records, and the smallest of
// their timestamps, if there is one.
func (r *round) records() (n, oldest int64) {
	oldest = math.MaxInt64
	for _, c := range r.contributions {
		records, first := c.Records()
		n, oldest = n+records, min(oldest, first)
	}
	return n, oldest
}
