package topologytest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// match gives the sources by pattern the topics that [TopicPartitions] names.
func (d *Driver) match() error {
	var names []string
	for name := range d.settings.topicPartitions {
		if len(d.topology.PatternsOf(name)) > 0 {
			names = append(names, name)
		}
	}
	bound, err := d.topology.WithTopics(names)
	if err != nil {
		return fmt.Errorf("topologytest: %w", err)
	}
	d.topology = bound
	return nil
}

// CreateTopic creates a topic that a source by pattern matches, while the topology runs. Its
// records are read from the first one on.
func (d *Driver) CreateTopic(name string, partitions int32) error {
	if _, exists := d.topics[name]; exists || partitions < 1 {
		return fmt.Errorf("topologytest: topic %s with %d partitions cannot be created; it exists: %t", name, partitions, exists)
	}
	bound, err := d.topology.WithTopics(append(d.topology.Matched(), name))
	if err != nil {
		return fmt.Errorf("topologytest: %w", err)
	}
	d.topology, d.topics[name] = bound, newTopic(name, partitions)
	for _, sub := range bound.Subtopologies() {
		if sub.Name == name {
			err = d.addTasks(sub)
		}
	}
	if err != nil {
		return fmt.Errorf("topologytest: %w", err)
	}
	d.sortTasks()
	return nil
}

// sortTasks puts the tasks in their order again, and has all of them look for records.
func (d *Driver) sortTasks() {
	slices.SortFunc(d.tasks, func(a, b *task) int { return compareTasks(a.id, b.id) })
	d.ready = newReady(len(d.tasks))
	for i, tk := range d.tasks {
		tk.index = i
		d.ready.add(i)
	}
}

func compareTasks(a, b graph.TaskID) int {
	return cmp.Or(strings.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
}
