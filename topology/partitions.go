package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkPartitions reports whether counts, the number of partitions of each topic on the cluster,
// fits the topology: all sources of a subtopology need the same number, because a task reads the
// same partition of each. The error names the topics and their numbers. Topics that are no sources
// are not looked at.
func (t *Topology) checkPartitions(counts map[string]int32) error {
	var errs []error
	for _, s := range t.subtopologies {
		if err := t.checkCounts(s, counts); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *Topology) checkCounts(s *subtopology, counts map[string]int32) error {
	var topics, missing []string
	equal := true
	first := int32(0)
	if s.pattern() != nil {
		return nil // each topic has as many tasks as partitions
	}
	for _, n := range s.sources {
		topic := n.topic.on(t.application)
		count := counts[topic]
		if count < 1 {
			missing = append(missing, topic)
			continue
		}
		if first == 0 {
			first = count
		}
		equal = equal && count == first
		topics = append(topics, fmt.Sprintf("%s has %d", topic, count))
	}
	slices.Sort(missing)
	slices.Sort(topics)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("topology %s: subtopology %s: the number of partitions is not known of %s",
			t.name, s.name, strings.Join(missing, ", "))
	case !equal:
		return fmt.Errorf("topology %s: subtopology %s reads topics with different numbers of partitions: "+
			"%s; make them equal, or send one of the streams through Repartition",
			t.name, s.name, strings.Join(topics, ", "))
	}
	return nil
}

// ResolvePartitions returns the number of partitions that each repartition topic has to have, by
// its name on the cluster. known has the numbers of the source topics that are not internal, and of
// repartition topics that keep their number.
//
// The number of a repartition topic is that of its Partitions option, or else that in known.
// Otherwise it is that of the other sources of the subtopology that reads the topic, or else that
// of the largest subtopology that writes one of these sources. The error names sources of one
// subtopology that would have different numbers.
func (t *Topology) ResolvePartitions(known map[string]int32) (map[string]int32, error) {
	counts := map[string]int32{}
	writers := map[string][]*subtopology{}
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			switch {
			case n.kind == sinkNode && n.topic.repartition:
				writers[n.topic.name] = append(writers[n.topic.name], s)
			case n.kind == sourceNode && !n.topic.repartition && n.topic.pattern == nil:
				counts[n.topic.name] = known[n.topic.name]
			}
		}
	}
	// needed is the number of tasks of a subtopology: fixed by a source, or the largest of those
	// that feed it. Feeding can go round in a circle of subtopologies, but every stream begins at
	// an external topic, so the numbers grow to a least fixed point from there.
	needed := map[*subtopology]int32{}
	for _, s := range t.subtopologies {
		needed[s] = t.fixedCount(s, known)
	}
	for changed := true; changed; {
		changed = false
		for _, s := range t.subtopologies {
			if t.fixedCount(s, known) > 0 {
				continue
			}
			for _, n := range s.sources {
				for _, writer := range writers[n.topic.name] {
					if needed[writer] > needed[s] {
						needed[s] = needed[writer]
						changed = true
					}
				}
			}
		}
	}
	internal := map[string]int32{}
	for _, s := range t.subtopologies {
		for _, n := range s.sources {
			if n.topic.repartition {
				topic := n.topic.on(t.application)
				internal[topic] = needed[s]
				if fixed := t.fixed(n, known); fixed > 0 {
					internal[topic] = fixed
				}
				counts[topic] = internal[topic]
			}
		}
	}
	if err := t.checkPartitions(counts); err != nil {
		return nil, err
	}
	return internal, nil
}

// fixedCount returns the number of partitions that a source of a subtopology fixes, 0 if none does.
// Where they disagree any of them will do, because checkPartitions refuses the result.
func (t *Topology) fixedCount(s *subtopology, known map[string]int32) int32 {
	count := int32(0)
	for _, n := range s.sources {
		count = max(count, t.fixed(n, known))
	}
	return count
}

// fixed returns the number of partitions of a source that does not follow from other topics, 0 if
// it does.
func (t *Topology) fixed(source *node, known map[string]int32) int32 {
	switch {
	case source.topic.partitions > 0:
		return source.topic.partitions
	case source.topic.pattern != nil:
		return 0
	}
	return known[source.topic.on(t.application)]
}
