package txn

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/internal/topics"
)

// tellTolerated warns about inputs whose retention exceeds the dedupe window of a node. The program
// has accepted this, but operators read the log and not the program.
func (in *instance) tellTolerated() {
	for _, m := range in.plan.Tolerated() {
		in.app.log.Warn("the retention of an input exceeds the dedupe window", "topic", m.Topic, "finding", m.Error())
	}
}

// tellDeletedByClock warns about changelogs from which brokers may delete records that their stores
// still need.
func (in *instance) tellDeletedByClock() {
	deleted := in.layout.Load().DeletedByClock(in.app.topology)
	for _, topic := range slices.Sorted(maps.Keys(deleted)) {
		in.app.log.Warn("brokers delete records of a changelog by their clock, and the store still needs them where its stream time is behind",
			"topic", topic, "retention", deleted[topic], "remedy", topics.KeepChangelog)
	}
}

// tellUnreplicated warns about internal topics that would be lost with one broker.
func (in *instance) tellUnreplicated(ctx context.Context) {
	brokers, err := in.cluster.Brokers(ctx)
	if err != nil {
		in.app.log.Warn("cannot check the number of replicas of the internal topics", "error", err)
		return
	}
	if names := in.layout.Load().Unreplicated(in.app.topology, brokers); len(names) > 0 {
		in.app.log.Warn("internal topics have one replica, and the cluster has brokers for more: state is lost with one of them",
			"topics", strings.Join(names, ","), "brokers", brokers,
			"remedy", "add replicas (kafka-reassign-partitions.sh); for topics that are created, set InternalReplicas (--internal-replicas)")
	}
}
