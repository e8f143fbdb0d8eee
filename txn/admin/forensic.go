package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/topics"
)

// ForensicOptions say what a forensic run looks at.
type ForensicOptions struct {
	// From is where inputs are read from, by topic; default is the start of their logs.
	From Offsets
	// Scratch is the directory for temporary state, which is removed again; default is that of the
	// system.
	Scratch string
	// State is that of a stopped instance of the application. Its state is compared with what the
	// inputs make, as far as it has read them; nil compares nothing. A difference need not mean
	// that the state is wrong if the state depends on more than its inputs hold.
	// [ForensicStore.NotComparable] names these reasons: schedules of the wall clock, records that
	// are parked or delayed, repartition topics, and inputs that are compacted or have lost their
	// first records. Two reasons are unknown: what user functions depend on by themselves, and what
	// operators have done to the offsets.
	State *State
	// Output is called for each record that would have been produced, those of internal topics left
	// out; nil is nothing. Its error ends the run.
	Output func(graph.Output) error
}

// ForensicReport is what a topology would have done. Its JSON form is for programs, and its fields
// stay.
type ForensicReport struct {
	Application string `json:"application"`
	Version     string `json:"version"`
	// Inputs are those that were read, sorted by topic and partition.
	Inputs []ForensicInput `json:"inputs"`
	// Outcomes are what nodes have counted, sorted by node and outcome.
	Outcomes []ForensicOutcome `json:"outcomes"`
	// Outputs counts the records that would have been produced, dead letters included, by topic.
	Outputs map[string]int64 `json:"outputs"`
	// Stopped are the tasks that would have stopped, with the reason; nothing behind that was
	// looked at.
	Stopped []ForensicStop `json:"stopped"`
	// Stores are those that were compared, by task and in the order of their declarations; nil if
	// no state was given.
	Stores []ForensicStore `json:"stores,omitempty"`
}

// ForensicInput is a range of offsets, the second one excluded.
type ForensicInput struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// ForensicOutcome is how often a node has counted an outcome.
type ForensicOutcome struct {
	Node    string `json:"node"`
	Outcome string `json:"outcome"`
	N       int64  `json:"n"`
}

