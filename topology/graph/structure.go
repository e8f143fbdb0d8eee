package graph

import (
	"cmp"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
)

// Subtopology is a part of a topology that shares no record and no store with the others except
// through topics. A task is one partition of a subtopology.
type Subtopology struct {
	// Name is the topic of a source by pattern. Otherwise it is the alphabetically first name of
	// its source topics and repartitionings, as the user gave them. Changes of other subtopologies
	// do not change it. A new source with an earlier name changes it, and with it the names of the
	// tasks, but not those of changelogs.
	Name string
	// Sources are sorted by topic. All of them have the same number of partitions.
	Sources []Source
	// Stores are sorted by name.
	Stores []StoreInfo
	// Sinks are the topics that it writes, sorted: also repartition topics, but not the dead-letter
	// topic.
	Sinks []string
}

// Source is a topic that a subtopology reads.
type Source struct {
	// Topic is the name on the cluster.
	Topic string
	// Pattern is the expression of a source by pattern that has matched the topic, empty for
	// others.
	Pattern string
	// Repartition says that the topic is internal, and written by this topology.
	Repartition bool
	// Delay is how long a record waits after its timestamp before it is processed. It is above 0
	// for a delayed retry topic, which is a repartition topic that the subtopology itself writes.
	Delay time.Duration
	// Start says where a new application starts. It is Earliest for a repartition topic.
	Start Start
	// ParkStore is the store of the parked records of the source, and ParkChangelog its changelog
	// on the cluster. The subtopology has that store only with topology.ParkKeys. Without the
	// option it is named too, so that records are found that an earlier topology parked. Both are
	// empty for a delayed retry topic, and if Kafka does not allow the name of the changelog
	// because of its length.
	ParkStore, ParkChangelog string
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
	// Partitioner is the name of the partitioner, empty for Kafka's default one.
	Partitioner string
}

// StoreInfo is a store of a subtopology.
type StoreInfo struct {
	// Name is the stable name of the store.
	Name string
	// ChangelogTopic is the name of its changelog on the cluster, with as many partitions as the
	// sources. It is empty if the store has none: it is restored from a source, or not at all.
	ChangelogTopic string
	// RestoredFrom is the source topic from which a store without a changelog is restored, and
	// FromSource makes rows of its records: see topology.RestoreFromTopic. A store with a changelog
	// has neither.
	RestoredFrom string
	FromSource   *SourceRows
	// InMemory says that the rows are in memory, and none on the disk: see topology.Store.InMemory.
	InMemory bool
	// LostOnRestart says that nothing restores the rows, which are in memory: see
	// topology.Store.LostOnRestart. The store has no topic, and no position in a commit or on the
	// disk.
	LostOnRestart bool
	// Layout says what its rows and its changelog records look like.
	Layout state.Layout
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}

// Declarations returns the stores in the form that a database takes.
func (s Subtopology) Declarations() []state.Declaration {
	declared := make([]state.Declaration, len(s.Stores))
	for i, store := range s.Stores {
		declared[i] = state.Declaration{Name: store.Name, Layout: store.Layout}
	}
	return declared
}

// InMemory returns the names of the stores whose rows are in memory.
func (s Subtopology) InMemory() []string {
	var names []string
	for _, store := range s.Stores {
		if store.InMemory {
			names = append(names, store.Name)
		}
	}
	return names
}

// Restored returns the stores that are restored when a task is opened, from a changelog or from a
// source: all but those with LostOnRestart. Only these have a topic, and a position in commits and
// on the disk.
func (s Subtopology) Restored() []StoreInfo {
	return slices.DeleteFunc(slices.Clone(s.Stores), func(store StoreInfo) bool { return store.LostOnRestart })
}

// LostOnRestart returns the other stores, in the form that a database takes.
func (s Subtopology) LostOnRestart() []state.Declaration {
	var lost []state.Declaration
	for _, store := range s.Stores {
		if store.LostOnRestart {
			lost = append(lost, state.Declaration{Name: store.Name, Layout: store.Layout})
		}
	}
	return lost
}

// Topic returns the topic from which the store is restored: its changelog, or else the source
// topic. It is empty with LostOnRestart.
func (s StoreInfo) Topic() string { return cmp.Or(s.ChangelogTopic, s.RestoredFrom) }

// RetryTopic returns the name that the delayed retry topic of the source for a delay has in an
// application: see topology.RetryTopics. It does not say whether the source has such a topic.
func (s Source) RetryTopic(application string, delay time.Duration) string {
	return application + "-" + s.Topic + RetryInfix + delay.String() + RepartitionSuffix
}

// Start says where a source starts in a partition for which the application has no committed
// offset. It is not used for an offset that is out of range, which is an error.
type Start struct {
	From StartFrom
	// Time is set for AtTime.
	Time time.Time
}

// StartFrom is a kind of start.
type StartFrom uint8

// The kinds of start.
const (
	// Earliest is the first record that the partition still has.
	Earliest StartFrom = iota
	// Latest is the end of the partition.
	Latest
	// AtTime is the first record whose timestamp is at or after a time.
	AtTime
)

// String returns "earliest", "latest" or the time.
func (s Start) String() string {
	switch s.From {
	case Latest:
		return "latest"
	case AtTime:
		return s.Time.UTC().Format(time.RFC3339Nano)
	default:
		return "earliest"
	}
}

// DedupeWindow is the dedupe window of a node: it recognises a record that comes again for
// Retention of stream time. A source topic that keeps records for longer can bring a record back
// that the node has expired, so a runtime compares the two before it starts.
type DedupeWindow struct {
	// Node is the name of the node.
	Node string
	// Retention is how long the node remembers.
	Retention time.Duration
	// Tolerated says that the runtime warns about a topic that keeps records for longer, instead of
	// refusing it.
	Tolerated bool
	// Topics are the source topics on the cluster whose records come to the node, sorted. A
	// repartition topic is replaced by those that feed it.
	Topics []string
}
