package topologytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Driver runs a topology in memory. The package documentation says how.
type Driver struct {
	topology *topology.Topology
	settings settings
	// now is the clock. elapsed is how far Advance and retries have moved it; records do not count.
	now     time.Time
	elapsed time.Duration
	topics  map[string]*topic
	// tasks are sorted by subtopology and partition. Tasks in ready may have unread records. Tasks
	// in delayed read delayed retry topics; they may have more records whenever the clock moves.
	tasks   []*task
	ready   ready
	delayed []*task
	counts  map[outcome]int64
	// globals are the global tables, by their topics.
	globals map[string]*globalTable
	// round is the uncommitted work.
	round round
}

type outcome struct{ node, name string }

// Option is an option of [New] and [Start].
type Option func(s *settings)

type settings struct {
	partitions      int32
	topicPartitions map[string]int32
	maxMessageBytes map[string]int32
	compacted       map[string]bool
	start           time.Time
	ownClock        bool
	byHand          bool
	mode            topology.Mode
}

// Partitions sets the number of partitions of all topics except internal ones. The default is 1.
func Partitions(n int32) Option { return func(s *settings) { s.partitions = n } }

// TopicPartitions sets the number of partitions of one topic, not of an internal one. A topic that
// a source by pattern matches exists from the beginning because of it; see [Driver.CreateTopic] for
// a later one.
func TopicPartitions(topic string, n int32) Option {
	return func(s *settings) { s.topicPartitions[topic] = n }
}

// MaxMessageBytes sets the limit of one topic, by its name on the cluster. The default is
// unlimited.
func MaxMessageBytes(topic string, n int32) Option {
	return func(s *settings) { s.maxMessageBytes[topic] = n }
}

// Compacted makes a topic, named as on the cluster, a compacted one, which refuses null keys.
func Compacted(topic string) Option { return func(s *settings) { s.compacted[topic] = true } }

// Clock sets the clock, which then moves with retries and [Driver.Advance] only. Without this
// option it starts on 2000-01-01, 00:00 UTC, and a record with a later timestamp advances it to
// that timestamp. Wall-clock schedules ignore advances by records.
func Clock(t time.Time) Option { return func(s *settings) { s.start, s.ownClock = t, true } }

// Mode runs the topology in a mode other than topology.Live.
func Mode(m topology.Mode) Option { return func(s *settings) { s.mode = m } }

