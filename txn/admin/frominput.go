package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// RebuildFromInput empties the state of tasks and lets their inputs be read again, from the start
// of their logs or from the given offsets. The tasks write their outputs again too: consumers see
// them a second time. Records that the inputs do not hold any more are missing in the new state.
//
// An input that has grown since its changelogs were made has partitions that no task reads. Their
// records are not in the new state: Report.NotRead names them.
//
// A store is emptied by tombstones in its changelog, so that the databases of all instances follow
// by themselves, wherever they are. Until that is done, the committed offsets carry no metadata and
// no instance opens the task; an action that was interrupted is done again.
//
// A table that is restored from its topic (topology.RestoreFromTopic) has no changelog, and that
// topic is not touched. Databases see by the commit that they are from before. The topic is read
// from offset 0, and any other offset is refused.
//
// A store that the topology has gained since the application ran gets its changelog, so that it is
// filled before the topology starts, which would otherwise start with an empty one. The same holds
// for new repartition topics. They are created as a start would, with as many replicas as the
// rounds topic has, and the min.insync.replicas that this sets. The configuration of the
// application (txn.Config.InternalReplicas) is unknown here. The replicas that its starts have
// created, or have accepted, are enough for the next topic.
//
// It is refused for a task with a store that keeps histories (topology.VersionedStore), unless its
// changelog is empty: a record without a value ends a version there, and empties nothing. The
// refusal says what to do.
//
// It is refused for a task that reads a repartition topic from which records have been deleted, as
// their only copy is gone, unless every task that writes to the topic is rebuilt with it. It is
// refused for tasks that write to a repartition topic unless all of them, and all that read it, are
// rebuilt together: they write everything again. Readers then begin behind the present content of
// the topic.
//
// Records that wait in delayed retry topics (topology.RetryTopics) come again with the inputs that
// they are from. Those that do not, because their input is read from behind them or does not hold
// them any more, are dropped: InputReport.Dropped counts them. It is the same with parked records
// (topology.ParkKeys), which are not counted.
func (a *Application) RebuildFromInput(ctx context.Context, o Options, offsets Offsets) (Report, error) {
	o.creates = true
	return a.act(ctx, "rebuild from-input", o, func(op *operation) planner {
		return func(ctx context.Context, s inspection) (change, error) { return op.fromInput(ctx, s, offsets) }
	})
}

func (op *operation) fromInput(ctx context.Context, s inspection, offsets Offsets) (change, error) {
	if err := op.knowsTopics(offsets); err != nil {
		return change{}, err
	}
	if err := op.lostRecords(s); err != nil {
		return change{}, err
	}
	c := change{reason: s.reason(), next: &state.Positions{}}
	if s.Named() {
		c.reason = "the operator wants it"
	}
	again, err := op.writtenAgain(s.sub)
	if err != nil {
		return change{}, err
	}
	for i, in := range s.Inputs {
		at, err := op.replayFrom(s, i, again[in.Topic], offsets)
		if err != nil {
			return change{}, err
		}
		c.next.Inputs = append(c.next.Inputs, state.Input{Topic: in.Topic, Partition: in.Partition, Offset: at, StreamTime: state.NoTime})
	}
	if c.dropped, err = op.droppedDelayed(ctx, s, c.next.Inputs); err != nil {
		return change{}, err
	}
	for _, cl := range s.Changelogs {
		if cl.FromSource != nil {
			begin, err := s.readAgain(cl, c.next.Inputs)
			if err != nil {
				return change{}, err
			}
			// Only what names it: others write the topic, and two looks at it are to be equal.
			c.erase = append(c.erase, restore.Changelog{Store: cl.Store, Topic: cl.Topic, TopicID: cl.TopicID, FromSource: cl.FromSource})
			c.tombstones = append(c.tombstones, 0)
			c.next.Changelogs = append(c.next.Changelogs, begin)
			continue
		}
		n, err := op.eachRow(ctx, s.target, cl, func(*kgo.Record) {})
		if err != nil {
			return change{}, err
		}
		if n > 0 && s.layout(cl.Store).Kind == state.VersionedKind {
			return change{}, refuse("the store %s keeps histories, of which a tombstone ends the last version and takes nothing away: delete the "+
				"topic %s, start the application once, which creates it, and rebuild all tasks of %s", cl.Store, cl.Topic, s.sub.Name)
		}
		c.erase, c.tombstones = append(c.erase, cl), append(c.tombstones, n)
		c.next.Changelogs = append(c.next.Changelogs, positionIn(cl, cl.HighWatermark+n, 0))
	}
	c.next.Round = declared(c.next.Changelogs)
	c.next.State = c.next.Round
	return c, nil
}

