package graph

import "strings"

// Description has the parts of a topology, for programs and pictures. topology.Topology.Description
// makes it. Its JSON form is stored, and read by other programs. So fields may be added, and none
// is removed.
type Description struct {
	Name        string `json:"name"`
	Application string `json:"application"`
	Fingerprint string `json:"fingerprint"`
	// DeadLetterTopic is empty if there is none.
	DeadLetterTopic string `json:"dead_letter_topic,omitempty"`
	// Topics and InternalTopics are names on the cluster, sorted.
	Topics         []string `json:"topics"`
	InternalTopics []string `json:"internal_topics"`
	// Subtopologies are sorted by name, GlobalTables by store.
	Subtopologies []SubtopologyDescription `json:"subtopologies"`
	GlobalTables  []GlobalTableDescription `json:"global_tables,omitempty"`
}

// GlobalTableDescription is a table that every process has with all partitions of its topic.
type GlobalTableDescription struct {
	// Store is the name of its store, and Topic that of its topic on the cluster.
	Store string `json:"store"`
	Topic string `json:"topic"`
	// Layout is the text of its state.Layout.
	Layout string `json:"layout"`
	// The formats are the names of the codecs, of the store and of the topic.
	KeyFormat        string `json:"key_format"`
	ValueFormat      string `json:"value_format"`
	TopicKeyFormat   string `json:"topic_key_format"`
	TopicValueFormat string `json:"topic_value_format"`
}

// SubtopologyDescription is a part of a [Description].
type SubtopologyDescription struct {
	Name string `json:"name"`
	// Sources are sorted by topic, Stores by name, Sinks by topic. Topics are those on the cluster.
	Sources []SourceDescription `json:"sources"`
	Stores  []StoreDescription  `json:"stores"`
	Sinks   []string            `json:"sinks"`
	// Nodes are in the order of Describe: by their distance from a source, then by name.
	Nodes []NodeDescription `json:"nodes"`
}

// SourceDescription is a topic that a subtopology reads.
type SourceDescription struct {
	// Topic is empty for a source by pattern.
	Topic string `json:"topic"`
	// Pattern is the expression that the names of the topics match; empty for one topic.
	Pattern string `json:"pattern,omitempty"`
	// Repartition says that the topic is internal.
	Repartition bool `json:"repartition"`
	// Start is where a new application starts: earliest, latest, or a time.
	Start       string `json:"start"`
	KeyFormat   string `json:"key_format"`
	ValueFormat string `json:"value_format"`
	// Partitioner is the name of the partitioner, empty for Kafka's default one.
	Partitioner string `json:"partitioner,omitempty"`
}

// StoreDescription is a store of a subtopology.
type StoreDescription struct {
	Name string `json:"name"`
	// Layout is the text of its state.Layout.
	Layout string `json:"layout"`
	// ChangelogTopic is empty for a store without one, which is restored from the source topic
	// RestoredFrom, or is LostOnRestart.
	ChangelogTopic string `json:"changelog_topic"`
	RestoredFrom   string `json:"restored_from,omitempty"`
	// InMemory says that the rows are in memory, and none on the disk. LostOnRestart adds that
	// nothing restores them.
	InMemory      bool   `json:"in_memory,omitempty"`
	LostOnRestart bool   `json:"lost_on_restart,omitempty"`
	KeyFormat     string `json:"key_format"`
	ValueFormat   string `json:"value_format"`
}

// The kinds of a [NodeDescription].
const (
	SourceKind    = "source"
	ProcessorKind = "processor"
	SinkKind      = "sink"
)

// NodeDescription is a node with what leaves it.
type NodeDescription struct {
	Name string `json:"name"`
	// Kind is SourceKind, ProcessorKind or SinkKind.
	Kind string `json:"kind"`
	// Topic is what a source reads or a sink writes, on the cluster; empty for a processor and for
	// a source by pattern.
	Topic string `json:"topic,omitempty"`
	// Pattern is the expression of a source by pattern; empty for other nodes.
	Pattern string `json:"pattern,omitempty"`
	// KeyFormat and ValueFormat are the names of the topic's codecs; empty for a processor.
	KeyFormat   string `json:"key_format,omitempty"`
	ValueFormat string `json:"value_format,omitempty"`
	// Partitioner is the name of the topic's partitioner; empty for Kafka's default one, and for a
	// processor.
	Partitioner string `json:"partitioner,omitempty"`
	// Stores are the names of the stores that a processor uses, sorted.
	Stores []string `json:"stores,omitempty"`
	// GlobalTables are the stores of the global tables that it looks into, sorted.
	GlobalTables []string `json:"global_tables,omitempty"`
	// Windows are those that an aggregation makes, in words; empty for other nodes.
	Windows string `json:"windows,omitempty"`
	// Suppression is how long a node holds changes back, in words; empty for other nodes.
	Suppression string `json:"suppression,omitempty"`
	// Grace is how long the records of a join wait for changes of its table; empty for other nodes.
	Grace string `json:"grace,omitempty"`
	// Next are sorted by outlet and node.
	Next []EdgeDescription `json:"next,omitempty"`
}

// EdgeDescription is an edge from a node to another one of its subtopology.
type EdgeDescription struct {
	// Outlet is the name of the outlet. It is empty if the node has only one.
	Outlet string `json:"outlet,omitempty"`
	To     string `json:"to"`
}

// ParkStore returns the name of the store that topology.ParkKeys gives to the source, for tools
// that have only a [Description]; application is that of the Description. It equals
// [Source.ParkStore], except for delayed retry topics: they have no such store, and look like other
// internal topics here.
func (s SourceDescription) ParkStore(application string) string {
	name := s.Topic
	if s.Repartition {
		name = strings.TrimSuffix(strings.TrimPrefix(name, application+"-"), RepartitionSuffix)
	}
	return name + ParkedSuffix
}
