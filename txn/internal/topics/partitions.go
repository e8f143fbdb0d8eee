package topics

import (
	"maps"
	"math"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Inputs can gain partitions at any time. What was created for fewer partitions stays as it is
// (protocol rule 11.2):
//
//   - A subtopology with state has as many tasks as its changelogs have partitions. Further
//     partitions of its inputs are not read, because their keys would be in another task than their
//     state.
//   - A repartition topic keeps its number. It does not depend on the number of partitions of what
//     writes to it.
//
// A subtopology without state reads what its inputs gain.

// resolve returns the number of partitions of each source topic, as far as tasks read them.
// external has what the cluster says of those that are not internal.
func resolve(t *topology.Topology, external map[string]int32, found map[string]broker.TopicInfo) (map[string]int32, error) {
	counts, tasks := maps.Clone(external), map[string]int32{}
	for _, sub := range t.Subtopologies() {
		n := tasksOf(sub, found)
		for _, src := range sub.Sources {
			tasks[src.Topic] = n
			if count, ok := counts[src.Topic]; ok && n > 0 && n < count {
				counts[src.Topic] = n
			}
		}
	}
	asked, err := t.ResolvePartitions(counts)
	if err != nil {
		return nil, err
	}
	known := maps.Clone(counts)
	for topic, n := range asked {
		switch now, there := found[topic]; {
		case tasks[topic] > 0 && tasks[topic] < n:
			known[topic] = tasks[topic]
		case there && now.Partitions < n:
			known[topic] = now.Partitions
		}
	}
	kept, err := t.ResolvePartitions(known)
	if err != nil {
		kept = asked // one is read together with a topic that has more partitions: the verification says so
	}
	maps.Copy(counts, kept)
	return counts, nil
}

// tasksOf returns how many tasks the changelogs of a subtopology are made for, 0 if it has none
// yet. A store that is restored from its source has no changelog of its own.
func tasksOf(sub graph.Subtopology, found map[string]broker.TopicInfo) int32 {
	tasks := int32(0)
	for _, store := range sub.Restored() {
		if store.FromSource != nil {
			continue
		}
		if n := found[store.ChangelogTopic].Partitions; n > 0 && (tasks == 0 || n < tasks) {
			tasks = n
		}
	}
	return tasks
}

// Tasks returns how many tasks a subtopology has. 0 says that it is not known.
func (l Layout) Tasks(sub graph.Subtopology) int32 {
	tasks := int32(math.MaxInt32)
	for _, store := range sub.Restored() {
		tasks = min(tasks, l[store.Topic()].Partitions)
	}
	for _, src := range sub.Sources {
		tasks = min(tasks, l[src.Topic].Partitions)
	}
	if len(sub.Sources) == 0 {
		return 0
	}
	return tasks
}

// Unassigned returns for each input topic how many of its partitions no task reads: those that it
// has more than the changelogs of its subtopology, or than another input of the same subtopology.
// Each is read in the same task as the same partition of the other inputs.
func (l Layout) Unassigned(t *topology.Topology) map[string]int32 {
	out := map[string]int32{}
	for _, sub := range t.Subtopologies() {
		tasks := l.Tasks(sub)
		for _, src := range sub.Sources {
			if n := l[src.Topic].Partitions; n > tasks {
				out[src.Topic] = n - tasks
			}
		}
	}
	return out
}
