package restore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Left is what waits for nobody: the topology has no task any more that would process it, or that would see when it is opened that it has no
// place for it.
type Left struct {
	// Topic is the input with whose offset the task has committed in whose store of parked keys the records wait; or Store is empty, and Topic
	// is the repartition topic that holds them.
	Topic, Store string
	Records      int64
	// Read says that the topic is an input of another task now.
	Read bool
}

// String is what was found, without what to do.
func (l Left) String() string {
	if l.Store != "" {
		return fmt.Sprintf("%d parked records wait in store %s, of a task that has committed with topic %s and is not there any more",
			l.Records, l.Store, l.Topic)
	}
	return fmt.Sprintf("%d records wait in the repartition topic %s that nobody would process", l.Records, l.Topic)
}

// WayOut is what to do. What takes the word away that records wait must not take the offsets of a topic that is still read.
func (l Left) WayOut() string {
	switch {
	case l.Store != "" && l.Read:
		return "let the topology that ran process them, with the source's ParkKeys and without the policies that park, before it is replaced; " +
			"to commit the offsets of " + l.Topic + " anew as they are, as kafka-consumer-groups.sh --reset-offsets --to-current does, gives up " +
			"what waits"
	case l.Store != "":
		return "keep the source with its ParkKeys, without the policies that park, until nothing waits; to delete the offsets of " + l.Topic +
			" from the group gives up what waits"
	}
	return "let the topology that ran process them, with no new input, before it is replaced; to delete the topic gives them up"
}

// Unlooked are the commits of an application that no task of the topology looks at when it is opened, as far as they can say that something
// waits: those with metadata, of a topic that no subtopology has first, and those of repartition topics that nobody reads.
func Unlooked(t *topology.Topology, commits []broker.Offset) (unlooked []broker.Offset) {
	first, read := map[string]bool{}, map[string]bool{}
	for _, sub := range t.Subtopologies() {
		first[sub.Sources[0].Topic] = true
		for _, source := range sub.Sources {
			read[source.Topic] = true
		}
	}
	for _, c := range commits {
		_, repartition := repartitionOf(t, c.Topic)
		if repartition && !read[c.Topic] || c.Metadata != "" && !first[c.Topic] {
			unlooked = append(unlooked, c)
		}
	}
	return unlooked
}

// repartitionOf returns the name that a repartition topic of the application has in a topology; ok is false for other topics.
func repartitionOf(t *topology.Topology, topic string) (name string, ok bool) {
	name, ours := strings.CutPrefix(topic, t.Application()+"-")
	name, repartition := strings.CutSuffix(name, "-repartition")
	return name, ours && repartition
}

// Left returns what waits for nobody, as these commits say, which [Unlooked] has found. Of a store that the topology has, its task says it, and
// the commits of builds that did not say where records wait say nothing here.
func (r *Restorer) Left(ctx context.Context, t *topology.Topology, unlooked []broker.Offset) ([]Left, error) {
	has, read := map[string]bool{}, map[string]bool{}
	for _, sub := range t.Subtopologies() {
		for _, source := range sub.Sources {
			read[source.Topic] = true
		}
		for _, store := range sub.Stores {
			has[store.Name] = true
		}
	}
	var all []Left
	add := func(l Left) {
		for i := range all {
			if all[i].Topic == l.Topic && all[i].Store == l.Store {
				all[i].Records += l.Records
				return
			}
		}
		all = append(all, l)
	}
	behind := map[string][]broker.Offset{} // of repartition topics that nobody reads
	for _, c := range unlooked {
		name, repartition := repartitionOf(t, c.Topic)
		if !repartition {
			name = c.Topic
		}
		blob, err := r.Parse(ctx, Request{Task: topology.TaskID{Subtopology: name, Partition: c.Partition}}, c.Metadata)
		if err != nil {
			return nil, fmt.Errorf("looking for what waits by the commit of %s[%d]: %w", c.Topic, c.Partition, err)
		}
		for _, parked := range blob.WhereParked() {
			if !has[parked.Store] {
				add(Left{Topic: c.Topic, Store: parked.Store, Records: parked.Records, Read: read[c.Topic]})
			}
		}
		if repartition && !read[c.Topic] {
			behind[c.Topic] = append(behind[c.Topic], c)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(behind)) {
		n, err := r.unread(ctx, topic, behind[topic])
		if err != nil {
			return nil, fmt.Errorf("looking for what waits in %s: %w", topic, err)
		}
		if n > 0 {
			add(Left{Topic: topic, Records: n})
		}
	}
	return all, nil
}

// unread counts what waits in a topic behind these commits. Brokers keep them for days, so that each start until then asks: partitions are
// looked at at the same time.
func (r *Restorer) unread(ctx context.Context, topic string, commits []broker.Offset) (n int64, err error) {
	found, hidden, err := r.Cluster.Topics(ctx, []string{topic})
	if err != nil {
		return 0, err
	}
	if len(hidden) > 0 {
		r.Logger.Warn("it is not known whether records wait in a repartition topic that the topology does not read any more", "topic", topic,
			"remedy", "allow to describe and to read it, or delete its offsets from the group")
	}
	counts, errs := make([]int64, len(commits)), make([]error, len(commits))
	free := make(chan struct{}, unreadParallel)
	var all sync.WaitGroup
	for i, c := range commits {
		if c.Partition >= found[topic].Partitions { // none where the topic is not there
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			counts[i], errs[i] = Unread(ctx, r.Cluster, found[topic].ID, c)
		})
	}
	all.Wait()
	for _, waiting := range counts {
		n += waiting
	}
	return n, cmp.Or(errs...)
}

// unreadParallel bounds how many partitions are looked at together.
const unreadParallel = 8

// Unread counts the committed records of a partition at or after a committed offset. What is behind an open transaction is left out.
func Unread(ctx context.Context, cluster *broker.Cluster, topic [16]byte, o broker.Offset) (n int64, err error) {
	start, end, err := cluster.LogBounds(ctx, o.Topic, o.Partition)
	if err != nil {
		return 0, err
	}
	reader := cluster.NewReader(o.Topic, topic, o.Partition, true, unreadBytes)
	for at := max(o.At, start); at < end; {
		fetched, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return 0, err
		}
		n += int64(len(fetched.Records))
		if fetched.Next == at {
			break // what is behind is not stable
		}
		at = fetched.Next
	}
	return n, nil
}

// unreadBytes bounds an answer of Unread.
const unreadBytes = 4 << 20