// readAgain returns the first position of a store that is restored from its source. The store has
// no changelog to empty: the digest tells older databases that they are outdated.
func (s inspection) readAgain(cl restore.Changelog, inputs []state.Input) (state.Changelog, error) {
	at, _ := state.Positions{Inputs: inputs}.Input(cl.Topic, s.id.Partition)
	if at.Offset > 0 {
		return state.Changelog{}, refuse("store %s is restored from the topic %s (RestoreFromTopic), which has to be read from offset 0, and not "+
			"from %d", cl.Store, cl.Topic, at.Offset)
	}
	last, _ := s.Commit.Changelog(cl.Store)
	return state.Changelog{Store: cl.Store, TopicID: cl.TopicID, StreamTime: task.NextDigest(last.StreamTime)}, nil
}

// lostRecords refuses a task of which databases can hold what its changelog does not: tombstones
// could not empty those. A store that is restored from its source needs none: its databases are
// told by their digests, and the topic is not ours to delete.
func (op *operation) lostRecords(s inspection) error {
	var now []state.Changelog
	for _, c := range s.Changelogs {
		now = append(now, positionIn(c, 0, 0))
	}
	if s.Commit == nil || len(now) != len(s.Commit.Changelogs) || task.TopicsHash(now) != s.Commit.Topics {
		return nil // databases that were written from another topic are emptied by themselves
	}
	for _, c := range s.Changelogs {
		if target, _ := s.Commit.Target(c.Store); target > c.HighWatermark && c.FromSource == nil {
			return refuse("the changelog %s[%d] ends at %d and the last commit names %d: databases may have rows that the log does not have. Delete "+
				"the topic, start the application once, which creates it, and rebuild all tasks of %s", c.Topic, s.id.Partition,
				c.HighWatermark, target, s.sub.Name)
		}
	}
	return nil
}

// replayFrom returns where the i-th input of a task is read again from.
func (op *operation) replayFrom(s inspection, i int, writtenAgain bool, offsets Offsets) (int64, error) {
	in, b := s.Inputs[i], s.bounds[i]
	src := s.sub.Sources[slices.IndexFunc(s.sub.Sources, func(src graph.Source) bool { return src.Topic == in.Topic })]
	at, named := offsets[in.Topic]
	switch {
	case src.Delay > 0 && named:
		return 0, refuse("%s is a delayed retry topic: its waiting records come again with their input; leave its offset out", in.Topic)
	case src.Delay > 0:
		return b.end, nil
	case writtenAgain && named:
		return 0, refuse("%s is written again by the tasks that are rebuilt with it, so it is read from where it ends now; leave its "+
			"offset out", in.Topic)
	case writtenAgain:
		return b.end, nil
	case src.Repartition && b.start > 0 && (!named || at < b.start):
		return 0, refuse("%s[%d] is a repartition topic, and its records below offset %d are deleted: rebuild all tasks of %s too, which "+
			"write it again", in.Topic, in.Partition, b.start, strings.Join(op.writers(in.Topic), " and "))
	case !named:
		at = Start
	}
	at = s.resolve(i, at)
	return at, s.inLog(i, at)
}

