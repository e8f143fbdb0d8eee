package topologytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// PipeOption is an option of [Pipe].
type PipeOption func(r *Raw)

// At sets the timestamp. The default is the driver's clock. A later time moves the clock on, unless
// [Clock] has set it.
func At(t time.Time) PipeOption { return func(r *Raw) { r.Timestamp = t.UnixMilli() } }

// Header adds a header.
func Header(key, value string) PipeOption {
	return func(r *Raw) { r.Headers = append(r.Headers, topology.Header{Key: key, Value: []byte(value)}) }
}

// ToPartition sets the partition. The default is that of the topic's partitioner, or else that of
// Kafka's, and 0 for a null key.
func ToPartition(n int32) PipeOption { return func(r *Raw) { r.Partition = n } }

// Pipe writes a record to a source topic or the topic of a global table, and runs the topology
// until nothing is left to do. It returns an error if the record cannot be encoded. It also returns
// one that names the stopped tasks with unread records; that error wraps a [*topology.Failure].
func Pipe[K, V any](d *Driver, t topology.TopicOf[K, V], key K, value V, opts ...PipeOption) error {
	k, v, err := t.Encode(key, value)
	if err != nil {
		return fmt.Errorf("topologytest: pipe to %s: %w", t.Name(), err)
	}
	if topic := d.topics[t.Name()]; topic != nil {
		partition, err := t.Partition(key, value, int32(len(topic.partitions)))
		if err != nil {
			return fmt.Errorf("topologytest: pipe to %s: %w", t.Name(), err)
		}
		opts = append([]PipeOption{ToPartition(partition)}, opts...)
	}
	return d.PipeRaw(t.Name(), k, v, opts...)
}

// PipeRaw is [Pipe] for a key and a value that are already encoded, or not valid at all. A nil one
// is null.
func (d *Driver) PipeRaw(name string, key, value []byte, opts ...PipeOption) error {
	if err := d.readable(name); err != nil {
		return err
	}
	t := d.topics[name]
	r := Raw{Topic: name, Partition: -1, Timestamp: d.now.UnixMilli(), Key: key, Value: value}
	for _, opt := range opts {
		opt(&r)
	}
	n := int32(len(t.partitions))
	switch {
	case r.Partition >= n || r.Partition < -1:
		return fmt.Errorf("topologytest: pipe to %s: partition %d is not one of its %d", name, r.Partition, n)
	case r.Partition >= 0:
	case key == nil:
		r.Partition = 0
	default:
		r.Partition = graph.PartitionOf(key, n)
	}
	if at := time.UnixMilli(r.Timestamp).UTC(); at.After(d.now) && !d.settings.ownClock {
		d.now = at
	}
	if global := d.globals[name]; global != nil {
		global.take(d, &r)
		return nil
	}
	t.partitions[r.Partition].append(r)
	return d.run()
}

// readable returns why no record can be piped to a topic.
func (d *Driver) readable(name string) error {
	if t, ok := d.topics[name]; d.globals[name] == nil && (!ok || t.partitions[0].reader == nil) {
		if len(d.topology.PatternsOf(name)) > 0 {
			return fmt.Errorf("topologytest: pipe to %s: a pattern matches the topic, and it does not exist; "+
				"CreateTopic or the option TopicPartitions creates it", name)
		}
		return fmt.Errorf("topologytest: pipe to %s: the topology does not read it; it reads %s", name,
			strings.Join(d.sources(), ", "))
	}
	return nil
}

func (d *Driver) sources() []string {
	var names []string
	for _, sub := range d.topology.Subtopologies() {
		for _, s := range sub.Sources {
			names = append(names, s.Topic)
		}
	}
	for topic := range d.globals {
		names = append(names, topic)
	}
	slices.Sort(names)
	return names
}

// Output returns the records that were written to a topic since the last call, in the order of
// writing. They have no [topology.Record.Source].
func Output[K, V any](d *Driver, t topology.TopicOf[K, V]) ([]topology.Record[K, V], error) {
	raw, err := d.OutputRaw(t.Name())
	if err != nil {
		return nil, err
	}
	records := make([]topology.Record[K, V], len(raw))
	for i, r := range raw {
		key, value, err := t.Decode(r.Key, r.Value)
		if err != nil {
			return nil, fmt.Errorf("topologytest: output of %s: record %d: %w", t.Name(), i, err)
		}
		records[i] = topology.Record[K, V]{Key: key, Value: value, Timestamp: r.Timestamp, Headers: r.Headers}
	}
	return records, nil
}

// OutputRaw is [Output] without decoding, for any topic by its name on the cluster.
func (d *Driver) OutputRaw(name string) ([]Raw, error) {
	t, ok := d.topics[name]
	if !ok {
		return nil, fmt.Errorf("topologytest: output of %s: the topology has no such topic", name)
	}
	return t.drain(), nil
}

// DeadLetter is a dead letter with its parsed headers.
type DeadLetter struct {
	Raw
	Info graph.DeadLetterInfo
}

// DeadLetters returns the dead letters that were written since the last call.
func (d *Driver) DeadLetters() ([]DeadLetter, error) {
	name := d.topology.DeadLetterTopic()
	if name == "" {
		return nil, fmt.Errorf("topologytest: the topology has no dead-letter topic")
	}
	raw, err := d.OutputRaw(name)
	if err != nil {
		return nil, err
	}
	letters := make([]DeadLetter, len(raw))
	for i, r := range raw {
		info, err := graph.ParseDeadLetter(r.Headers)
		if err != nil {
			return nil, fmt.Errorf("topologytest: dead letter %d: %w", i, err)
		}
		letters[i] = DeadLetter{Raw: r, Info: info}
	}
	return letters, nil
}
