package topics

import (
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Need is a permission and what it is for.
type Need struct {
	broker.Permission
	Why string
}

// inputOperations are what reading an input takes.
var inputOperations = []broker.Operation{broker.Read, broker.DescribeConfigs}

// Needs lists every permission that running a topology takes, and no other. Create is not needed
// where the internal topics are there already. A source by pattern needs them on every topic with
// the prefix of its pattern. One that is missing there only leaves a topic out: see [Bind].
func Needs(t *topology.Topology) []Need {
	app := t.Application()
	needs := []Need{
		{broker.Permission{Operation: broker.Read, Resource: broker.GroupResource, Name: app}, "membership and offsets"},
		{broker.Permission{
			Operation: broker.Write, Resource: broker.TransactionalIDResource, Name: broker.TransactionalPrefix(app), Prefix: true,
		}, "transactions of all instances"},
	}
	seen := map[broker.Permission]bool{}
	add := func(topic, why string, operations ...broker.Operation) {
		for _, op := range operations {
			p := broker.Permission{Operation: op, Resource: broker.TopicResource, Name: topic}
			if !seen[p] {
				seen[p] = true
				needs = append(needs, Need{p, why})
			}
		}
	}
	internal := map[string]bool{}
	for _, topic := range t.InternalTopics() {
		internal[topic] = true
	}
	for _, p := range t.Patterns() {
		for _, op := range inputOperations {
			permission := broker.Permission{Operation: op, Resource: broker.TopicResource, Name: p.Prefix, Prefix: true}
			if p.Prefix == "" {
				permission.Name, permission.Prefix = "*", false // every topic, in Kafka's words
			}
			if !seen[permission] {
				seen[permission] = true
				needs = append(needs, Need{permission, "inputs of the source by pattern " + p.Name})
			}
		}
	}
	for _, sub := range t.Subtopologies() {
		for _, src := range sub.Sources {
			if !src.Repartition {
				add(src.Topic, useInput, inputOperations...)
			}
		}
	}
	for _, sink := range t.SinkTopics() {
		if !internal[sink] {
			add(sink, useOutput, broker.Write, broker.DescribeConfigs)
		}
	}
	for _, table := range t.GlobalTables() {
		add(table.Topic(), useGlobalTable, broker.Read, broker.DescribeConfigs)
	}
	if dead := t.DeadLetterTopic(); dead != "" {
		add(dead, "dead letters", broker.Write, broker.DescribeConfigs)
	}
	own := []broker.Operation{broker.Create, broker.DescribeConfigs, broker.Read, broker.Write}
	for _, sub := range t.Subtopologies() {
		for _, store := range sub.Restored() {
			if store.FromSource != nil {
				continue // an input
			}
			add(store.ChangelogTopic, "changelog", own...)
			if store.Layout.Segmented() {
				add(store.ChangelogTopic, "changelog, to delete expired records", broker.Delete)
			}
		}
		for _, src := range sub.Sources {
			if src.Repartition {
				add(src.Topic, "repartition topic", own...)
				add(src.Topic, "repartition topic, to delete committed records", broker.Delete)
			}
		}
	}
	add(RoundsTopic(app), "rounds topic", own...)
	return needs
}

// RepairNeeds lists what finding and repairing hanging transactions takes beyond Needs.
func RepairNeeds(t *topology.Topology) []Need {
	running := map[broker.Permission]bool{}
	for _, n := range Needs(t) {
		running[n.Permission] = true
	}
	var needs []Need
	for _, topic := range append(t.Topics(), broker.OffsetsTopic) {
		p := broker.Permission{Operation: broker.Read, Resource: broker.TopicResource, Name: topic}
		if !running[p] {
			needs = append(needs, Need{p, "to see its open transactions and its markers"})
		}
	}
	return append(needs, Need{
		broker.Permission{Operation: broker.Describe, Resource: broker.TopicResource, Name: broker.TransactionsTopic},
		"to see that no coordinator is away",
	}, Need{
		broker.Permission{Operation: broker.ClusterAction, Resource: broker.ClusterResource, Name: broker.ClusterName}, "to write markers",
	})
}