// writtenAgain returns the repartition topics among the sources of a subtopology that are written
// again. It refuses if a repartition topic would be written again for readers that are not rebuilt,
// or by some of its writers only.
func (op *operation) writtenAgain(sub graph.Subtopology) (map[string]bool, error) {
	again := map[string]bool{}
	for _, other := range op.topology.Subtopologies() {
		for _, src := range other.Sources {
			if !src.Repartition || src.Delay > 0 { // a task has the partition of a delayed retry topic for itself
				continue
			}
			writers := op.writers(src.Topic)
			reads, writes := other.Name == sub.Name, slices.Contains(writers, sub.Name)
			if !reads && !writes || !slices.ContainsFunc(writers, op.selectsSome) {
				continue
			}
			for _, needed := range append(writers, other.Name) {
				if !op.selectsAll(needed) {
					return nil, refuse("the repartition topic %s would be written again: rebuild all tasks of %s together",
						src.Topic, strings.Join(append(writers, other.Name), " and "))
				}
			}
			if reads {
				again[src.Topic] = true
			}
		}
	}
	return again, nil
}

// writers returns the names of the subtopologies that write to a topic.
func (op *operation) writers(topic string) (names []string) {
	for _, sub := range op.topology.Subtopologies() {
		if slices.Contains(sub.Sinks, topic) {
			names = append(names, sub.Name)
		}
	}
	return names
}

func (op *operation) selectsSome(subtopology string) bool {
	return slices.ContainsFunc(op.tasks, func(t target) bool { return t.id.Subtopology == subtopology })
}

func (op *operation) selectsAll(subtopology string) bool {
	selected := 0
	for _, t := range op.tasks {
		if t.id.Subtopology == subtopology {
			selected++
		}
	}
	all, err := selectTasks(op.topology, op.layout, nil)
	if err != nil {
		return false
	}
	for _, t := range all {
		if t.id.Subtopology == subtopology {
			selected--
		}
	}
	return selected == 0
}

// erase empties the changelogs of the changes that want it.
func (op *operation) erase(ctx context.Context, changes []change) error {
	if !slices.ContainsFunc(changes, func(c change) bool { return len(c.erase) > 0 }) {
		return nil
	}
	// From here until the last commit no instance opens these tasks: the commit that named the old
	// state is gone, and compaction may remove what it needs.
	marks := kadm.Offsets{}
	for _, c := range changes {
		if len(c.erase) == 0 {
			continue
		}
		for _, in := range c.next.Inputs {
			marks.Add(kadm.Offset{Topic: in.Topic, Partition: in.Partition, At: in.Offset, LeaderEpoch: -1, Metadata: restore.Rebuilding})
		}
	}
	if err := op.commitOffsets(ctx, marks); err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(op.client.cfg.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return fmt.Errorf("emptying changelogs: %w", err)
	}
	defer cl.Close()
	for _, c := range changes {
		for i, changelog := range c.erase {
			if err := op.eraseOne(ctx, cl, c, i, changelog); err != nil {
				return fmt.Errorf("emptying %s[%d]: %w; the task does not open until the rebuild is done again", changelog.Topic,
					c.id.Partition, err)
			}
		}
	}
	return nil
}

func (op *operation) eraseOne(ctx context.Context, cl *kgo.Client, c change, i int, changelog restore.Changelog) error {
	if changelog.FromSource != nil {
		return nil // the topic of others
	}
	var mu sync.Mutex
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n, err := op.eachRow(ctx, c.target, changelog, func(r *kgo.Record) {
		// The time of the record that it deletes: a tombstone moves no stream time.
		tombstone := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Timestamp: r.Timestamp}
		cl.Produce(ctx, tombstone, func(_ *kgo.Record, err error) {
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
				cancel()
			}
		})
	})
	if err == nil {
		err = cl.Flush(ctx)
	}
	mu.Lock()
	defer mu.Unlock()
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	_, end, err := op.cluster.LogBounds(ctx, changelog.Topic, c.id.Partition)
	if err != nil {
		return err
	}
	if want := c.next.Changelogs[i].Applied; end != want || n != c.tombstones[i] {
		return fmt.Errorf("it ends at %d after %d tombstones, and not at %d: another process writes to it", end, n, want)
	}
	return nil
}
