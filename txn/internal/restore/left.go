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
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Left is records that no task of the topology processes any more, and that no task reports when it
// is opened.
type Left struct {
	// Topic is the input with whose offset the task has committed in whose store of parked keys the
	// records wait; or Store is empty, and Topic is the repartition topic that holds them.
	Topic, Store string
	Unread
	// Read says that the topic is an input of another task now.
	Read bool
}

// String is what was found, without what to do.
func (l Left) String() string {
	if l.Store != "" {
		return fmt.Sprintf("%d parked records wait in store %s of a task that committed topic %s and does not exist any more",
			l.Records, l.Store, l.Topic)
	}
	if l.Hidden {
		return fmt.Sprintf("cannot tell whether records wait in the repartition topic %s, which no task would process: the application may "+
			"describe the topic and not read it", l.Topic)
	}
	return fmt.Sprintf("%s wait in the repartition topic %s, and no task would process them", l.Unread, l.Topic)
}

// Recovery is what to do. An action that removes the last trace of waiting records must not remove
// the offsets of a topic that is still read.
func (l Left) Recovery() string {
	switch {
	case l.Store != "" && l.Read:
		return "let the topology that ran process them, with the source's ParkKeys and without the policies that park; " +
			"or give them up: commit the offsets of " + l.Topic + " again as they are (kafka-consumer-groups.sh --reset-offsets --to-current)"
	case l.Store != "":
		return "keep the source with its ParkKeys, without the policies that park, until no record waits; " +
			"or give them up: delete the offsets of " + l.Topic + " from the group"
	case l.Hidden:
		return "allow the application to read that topic; or give its records up: delete the topic, or its offsets from the group"
	}
	return "let the topology that ran process them, with no new input, before you replace it; or give them up: delete the topic"
}

// Orphaned are the commits of an application that no task of the topology reads when it is opened,
// if they can say that records wait. These are commits with metadata, of a topic that is not the
// first of any subtopology, and commits of repartition topics that the topology does not read.
func Orphaned(t *topology.Topology, commits []broker.Offset) (orphaned []broker.Offset) {
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
			orphaned = append(orphaned, c)
		}
	}
	return orphaned
}

// repartitionOf returns the name that a repartition topic of the application has in a topology; ok
// is false for other topics.
func repartitionOf(t *topology.Topology, topic string) (name string, ok bool) {
	name, ours := strings.CutPrefix(topic, t.Application()+"-")
	name, repartition := strings.CutSuffix(name, "-repartition")
	return name, ours && repartition
}

