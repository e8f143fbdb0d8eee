package graph

import (
	"cmp"
	"time"

	"github.com/onceward/onceward/state"
)

// Subtopology is a part of a topology that shares no record and no store with the others except through
// topics. A task is one partition of a subtopology.
type Subtopology struct {
	// Name is the alphabetically first name among its source topics and repartitionings, as the user gave
	// them. So it does not change when other parts of the topology do. A new source with an earlier name
	// changes it, and with it the names of the tasks, but not those of changelogs.
	Name string
	// Sources are sorted by topic. All of them have the same number of partitions.
	Sources []Source
	// Stores are sorted by name.
	Stores []StoreInfo
	// Sinks are the topics that are written, repartition topics included and the dead-letter topic not,
	// sorted.
	Sinks []string
}

// Source is a topic that a subtopology reads.
type Source struct {
	// Topic is the name on the cluster.
	Topic string
	// Repartition says that the topic is internal, and written by this topology.
	Repartition bool
	// Delay is how long a record waits after its timestamp before it is processed: above 0 for a delayed retry topic,
	// which is a repartition topic that the subtopology itself writes.
	Delay time.Duration
	// Start says where a new application starts. It is Earliest for a repartition topic.
	Start Start
	// ParkStore is the store in which records of the source wait, and ParkChangelog its changelog on the cluster. The subtopology has that
	// store only with topology.ParkKeys; it is named without as well, so that what waits since there was one is found. Both are empty for a
	// delayed retry topic, and where the changelog would have a longer name than Kafka allows, so that there never was one.
	ParkStore, ParkChangelog string
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}

// StoreInfo is a store of a subtopology.
type StoreInfo struct {
	// Name is the stable name of the store.
	Name string
	// ChangelogTopic is the name of its changelog on the cluster, which has as many partitions as the sources; empty if it has none.
	ChangelogTopic string
	// RestoredFrom is the source topic that a store without a changelog is restored from, see topology.RestoreFromTopic, and FromSource makes rows
	// of its records. They are empty and nil for a store that has a changelog.
	RestoredFrom string
	FromSource   *SourceRows
	// Layout says what its rows and its changelog records look like.
	Layout state.Layout
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}

// Declarations returns the stores as a database is told of them.
func (s Subtopology) Declarations() []state.Declaration {
	declared := make([]state.Declaration, len(s.Stores))
	for i, store := range s.Stores {
		declared[i] = state.Declaration{Name: store.Name, Layout: store.Layout}
	}
	return declared
}

// Topic returns the topic that the store is restored from: its changelog, or else the source topic.
func (s StoreInfo) Topic() string { return cmp.Or(s.ChangelogTopic, s.RestoredFrom) }

// RetryTopic returns the name of the delayed retry topic of the source for a delay (see topology.RetryTopics), in an
// application. It does not say whether the source has it.
func (s Source) RetryTopic(application string, delay time.Duration) string {
	return application + "-" + s.Topic + RetryInfix + delay.String() + RepartitionSuffix
}

// Start says where a source starts in a partition for which the application has no committed offset. Topics
// are never skipped or read again because of it: an offset that has gone out of range later is an error.
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

// Horizon is a limit of what a node knows again: a record that comes once more is recognised for Retention of
// stream time, and not any more afterwards. A source topic that keeps records for longer could bring one back that
// the node has forgotten, so a runtime compares the two before it starts.
type Horizon struct {
	// Node is the name of the node.
	Node string
	// Retention is how long the node remembers.
	Retention time.Duration
	// Tolerated says that a topic which keeps records for longer is to be warned about, and not refused.
	Tolerated bool
	// Topics are the source topics on the cluster whose records reach the node, sorted. A repartition topic stands
	// for those that feed it.
	Topics []string
}