// New returns a driver with empty topics and stores.
func New(t *topology.Topology, opts ...Option) (*Driver, error) {
	s := settings{
		partitions:      1,
		topicPartitions: map[string]int32{},
		maxMessageBytes: map[string]int32{},
		compacted:       map[string]bool{},
		start:           time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, opt := range opts {
		opt(&s)
	}
	d := &Driver{
		topology: t, settings: s, now: s.start,
		topics: map[string]*topic{}, counts: map[outcome]int64{}, globals: map[string]*globalTable{},
	}
	if err := d.match(); err != nil {
		return nil, err
	}
	t = d.topology
	external := map[string]int32{}
	for _, name := range t.Topics() {
		n := s.partitionsOf(name)
		if n < 1 {
			return nil, fmt.Errorf("topologytest: topic %s cannot have %d partitions", name, n)
		}
		external[name] = n
		d.topics[name] = newTopic(name, n)
	}
	internal, err := t.ResolvePartitions(external)
	if err != nil {
		return nil, fmt.Errorf("topologytest: %w", err)
	}
	for name, n := range internal {
		d.topics[name] = newTopic(name, n)
	}
	for _, g := range t.GlobalTables() {
		d.globals[g.RestoredFrom] = newGlobalTable(g)
	}
	for _, sub := range t.Subtopologies() {
		if err := d.addTasks(sub); err != nil {
			return nil, fmt.Errorf("topologytest: %w", err)
		}
	}
	d.ready = newReady(len(d.tasks))
	return d, nil
}

// partitionsOf is the number of partitions of a topic that is not internal.
func (s *settings) partitionsOf(topic string) int32 {
	if n, ok := s.topicPartitions[topic]; ok {
		return n
	}
	return s.partitions
}

// Topics returns the names of all topics on the cluster, sorted, internal ones and that of the dead
// letters included.
func (d *Driver) Topics() []string { return slices.Sorted(maps.Keys(d.topics)) }

func (d *Driver) addTasks(sub graph.Subtopology) error {
	// All sources have the same number of partitions: ResolvePartitions has checked it.
	for p := range d.topics[sub.Sources[0].Topic].partitions {
		st, err := state.NewTask(memstore.New(), sub.Declarations())
		if err != nil {
			return err
		}
		tk := &task{
			driver: d, index: len(d.tasks), id: graph.TaskID{Subtopology: sub.Name, Partition: int32(p)},
			state: st, stores: sub.Stores, streamTime: state.NoTime, kept: kept{streamTime: state.NoTime},
		}
		for _, source := range sub.Sources {
			in := &d.topics[source.Topic].partitions[p]
			in.reader, in.delay, in.keeps = tk, source.Delay, d.settings.byHand
			tk.inputs = append(tk.inputs, in)
			tk.delayed = tk.delayed || in.delay > 0
		}
		if err := tk.open(); err != nil {
			return err
		}
		d.tasks = append(d.tasks, tk)
		if tk.delayed {
			d.delayed = append(d.delayed, tk)
		}
	}
	return nil
}

// Restart makes new graphs of all tasks, as a restart of the program does. Stores, topics,
// positions and stream time stay; handlers lose everything that they keep elsewhere. Stores with
// topology.Store.LostOnRestart are empty then. A stopped task runs again. Wall-clock schedules
// start again. Restart first commits all work, as a program does when it is told to stop. See
// [Driver.Crash] for a stop without a commit.
func (d *Driver) Restart() error {
	if err := d.commit(); err != nil {
		return err
	}
	if err := d.reopen(); err != nil {
		return err
	}
	return d.run()
}

// reopen makes new graphs, over stores of which those that are lost on restart are empty.
func (d *Driver) reopen() error {
	for _, tk := range d.tasks {
		err := tk.loseRows()
		if err == nil {
			err = tk.open()
		}
		if err != nil {
			return fmt.Errorf("topologytest: %w", err)
		}
		d.ready.add(tk.index)
	}
	return nil
}

// Now returns the driver's clock.
func (d *Driver) Now() time.Time { return d.now }

// Advance moves the clock on. It runs every wall-clock punctuation at the time when it is due, with
// all records that follow from it, as a runtime does that never stalls. It also runs parked and
// delayed records, and the work that retries have made due. The error is that of [Pipe].
func (d *Driver) Advance(by time.Duration) error {
	end := d.elapsed + by
	for {
		tk, at := d.nextDue()
		if tk == nil || at > end {
			break
		}
		d.pass(max(at-d.elapsed, 0))
		tk.punctuate()
		tk.release()
		if err := d.work(); err != nil {
			return err
		}
	}
	if by < 0 || d.elapsed < end { // retries on the way may have taken longer than by
		d.pass(end - d.elapsed)
	}
	return d.run()
}

// pass moves the clock.
func (d *Driver) pass(by time.Duration) {
	d.now = d.now.Add(by)
	d.elapsed += by
	d.wake()
}

// wake marks the tasks as ready whose delayed records may be due.
func (d *Driver) wake() {
	for _, tk := range d.delayed {
		d.ready.add(tk.index)
	}
}

// nextDue returns the running task whose next punctuation is due first, and when, in the measure of
// elapsed.
func (d *Driver) nextDue() (first *task, at time.Duration) {
	for _, tk := range d.tasks {
		if next, ok := tk.nextDue(); ok && tk.stopped == nil && (first == nil || next < at) {
			first, at = tk, next
		}
		if next, ok := tk.nextAgain(); ok && tk.stopped == nil && (first == nil || next < at) {
			first, at = tk, next
		}
	}
	return first, at
}

// Count returns how often a node has counted an outcome, for records that did not fail and, with
// [CommitByHand], are committed.
func (d *Driver) Count(node, outcomeName string) int64 { return d.counts[outcome{node, outcomeName}] }

// Counts returns all counts that are not zero, sorted by node and outcome.
func (d *Driver) Counts() []graph.OutcomeCount {
	var counts []graph.OutcomeCount
	for o, n := range d.counts {
		if n != 0 {
			counts = append(counts, graph.OutcomeCount{Node: o.node, Outcome: o.name, N: n})
		}
	}
	slices.SortFunc(counts, func(a, b graph.OutcomeCount) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return strings.Compare(a.Outcome, b.Outcome)
	})
	return counts
}

