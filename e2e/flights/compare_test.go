//go:build unix

package flights

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// compare reads everything that the stopped pipeline has left behind, on the cluster and on disk,
// and reports what is not as expected.
func (s *scenario) compare(ctx context.Context, want *expected) {
	s.t.Helper()
	s.checkQuiet(ctx)
	o := s.readState(ctx)
	o.latest, o.stale = s.read(ctx, s.prefix+latestTopic), s.read(ctx, s.prefix+staleTopic)
	o.totals, o.twice = s.read(ctx, s.prefix+totalsTopic), s.read(ctx, s.prefix+twiceTopic)
	o.byCarrier, o.dead = s.read(ctx, s.repartitionTopic()), s.read(ctx, s.prefix+deadTopic)
	for subject, err := range o.check(want, s.origin()) {
		if err != nil {
			s.t.Errorf("%s: %v", subject, err)
		}
	}
}

// compareRestored starts the pipeline once more on an empty state directory, until all tasks are
// restored from their changelogs. The state has to be what it was, and no topic may have grown.
func (s *scenario) compareRestored(ctx context.Context, want *expected) {
	s.t.Helper()
	ends := s.endOffsets(ctx)
	if err := os.RemoveAll(s.settings.StateDir); err != nil {
		s.t.Fatal(err)
	}
	s.start()
	err := s.watch(ctx, "the restore of all tasks", func(status txn.Status) (bool, error) {
		running := func(task txn.TaskStatus) bool { return task.State == txn.TaskRunning }
		return len(status.Tasks) == 2*partitions && !slices.ContainsFunc(status.Tasks, not(running)), nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.process.Stop()
	s.checkQuiet(ctx)
	for subject, err := range s.readState(ctx).checkState(want) {
		if err != nil {
			s.t.Errorf("restored from an empty directory: %s: %v", subject, err)
		}
	}
	for topic, now := range s.endOffsets(ctx) {
		if !slices.Equal(now, ends[topic]) {
			s.t.Errorf("topic %s ended at %v, and after a restart without input at %v", topic, ends[topic], now)
		}
	}
}

func not[T any](holds func(T) bool) func(T) bool { return func(v T) bool { return !holds(v) } }

// origin is what the dead letters have to say of this pipeline.
func (s *scenario) origin() deadOrigin {
	return deadOrigin{Application: s.application, Topic: s.prefix + sourceTopic}
}

// read returns the committed records of a topic, by partition.
func (s *scenario) read(ctx context.Context, topic string) [][]*kgo.Record {
	s.t.Helper()
	records, err := s.cluster.ReadAll(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return records
}

// endOffsets returns the high watermarks of all topics that have user data.
func (s *scenario) endOffsets(ctx context.Context) map[string][]int64 {
	s.t.Helper()
	ends := map[string][]int64{}
	for _, topic := range append(s.topology.Topics(), s.topology.InternalTopics()...) {
		offsets, err := s.cluster.EndOffsets(ctx, topic)
		if err != nil {
			s.t.Fatal(err)
		}
		ends[topic] = offsets
	}
	return ends
}

// checkQuiet reports transactions that are still open, and waits until no record is behind one.
func (s *scenario) checkQuiet(ctx context.Context) {
	s.t.Helper()
	open, err := s.openTransactions(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(open) > 0 {
		s.t.Errorf("after an orderly stop these transactions are open: %v", open)
	}
	topics := append(s.topology.Topics(), s.topology.InternalTopics()...)
	if err := s.cluster.WaitStable(ctx, topics...); err != nil {
		s.t.Error(err)
	}
}

// readState returns the content of all task databases. It compares it with the changelogs, and the
// positions in it with the group's offsets.
func (s *scenario) readState(ctx context.Context) *observed {
	t := s.t
	t.Helper()
	dir, err := s.stateDirectory()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	changelogs := map[string][][]*kgo.Record{}
	var sources []string
	for _, sub := range s.topology.Subtopologies() {
		for _, store := range sub.Stores {
			changelogs[store.Name] = s.read(ctx, store.ChangelogTopic)
		}
		for _, source := range sub.Sources {
			sources = append(sources, source.Topic)
		}
	}
	commits, err := s.cluster.CommittedOffsets(ctx, s.application, sources...)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{}
	for partition := range int32(partitions) {
		stores := map[string]state.Bytes{}
		for _, sub := range s.topology.Subtopologies() {
			task := openTask(t, dir, sub, partition)
			defer task.Close() // reading is over; its error can say nothing new
			for _, in := range task.Positions().Inputs {
				// A partition without a record has no commit, and is at its start.
				if committed := max(commits[in.Topic][partition].Offset, 0); in.Offset != committed {
					t.Errorf("task %s/%d is at offset %d of its input, and %d is committed",
						sub.Name, partition, in.Offset, committed)
				}
			}
			for _, store := range sub.Stores {
				stores[store.Name] = task.Store(store.Name)
				replayed := replay(changelogs[store.Name][partition])
				if difference := differsFromReplay(t, stores[store.Name], replayed); difference != "" {
					t.Errorf("store %s, partition %d: %s", store.Name, partition, difference)
				}
			}
			if sub.Name == byCarrierNode {
				if err := ledger.Check(task.Database(), carriersNode); err != nil {
					t.Errorf("partition %d: %v", partition, err)
				}
			}
		}
		p := s.pipeline
		o.addState(t, p.Planes.Open(stores[p.Planes.Name()]), p.Sums.Open(stores[p.Sums.Name()]),
			p.Contributions.Open(stores[p.Contributions.Name()]))
	}
	return o
}

// openTask opens the state of a task of the stopped pipeline.
func openTask(t *testing.T, dir *state.Directory, sub graph.Subtopology, partition int32) *state.Task {
	t.Helper()
	path, err := dir.TaskPath(sub.Name, partition)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task, err := state.NewTask(db, sub.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// replay returns the content of a store as its changelog has it.
func replay(changelog []*kgo.Record) map[string][]byte {
	content := map[string][]byte{}
	for _, r := range changelog {
		if r.Value == nil {
			delete(content, string(r.Key))
			continue
		}
		content[string(r.Key)] = r.Value
	}
	return content
}

// differsFromReplay returns how a store differs from its replayed changelog.
func differsFromReplay(t *testing.T, store state.Bytes, replayed map[string][]byte) string {
	t.Helper()
	for e, err := range store.Scan(state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		value, ok := replayed[string(e.Key)]
		if !ok {
			return fmt.Sprintf("the key %q is not in the changelog", e.Key)
		}
		if !bytes.Equal(value, e.Value) {
			return fmt.Sprintf("the key %q has the value %x, and %x in the changelog", e.Key, e.Value, value)
		}
		delete(replayed, string(e.Key))
	}
	if len(replayed) > 0 {
		return fmt.Sprintf("%d keys of the changelog are not in the store, such as %q",
			len(replayed), slices.Min(slices.Collect(maps.Keys(replayed))))
	}
	return ""
}
