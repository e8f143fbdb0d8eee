package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// AbsentMax is how long a topic that was there is asked for before its absence is believed.
const AbsentMax = 15 * time.Second

// Kind is a kind of Problem, as metrics name it.
type Kind string

// The kinds of problems that a topic can have while the application runs.
const (
	Deleted      Kind = "deleted"
	Recreated    Kind = "recreated"
	NotPermitted Kind = "not_permitted"
	NotRead      Kind = "partitions_not_read"
)

// Problem is something that is wrong with a topic while the application runs.
type Problem struct {
	Topic string
	Kind  Kind
	// Unread is how many partitions no task reads; of NotRead only.
	Unread int32
	// Err says what is wrong and what to do.
	Err error
	// Stops says which tasks cannot go on: those of a subtopology that reads the topic or keeps its
	// state in it. Tasks that write to a topic stop when they do.
	Stops []string
}

// Watch compares what one broker says of the topics now with the layout that the application runs
// on. The answer can be old, apart from added partitions: before a caller believes the absence of a
// topic, it asks again.
func Watch(ctx context.Context, c *broker.Cluster, t *topology.Topology, known Layout) ([]Problem, error) {
	names := slices.Sorted(maps.Keys(known))
	found, hidden, err := c.TopicMetadata(ctx, names)
	if err != nil {
		return nil, err
	}
	uses, denied := usesOf(t), map[string][]broker.Permission{}
	for _, p := range missingPermissions(t, found, hidden) {
		denied[p.Name] = append(denied[p.Name], p)
	}
	now := maps.Clone(known)
	var problems []Problem
	for _, name := range names {
		use := uses[name]
		info, there := found[name]
		switch missing := denied[name]; {
		case len(missing) > 0:
			p := Problem{Topic: name, Kind: NotPermitted, Err: fmt.Errorf("%s %s: %w", use.name, name, c.Denied(missing))}
			if slices.ContainsFunc(missing, func(m broker.Permission) bool { return m.Operation == broker.Read }) {
				p.Stops = use.stops
			}
			problems = append(problems, p)
		case !there && use.matched:
			problems = append(problems, Problem{Topic: name, Kind: Deleted, Stops: use.stops, Err: fmt.Errorf("%s %s, which a pattern matches, was "+
				"deleted while the application ran; `onceward tasks resume` of one of its tasks goes on without it, and so does a restart", use.name, name)})
		case !there:
			problems = append(problems, Problem{Topic: name, Kind: Deleted, Stops: use.stops, Err: fmt.Errorf("%s %s was deleted while the "+
				"application ran; stop the application, create the topic again, and see what `onceward plan` says of its tasks", use.name, name)})
		case info.ID != known[name].ID && use.rebuilt: // without an operator
		case info.ID != known[name].ID:
			problems = append(problems, Problem{Topic: name, Kind: Recreated, Stops: use.stops, Err: fmt.Errorf("%s %s was deleted and "+
				"recreated while the application ran (its id was %x and is %x); stop the application, and see what `onceward plan` says of its tasks",
				use.name, name, known[name].ID, info.ID)})
		default:
			topic := now[name]
			topic.Partitions = info.Partitions
			now[name] = topic
		}
	}
	return append(problems, now.NotRead(t)...), nil
}

// NotRead returns the inputs of which no task reads some partitions.
func (l Layout) NotRead(t *topology.Topology) []Problem {
	unassigned := l.Unassigned(t)
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(unassigned)) {
		all, n := l[name].Partitions, unassigned[name]
		problems = append(problems, Problem{Topic: name, Kind: NotRead, Unread: n, Err: fmt.Errorf("input %s has %d partitions, and %d of them are "+
			"read: %s", name, all, all-n, l.whyNotRead(t, name))})
	}
	return problems
}

// whyNotRead says what keeps partitions of an input from being read, and what to do.
func (l Layout) whyNotRead(t *topology.Topology, input string) string {
	for _, sub := range t.Subtopologies() {
		if !slices.ContainsFunc(sub.Sources, func(src graph.Source) bool { return src.Topic == input }) {
			continue
		}
		if len(sub.Restored()) > 0 {
			return fmt.Sprintf("the state of subtopology %s was made for that many, and keys have moved to the others; copy the topic by key into "+
				"a new one, and read that under another application id", sub.Name)
		}
	}
	return "another input that is read together with it has fewer; give all of them the same number (kafka-topics.sh --alter --partitions)"
}

// use is what a topic is for.
type use struct {
	name string
	// stops are the subtopologies whose tasks cannot go on without it.
	stops []string
	// rebuilt says that the rows of another topic of that name replace those of this one.
	rebuilt bool
	// matched says that a source by pattern reads the topic.
	matched bool
}

// usesOf returns what the topics of a topology are for.
func usesOf(t *topology.Topology) map[string]use {
	uses := map[string]use{RoundsTopic(t.Application()): {name: useRounds}}
	if dead := t.DeadLetterTopic(); dead != "" {
		uses[dead] = use{name: useDeadLetters}
	}
	for _, table := range t.GlobalTables() {
		uses[table.Topic()] = use{name: useGlobalTable, rebuilt: true}
	}
	for _, sink := range t.SinkTopics() {
		if _, known := uses[sink]; !known {
			uses[sink] = use{name: useOutput}
		}
	}
	for _, sub := range t.Subtopologies() {
		needs := func(topic, name string, matched bool) {
			before := uses[topic]
			uses[topic] = use{name: name, stops: append(before.stops, sub.Name), matched: before.matched || matched}
		}
		for _, store := range sub.Restored() {
			if store.FromSource == nil {
				needs(store.ChangelogTopic, useChangelog, false)
			}
		}
		for _, src := range sub.Sources {
			name := useInput
			if src.Repartition {
				name = useRepartition
			}
			needs(src.Topic, name, src.Pattern != "")
		}
	}
	return uses
}
