package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// Worker counts for one worker. All methods do nothing on a nil pointer.
type Worker struct {
	m    *Metrics
	name string

	processed, rounds, rerun, inDoubt, markers prometheus.Counter
	failures, aborts, resolutions              map[string]prometheus.Counter
	phases                                     map[protocol.EffectKind]prometheus.Observer

	// tasks keeps the series of each task, so that a round does not look them up by their labels.
	// It belongs to the compute goroutine.
	tasks map[graph.TaskID]*taskSeries
}

// taskSeries are the series that every round of a task moves.
type taskSeries struct {
	inputs             []prometheus.Counter // in the order of the task's inputs
	outputs, changelog prometheus.Counter
	outcomes           map[graph.OutcomeCount]prometheus.Counter
}

// commitFailures are the events that are not the one hoped for.
var commitFailures = map[protocol.EventKind]string{
	protocol.FlushFailed: "flush_failed", protocol.OffsetsRefused: "offsets_refused", protocol.ProducerLost: "producer_lost",
	protocol.CommitUnknown: "commit_unknown", protocol.AbortUnknown: "abort_unknown", protocol.ApplyFailed: "apply_failed",
}

// resolutions are what the log says of a commit in doubt.
var resolutions = map[protocol.EventKind]string{
	protocol.FoundOurs: "committed", protocol.FoundPrevious: "aborted", protocol.FoundOther: "foreign", protocol.FoundMixed: "mixed",
}

// phases are the effects that are timed.
var phases = map[protocol.EffectKind]string{
	protocol.Flush: "flush", protocol.SendOffsets: "offsets", protocol.End: "end", protocol.Apply: "apply",
	protocol.Abort: "abort", protocol.Settle: "settle", protocol.Ask: "ask",
}

// The causes of an aborted round that no answer about the round itself explains.
const (
	// CauseBase: the round that it was computed upon was aborted.
	CauseBase = "base_aborted"
	// CauseGivenUp: a task with work in it was given up.
	CauseGivenUp = "task_given_up"
)

// CauseOf returns the cause of the abort of a round that ended with that answer.
func CauseOf(kind protocol.EventKind) string {
	return strings.ReplaceAll(kind.String(), "-", "_")
}

// Worker returns the counters of the worker with that number. Series of closed label sets begin
// with 0, so that a rate sees the first failure.
func (m *Metrics) Worker(id int) *Worker {
	worker := strconv.Itoa(id)
	w := &Worker{
		m: m, name: worker, processed: m.processed.WithLabelValues(worker), rounds: m.rounds.WithLabelValues(worker),
		rerun: m.rerun.WithLabelValues(worker), inDoubt: m.inDoubt.WithLabelValues(worker),
		markers: m.markers.WithLabelValues(worker), failures: map[string]prometheus.Counter{},
		aborts: map[string]prometheus.Counter{}, resolutions: map[string]prometheus.Counter{},
		phases: map[protocol.EffectKind]prometheus.Observer{}, tasks: map[graph.TaskID]*taskSeries{},
	}
	for _, kind := range commitFailures {
		w.failures[kind] = m.failures.WithLabelValues(worker, kind)
	}
	for _, cause := range []string{
		CauseOf(protocol.FlushFailed), CauseOf(protocol.OffsetsRefused), CauseOf(protocol.ProducerLost), CauseOf(protocol.CommitUnknown),
		CauseBase, CauseGivenUp,
	} {
		w.aborts[cause] = m.aborted.WithLabelValues(worker, cause)
	}
	for _, resolution := range resolutions {
		w.resolutions[resolution] = m.resolutions.WithLabelValues(worker, resolution)
	}
	for kind, phase := range phases {
		w.phases[kind] = m.phase.WithLabelValues(phase)
	}
	return w
}

// Slice counts a slice of records that were run through the graph.
func (w *Worker) Slice(took time.Duration, records int) {
	if w == nil {
		return
	}
	w.processed.Add(float64(records))
	w.m.slice.Observe(took.Seconds())
}