// Store returns a store of the task of that partition in its present state. A test may write to it
// as preparation. [Driver.Crash] and [Driver.Abort] undo uncommitted writes.
//
// Partition 0 of a global table has all its rows. Neither Crash nor Abort undoes them, because no
// commit contains them.
func Store[S any](d *Driver, store topology.Store[S], partition int32) (opened S, err error) {
	if rows := d.globalTable(store.Name()); rows != nil {
		if partition != 0 {
			return opened, fmt.Errorf("topologytest: the global table %s has partition 0 only", store.Name())
		}
		return store.Open(rows), nil
	}
	for _, sub := range d.topology.Subtopologies() {
		for _, s := range sub.Stores {
			if s.Name != store.Name() {
				continue
			}
			for _, tk := range d.tasks {
				if tk.id == (graph.TaskID{Subtopology: sub.Name, Partition: partition}) {
					return store.Open(tk.state.Store(s.Name)), nil
				}
			}
			return opened, fmt.Errorf("topologytest: store %s has no partition %d", s.Name, partition)
		}
	}
	return opened, fmt.Errorf("topologytest: the topology has no store %s", store.Name())
}

// stepsMax ends a topology that feeds itself for ever through a topic. It is far above the needs of
// a test.
const stepsMax = 10_000_000

// run lets all tasks work until nothing is left to do. A stopped task keeps its position; the
// others go on.
func (d *Driver) run() error {
	if err := d.work(); err != nil {
		return err
	}
	var errs []error
	for _, tk := range d.tasks {
		if tk.stopped != nil && tk.pending() {
			errs = append(errs, fmt.Errorf("topologytest: task %s is stopped: %w", tk.id, tk.stopped))
		}
	}
	return errors.Join(errs...)
}

// work does the work of run. It runs each task, in order, until the task has no unread records. It
// repeats that while any task has some.
func (d *Driver) work() error {
	d.wake()
	steps := 0
	for first := d.ready.from(0); first >= 0; first = d.ready.from(0) {
		for i := first; i >= 0; i = d.ready.from(i + 1) {
			tk := d.tasks[i]
			for tk.step() {
				if steps++; steps > stepsMax {
					return fmt.Errorf("topologytest: task %s: one record has led to %d records, and there is no end",
						tk.id, stepsMax)
				}
			}
			d.ready.remove(i)
		}
	}
	return nil
}

// deliver follows a verdict. With CommitByHand it keeps outputs and counts for the commit.
func (d *Driver) deliver(v *graph.Verdict) {
	for i := range v.Outputs {
		v.Outputs[i] = v.Outputs[i].Clone() // the graph uses the bytes again
	}
	if d.settings.byHand {
		d.round.outputs = append(d.round.outputs, v.Outputs...)
		d.round.counts = append(d.round.counts, v.Counts...)
		return
	}
	d.publish(v.Outputs, v.Counts)
}

// publish appends outputs to their topics, and adds counts up.
func (d *Driver) publish(outputs []graph.Output, counts []graph.OutcomeCount) {
	for i := range outputs {
		d.topics[outputs[i].Topic].append(outputs[i])
		if global := d.globals[outputs[i].Topic]; global != nil {
			global.take(d, &outputs[i])
		}
	}
	for _, c := range counts {
		d.counts[outcome{c.Node, c.Outcome}] += c.N
	}
}