// ForensicStop is where a task would have stopped, and why. Offset is -1 for a record that was
// parked.
type ForensicStop struct {
	Task      string `json:"task"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
}

// Forensic runs a topology over the present content of its inputs, in mode topology.Forensic, and
// reports what it would have done. It changes nothing: there is no group and no producer, and the
// state, empty at the beginning, is temporary. So it can run beside the application, and as a
// principal that may only read.
//
// Schedules of the wall clock do not fire, and records are not refused for their size. Nothing
// waits: a retry comes at once, and a delayed record as soon as it is its turn. A parked record
// comes when all inputs are read, again and again until it has failed a hundred times. Package
// processors/effect suppresses effects outside of the topology in this mode. User functions run as
// they are.
//
// A topology with global tables is refused: no commit names the rows that a record has met.
func (c *Client) Forensic(ctx context.Context, t *topology.Topology, o ForensicOptions) (_ ForensicReport, err error) {
	if tables := t.GlobalTables(); len(tables) > 0 {
		return ForensicReport{}, fmt.Errorf("forensic run: the rows of global table %s that a record has met are not known, "+
			"so a topology with global tables cannot be run again", tables[0].Name)
	}
	dir, err := os.MkdirTemp(o.Scratch, "onceward-forensic-")
	if err != nil {
		return ForensicReport{}, fmt.Errorf("forensic run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := broker.Connect(ctx, c.cfg, t.Application())
	if err != nil {
		return ForensicReport{}, fmt.Errorf("forensic run: %w", err)
	}
	defer cluster.Close()
	f := &forensic{
		client: c, cluster: cluster, topology: t, options: o, dir: dir, partitions: map[string]int32{},
		queues: map[partitionOf]*forensicQueue{}, outcomes: map[graph.OutcomeCount]int64{},
		report: ForensicReport{
			Application: t.Application(), Version: t.Fingerprint(), Outputs: map[string]int64{}, Inputs: []ForensicInput{},
			Outcomes: []ForensicOutcome{}, Stopped: []ForensicStop{},
		},
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, step := range []func(context.Context) error{f.remember, f.open, f.run, f.compare} {
		if err := step(ctx); err != nil {
			return ForensicReport{}, fmt.Errorf("forensic run: %w", err)
		}
	}
	return f.result(), nil
}

// forensic is one run. It belongs to one goroutine.
type forensic struct {
	client     *Client
	cluster    *broker.Cluster
	topology   *topology.Topology
	options    ForensicOptions
	dir        string
	partitions map[string]int32
	tasks      []*forensicTask
	// queues are all inputs of all tasks.
	queues   map[partitionOf]*forensicQueue
	outcomes map[graph.OutcomeCount]int64
	report   ForensicReport
	// kept is how far the state that is compared has come, by the tasks that it has.
	kept map[graph.TaskID]state.Positions
	// ahead is how far the clock of the graphs was set ahead, so that parked records need not be
	// waited for.
	ahead time.Duration
}

type partitionOf struct {
	topic     string
	partition int32
}

// open finds out what to read, and makes the tasks.
func (f *forensic) open(ctx context.Context) error {
	bound, _, err := topics.Bind(ctx, f.cluster, f.topology)
	if err != nil {
		return err
	}
	f.topology = bound
	details, err := f.client.adm.ListTopics(ctx, f.topology.Topics()...)
	if err != nil {
		return err
	}
	details.EachError(func(d kadm.TopicDetail) { err = cmp.Or(err, fmt.Errorf("looking at %s: %w", d.Topic, d.Err)) })
	if err != nil {
		return err
	}
	for name, d := range details {
		f.partitions[name] = int32(len(d.Partitions))
	}
	if err := f.resolve(ctx); err != nil {
		return err
	}
	for _, sub := range f.topology.Subtopologies() {
		for p := range f.partitions[sub.Sources[0].Topic] {
			task, err := f.openTask(ctx, sub, p, details)
			if err != nil {
				return err
			}
			f.tasks = append(f.tasks, task)
		}
	}
	for topic := range f.options.From {
		if _, read := f.queues[partitionOf{topic, 0}]; !read {
			return fmt.Errorf("%s is no input of %s", topic, f.topology.Name())
		}
	}
	return nil
}

// resolve adds the number of partitions of the repartition topics: of one that exists what it has,
// because the keys are divided by that.
func (f *forensic) resolve(ctx context.Context) error {
	found, _, err := f.cluster.Topics(ctx, f.topology.InternalTopics())
	if err != nil {
		return err
	}
	known := maps.Clone(f.partitions)
	for _, sub := range f.topology.Subtopologies() {
		for _, src := range sub.Sources {
			if info, there := found[src.Topic]; src.Repartition && there {
				known[src.Topic] = info.Partitions
			}
		}
	}
	internal, err := f.topology.ResolvePartitions(known)
	if err == nil {
		maps.Copy(f.partitions, internal)
	}
	return err
}

func (f *forensic) openTask(
	ctx context.Context, sub graph.Subtopology, partition int32, details kadm.TopicDetails,
) (*forensicTask, error) {
	id := graph.TaskID{Subtopology: sub.Name, Partition: partition}
	t := &forensicTask{id: id, sub: sub, stores: sub.Declarations(), streamTime: state.NoTime}
	db, err := pebblestore.Open(filepath.Join(f.dir, id.String()), pebblestore.Options{})
	if err != nil {
		return nil, err
	}
	if t.state, err = state.NewTask(db, t.stores); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	t.graph, err = f.topology.NewGraph(id, t.state, topology.GraphConfig{
		Partitions: func(topic string) int32 { return f.partitions[topic] },
		Now:        func() time.Time { return time.Now().Add(f.ahead) }, Mode: topology.Forensic,
	})
	if err != nil {
		return nil, errors.Join(err, t.state.Close())
	}
	for _, src := range sub.Sources {
		q := &forensicQueue{topic: src.Topic, partition: partition}
		if !src.Repartition {
			if err := f.bound(ctx, id, q, details[src.Topic]); err != nil {
				return nil, errors.Join(err, t.state.Close())
			}
		}
		f.queues[partitionOf{src.Topic, partition}] = q
		t.inputs = append(t.inputs, q)
	}
	return t, nil
}

// bound finds out where a queue begins and ends.
func (f *forensic) bound(ctx context.Context, id graph.TaskID, q *forensicQueue, d kadm.TopicDetail) error {
	start, _, err := f.cluster.LogBounds(ctx, q.topic, q.partition)
	if err != nil {
		return err
	}
	if q.end, err = f.cluster.StableEnd(ctx, q.topic, q.partition); err != nil {
		return err
	}
	from, named := f.options.From[q.topic]
	switch {
	case !named || from == Start:
		from = start
	case from == End:
		from = q.end
	case from < start || from > q.end:
		return fmt.Errorf("%s[%d] holds the offsets from %d to %d, and not %d",
			q.topic, q.partition, start, q.end, from)
	}
	q.from, q.next = from, from
	q.end = max(from, f.endOf(id, q))
	q.reader = f.cluster.NewReader(q.topic, d.ID, q.partition, true, fetchBytes)
	f.report.Inputs = append(f.report.Inputs, ForensicInput{Topic: q.topic, Partition: q.partition, From: from, To: q.end})
	return nil
}

// run lets all tasks work in turn until nothing is left. A record that one task writes to a
// repartition topic goes to the queue of another task.
func (f *forensic) run(ctx context.Context) error {
	for busy := true; busy; {
		busy = false
		for _, t := range f.tasks {
			worked, err := f.work(ctx, t)
			if err != nil {
				return err
			}
			busy = busy || worked
		}
		if !busy {
			released, err := f.release()
			if err != nil {
				return err
			}
			busy = released
		}
	}
	return nil
}

func (f *forensic) result() ForensicReport {
	for c, n := range f.outcomes {
		f.report.Outcomes = append(f.report.Outcomes, ForensicOutcome{Node: c.Node, Outcome: c.Outcome, N: n})
	}
	slices.SortFunc(f.report.Outcomes, func(a, b ForensicOutcome) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Outcome, b.Outcome))
	})
	slices.SortFunc(f.report.Inputs, func(a, b ForensicInput) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return f.report
}

func (f *forensic) close() error {
	var errs []error
	for _, t := range f.tasks {
		errs = append(errs, t.state.Close())
	}
	return errors.Join(errs...)
}