// Retried counts a record that its policy postponed.
func (w *Worker) Retried(id graph.TaskID, class graph.Class) {
	if w == nil {
		return
	}
	w.m.retries.WithLabelValues(id.String(), class.String()).Inc()
}

// Answered counts what an answer about a round's commit tells, if it is a failure or resolves a
// doubt.
func (w *Worker) Answered(kind protocol.EventKind) {
	if w == nil {
		return
	}
	if name, ok := commitFailures[kind]; ok {
		w.failures[name].Inc()
	}
	if kind == protocol.CommitUnknown {
		w.inDoubt.Inc()
	}
	if name, ok := resolutions[kind]; ok {
		w.resolutions[name].Inc()
	}
}

// Aborted counts a round that put its records back.
func (w *Worker) Aborted(cause string, records int) {
	if w == nil {
		return
	}
	if c := w.aborts[cause]; c != nil {
		c.Inc()
	} else {
		w.m.aborted.WithLabelValues(w.name, cause).Inc() // an event of the protocol that the list above does not expect
	}
	w.rerun.Add(float64(records))
}

// Carried times one phase of a commit.
func (w *Worker) Carried(kind protocol.EffectKind, took time.Duration) {
	if w == nil {
		return
	}
	if o := w.phases[kind]; o != nil {
		o.Observe(took.Seconds())
	}
}

// TransactionEnded counts a transaction that is over, committed or aborted, with the partitions
// that it touched: the brokers write a marker to each.
func (w *Worker) TransactionEnded(open time.Duration, partitions int) {
	if w == nil {
		return
	}
	w.m.transactionOpen.Observe(open.Seconds())
	w.markers.Add(float64(partitions))
}

// Applied counts a round that is in the store. took is the time since its seal, records its size,
// age how old its oldest record is, negative if it has none.
func (w *Worker) Applied(took time.Duration, records int64, age time.Duration) {
	if w == nil {
		return
	}
	w.rounds.Inc()
	w.m.commit.Observe(took.Seconds())
	w.m.roundRecords.Observe(float64(records))
	if age >= 0 {
		w.m.recordAge.Observe(age.Seconds())
	}
}

// Contributed counts what one task added to an applied round.
func (w *Worker) Contributed(c *task.Contribution) {
	if w == nil {
		return
	}
	s := w.series(c)
	for i := range c.Taken {
		if n := c.Taken[i].Records; n > 0 {
			s.inputs[i].Add(float64(n))
		}
	}
	s.outputs.Add(float64(c.Outputs))
	if c.Layer != nil {
		s.changelog.Add(float64(c.Layer.Len()))
	}
	for cause, n := range c.DeadLetterCauses {
		w.m.deadLetters.WithLabelValues(c.Task.ID.String(), cause.Node, cause.Class.String()).Add(float64(n))
	}
	for _, count := range c.Counts {
		key := graph.OutcomeCount{Node: count.Node, Outcome: count.Outcome}
		counter := s.outcomes[key]
		if counter == nil {
			counter = w.m.outcomes.WithLabelValues(c.Task.ID.String(), count.Node, count.Outcome)
			s.outcomes[key] = counter
		}
		counter.Add(float64(count.N))
	}
}

func (w *Worker) series(c *task.Contribution) *taskSeries {
	id := c.Task.ID
	s := w.tasks[id]
	if s != nil {
		return s
	}
	name := id.String()
	s = &taskSeries{
		outputs: w.m.outputs.WithLabelValues(name), changelog: w.m.changelog.WithLabelValues(name),
		outcomes: map[graph.OutcomeCount]prometheus.Counter{},
	}
	for _, in := range c.Task.Spec.Inputs {
		s.inputs = append(s.inputs, w.m.committed.WithLabelValues(name, in.Topic, strconv.Itoa(int(in.Partition))))
	}
	w.tasks[id] = s
	return s
}