// Left returns the records that no task would process, by these commits, which [Orphaned] has
// found. For a store that the topology has, its task reports them. The commits of builds that did
// not record parked records say nothing here.
func (r *Restorer) Left(ctx context.Context, t *topology.Topology, orphaned []broker.Offset) ([]Left, error) {
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
	behind := map[string][]broker.Offset{} // of repartition topics that the topology does not read
	for _, c := range orphaned {
		name, repartition := repartitionOf(t, c.Topic)
		if !repartition {
			name = c.Topic
		}
		committed, err := r.Parse(ctx, Request{Task: graph.TaskID{Subtopology: name, Partition: c.Partition}}, c.Metadata)
		if err != nil {
			return nil, fmt.Errorf("looking for waiting records by the commit of %s[%d]: %w", c.Topic, c.Partition, err)
		}
		for _, parked := range committed.WhereParked() {
			if !has[parked.Store] {
				add(Left{Topic: c.Topic, Store: parked.Store, Unread: Unread{Records: parked.Records}, Read: read[c.Topic]})
			}
		}
		if repartition && !read[c.Topic] {
			behind[c.Topic] = append(behind[c.Topic], c)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(behind)) {
		waits, err := r.unread(ctx, topic, behind[topic])
		if err != nil {
			return nil, fmt.Errorf("looking for waiting records in %s: %w", topic, err)
		}
		if waits.Any() {
			add(Left{Topic: topic, Unread: waits})
		}
	}
	return all, nil
}

// unread finds what waits in a topic that is not read any more, behind these commits. Brokers keep
// them for days, so that each start until then asks.
func (r *Restorer) unread(ctx context.Context, topic string, commits []broker.Offset) (Unread, error) {
	found, hidden, err := r.Cluster.Topics(ctx, []string{topic})
	if err != nil {
		return Unread{}, err
	}
	if len(hidden) > 0 {
		r.Logger.Warn("cannot tell whether records wait in a repartition topic that the topology does not read any more", "topic", topic,
			"remedy", "allow the application to describe and read it, or delete its offsets from the group")
	}
	return FindUnread(ctx, r.Cluster, found[topic], commits, false)
}

// Unread is what waits in a topic behind the committed offsets of a group.
type Unread struct {
	Records int64
	// More says that they were not all counted, as one is enough to refuse, and there can be any
	// number.
	More bool
	// Hidden says that the application may describe the topic and not read it. Its log continues
	// behind a commit, with unknown content.
	Hidden bool
}

// Any reports whether records wait, or may.
func (u Unread) Any() bool { return u.Records > 0 || u.Hidden }

// String is how many records that are.
func (u Unread) String() string {
	switch {
	case u.Hidden:
		return "an unknown number of records"
	case u.More:
		return fmt.Sprintf("%d records or more", u.Records)
	}
	return fmt.Sprintf("%d records", u.Records)
}

// FindUnread counts the committed records of a topic behind these commits of a group; it finds none
// if the topic does not exist. Records behind an open transaction are left out. Partitions are read
// in parallel, and each only until it is clear that there are many records.
//
// A partition without a commit is read from its start if the topology reads the topic. Otherwise it
// is read only if no record was ever deleted from it: no task has processed the partition then.
// Records are deleted behind commits, so the commit of the other partitions has expired.
func FindUnread(ctx context.Context, cluster *broker.Cluster, topic broker.TopicInfo, commits []broker.Offset, read bool) (Unread, error) {
	at := make([]int64, topic.Partitions)
	for p := range at {
		at[p] = noCommit
	}
	for _, c := range commits {
		if c.Partition < topic.Partitions && c.At >= 0 {
			at[c.Partition] = c.At
		}
	}
	found, errs := make([]Unread, len(at)), make([]error, len(at))
	free := make(chan struct{}, unreadParallel)
	var all sync.WaitGroup
	for p := range at {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			found[p], errs[p] = unreadIn(ctx, cluster, topic, int32(p), at[p], read)
		})
	}
	all.Wait()
	var sum Unread
	for _, one := range found {
		sum.Records += one.Records
		sum.More, sum.Hidden = sum.More || one.More, sum.Hidden || one.Hidden
	}
	return sum, cmp.Or(errs...)
}

const (
	noCommit = -1
	// unreadParallel bounds how many partitions are looked at together, unreadBytes an answer, and
	// unreadCounted after how many records it is enough of a partition.
	unreadParallel = 8
	unreadBytes    = 4 << 20
	unreadCounted  = 1000
)

// unreadIn is FindUnread for a partition.
func unreadIn(ctx context.Context, cluster *broker.Cluster, topic broker.TopicInfo, partition int32, at int64, read bool) (u Unread, err error) {
	start, end, err := cluster.LogBounds(ctx, topic.Name, partition)
	if err != nil || at == noCommit && start > 0 && !read {
		return u, err
	}
	if at = max(at, start); at < end && !slices.Contains(topic.Allowed, broker.Read) {
		return Unread{Hidden: true}, nil
	}
	reader := cluster.NewReader(topic.Name, topic.ID, partition, true, unreadBytes)
	for at < end {
		if u.More = u.Records >= unreadCounted; u.More {
			break
		}
		fetched, err := reader.Fetch(ctx, at, fetchWait)
		if err != nil {
			return u, err
		}
		u.Records += int64(len(fetched.Records))
		if fetched.Next == at {
			break // what is behind is not stable
		}
		at = fetched.Next
	}
	return u, nil
}
