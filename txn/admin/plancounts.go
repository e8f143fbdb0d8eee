package admin

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// countUnread finds what waits in the repartition topics of the topology that ran whose codecs
// change or that are read no more.
func (p *planInput) countUnread(ctx context.Context, cluster *broker.Cluster, log *slog.Logger) error {
	if p.before == nil {
		return nil
	}
	concerned, stays := map[string]bool{}, map[string]bool{}
	for _, d := range graph.Compare(*p.before, p.after) {
		gone := d.Attribute == graph.AttributeExistence && d.After == ""
		concerned[d.Name] = concerned[d.Name] || d.Subject == graph.SubjectSource && (gone || d.Attribute == graph.AttributeFormats)
	}
	for _, sub := range p.after.Subtopologies {
		for _, source := range sub.Sources {
			stays[source.Topic] = true
		}
	}
	for _, sub := range p.before.Subtopologies {
		for _, source := range sub.Sources {
			if !source.Repartition || !concerned[source.Topic] {
				continue
			}
			waits, err := unread(ctx, cluster, log, source.Topic, stays[source.Topic])
			if err != nil {
				return err
			}
			p.unread[source.Topic] = waits
		}
	}
	return nil
}

// countParked counts the records that wait in the stores of the topology that ran which are there
// no more, as its last commits say, or the changelogs where they do not.
func (p *planInput) countParked(ctx context.Context, client *Client, cluster *broker.Cluster, restorer *restore.Restorer) error {
	if p.before == nil {
		return nil
	}
	gone := map[string]bool{}
	for _, d := range graph.Compare(*p.before, p.after) {
		if d.Subject == graph.SubjectStore && d.Attribute == graph.AttributeExistence && d.After == "" {
			gone[d.Name] = true
		}
	}
	asked := map[string]bool{} // by the task of which the commit is with that topic, whether that store is there
	for _, sub := range p.after.Subtopologies {
		for _, source := range sub.Sources {
			asked[sub.Sources[0].Topic+"/"+source.ParkStore(p.after.Application)] = true
		}
	}
	for _, sub := range p.before.Subtopologies {
		var parking []goneParkStore
		for _, s := range sub.Stores {
			// A store of the application's own can have a name that ends alike.
			parks := slices.ContainsFunc(sub.Sources, func(source graph.SourceDescription) bool {
				return source.ParkStore(p.before.Application) == s.Name
			})
			if gone[s.Name] && parks {
				parking = append(parking, goneParkStore{restore.ParkStore{Name: s.Name, ChangelogTopic: s.ChangelogTopic},
					asked[sub.Sources[0].Topic+"/"+s.Name]})
			}
		}
		if parking == nil {
			continue
		}
		// The commit of a task is with its first input.
		described, there, err := client.describe(ctx, sub.Sources[0].Topic)
		switch {
		case err != nil:
			return err
		case !there:
			continue
		}
		offsets, err := stableOffsets(ctx, cluster, client.cfg.Logger, map[string][]int32{described.Topic: described.Partitions.Numbers()})
		if err != nil {
			return err
		}
		found, errs := make([]map[string]int64, len(offsets)), make([]error, len(offsets))
		together(len(offsets), func(i int) {
			id := graph.TaskID{Subtopology: sub.Name, Partition: offsets[i].Partition}
			found[i], errs[i] = waitingIn(ctx, restorer, id, offsets[i].Metadata, parking)
		})
		if err := cmp.Or(errs...); err != nil {
			return err
		}
		for _, waits := range found {
			for store, n := range waits {
				p.parked[store] += max(n, 0)
				p.parkedUnknown[store] = p.parkedUnknown[store] || n < 0
			}
		}
	}
	return nil
}

// goneParkStore is a store of parked keys that is there no more.
type goneParkStore struct {
	restore.ParkStore
	// asked says that the source is still there, with the same task: that looks into the changelog
	// where no commit is known.
	asked bool
}

// waitingIn returns how many records of a task wait in stores that do not exist any more, by store;
// -1 is unknown. It does not ask a changelog that the start does not ask either:
//   - if the commit names it at 0, because it never held a record,
//   - if no commit is known of a task that is gone, because its offsets were deleted, or committed
//     again from outside. That is how waiting records are given up (restore.Left.Recovery).
func waitingIn(
	ctx context.Context, restorer *restore.Restorer, id graph.TaskID, metadata string, parking []goneParkStore,
) (map[string]int64, error) {
	committed, err := restorer.Parse(ctx, restore.Request{Task: id}, metadata)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, store := range parking {
		at, named := committed.Target(store.Name)
		said := slices.ContainsFunc(committed.WhereParked(), func(p task.CommittedParked) bool { return p.Store == store.Name })
		if !said && (named && at == 0 || committed == nil && !store.asked) {
			continue
		}
		n, untold, err := restorer.Waiting(ctx, committed, store.ParkStore, id)
		if err != nil {
			return nil, err
		}
		if untold != "" {
			n = -1
		}
		out[store.Name] = n
	}
	return out, nil
}

// unread finds the records that wait in a topic behind the committed offsets; none if the topic
// does not exist. Brokers answer "not authorized" for a missing topic to a principal that may not
// see it.
func unread(ctx context.Context, cluster *broker.Cluster, log *slog.Logger, topic string, read bool) (waits restore.Unread, err error) {
	found, hidden, err := cluster.Topics(ctx, []string{topic})
	if len(hidden) > 0 {
		log.Warn("cannot tell whether records wait in a repartition topic: it does not exist, or the application may not describe it", "topic", topic)
	}
	if err != nil || found[topic].Partitions == 0 {
		return waits, err
	}
	partitions := make([]int32, found[topic].Partitions)
	for p := range partitions {
		partitions[p] = int32(p)
	}
	committed, err := stableOffsets(ctx, cluster, log, map[string][]int32{topic: partitions})
	if err != nil {
		return waits, err
	}
	return restore.FindUnread(ctx, cluster, found[topic], committed, read)
}
