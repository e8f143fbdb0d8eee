package topics

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// NewTopic is a missing topic, as it is created.
type NewTopic struct {
	// Name is its name and Use what it is for.
	Name, Use  string
	Partitions int32
	// Because says what the number of partitions follows from.
	Because string
	// Replicas is their number, 0 for the cluster's default.
	Replicas int16
	// Settings are those that the topology needs; the cluster's defaults apply to all others.
	Settings map[string]string
}

// CreateOptions say which topics are created, and how.
type CreateOptions struct {
	// Names are the user's topics to create; none are all that are missing.
	Names []string
	// Partitions is their number of partitions where it does not follow from other topics; 0 is no
	// number.
	Partitions int32
	// Internal creates internal topics too.
	Internal bool
	// Options are for all created topics. Without them internal topics are as the rounds topic, if
	// that exists.
	Options
}

// CreateError says why topics cannot be created as the options ask. Nothing was created.
type CreateError struct{ Reason string }

func (e *CreateError) Error() string { return "creating topics: " + e.Reason }

func cannotCreate(format string, args ...any) error {
	return &CreateError{fmt.Sprintf(format, args...)}
}

// Prospect returns the missing topics of a topology as [Create] makes them: the user's in the order
// of their names, then the internal ones. It changes nothing. The number of partitions of a topic
// follows from the first of these that there is:
//
//	topic              number of partitions
//	input              that of the changelogs of its subtopology; that of another source of its subtopology; Partitions
//	every other one    Partitions; the largest of the inputs
//	internal           as for a start
func Prospect(ctx context.Context, c *broker.Cluster, t *topology.Topology, o CreateOptions) ([]NewTopic, error) {
	p := &Plan{topology: t, opts: o.Options, external: t.Topics()}
	for _, name := range o.Names {
		if !slices.Contains(p.external, name) {
			return nil, cannotCreate("topology %s has no topic %s; it has %s", t.Name(), name, strings.Join(p.external, ", "))
		}
	}
	found, hidden, err := c.Topics(ctx, p.names())
	if err != nil {
		return nil, err
	}
	if len(hidden) > 0 {
		return nil, c.Denied(describing(hidden))
	}
	counts := map[string]int32{}
	for _, name := range p.external {
		if info, there := found[name]; there {
			counts[name] = info.Partitions
		}
	}
	topics, err := p.newTopics(found, counts, o)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(p.external), func(name string) bool { return counts[name] > 0 })
	switch {
	case len(missing) > 0 && o.Internal:
		return nil, cannotCreate("internal topics need all topics of the user, and %s would still be missing", strings.Join(missing, ", "))
	case len(missing) > 0:
		return topics, nil
	}
	resolved, err := resolve(t, counts, found)
	if err != nil {
		return nil, cannotCreate("%v", err)
	}
	if !o.Internal {
		return topics, nil
	}
	as := o.Options
	if as.Replicas == 0 && as.InSyncMin == 0 {
		as = Options{AsRounds: true}.create(found[RoundsTopic(t.Application())])
	}
	internal := internalTopics(t, counts, resolved, found, as)
	for _, name := range slices.Sorted(maps.Keys(internal)) {
		if _, there := found[name]; there {
			continue
		}
		w := internal[name]
		n := NewTopic{Name: name, Use: w.use, Partitions: w.partitions, Because: "as for a start", Replicas: as.Replicas,
			Settings: map[string]string{}}
		for key, value := range w.configs {
			n.Settings[key] = *value
		}
		topics = append(topics, n)
	}
	return topics, nil
}

// describing are the permissions to see topics.
func describing(topics []string) (needed []broker.Permission) {
	for _, name := range topics {
		needed = append(needed, broker.Permission{Operation: broker.Describe, Resource: broker.TopicResource, Name: name})
	}
	return needed
}

// newTopics returns the missing topics of the user that are to be created, and notes their numbers
// of partitions in counts.
func (p *Plan) newTopics(found map[string]broker.TopicInfo, counts map[string]int32, o CreateOptions) (topics []NewTopic, err error) {
	wanted := func(name string) bool {
		return counts[name] == 0 && (len(o.Names) == 0 || slices.Contains(o.Names, name))
	}
	var open []string // whose number follows from nothing
	add := func(name, use string, partitions int32, because string) {
		if partitions == 0 {
			open = append(open, name)
			return
		}
		counts[name] = partitions
		topics = append(topics, NewTopic{Name: name, Use: use, Partitions: partitions, Because: because, Replicas: o.Replicas,
			Settings: p.settingsOf(name, o.Options)})
	}
	largest, inputs := "", map[string]bool{}
	for _, sub := range p.topology.Subtopologies() {
		n, because := tasksOf(sub, found), "as the changelogs of "+sub.Name
		if n == 0 {
			n, because = partitionsBeside(sub, found)
		}
		if n == 0 {
			n, because = o.Partitions, asAsked
		}
		for _, src := range sub.Sources {
			if src.Repartition {
				continue
			}
			inputs[src.Topic] = true
			if wanted(src.Topic) {
				add(src.Topic, useInput, n, because)
			}
			if counts[src.Topic] > counts[largest] {
				largest = src.Topic
			}
		}
	}
	for _, name := range p.external {
		if inputs[name] || !wanted(name) {
			continue
		}
		n, because := o.Partitions, asAsked
		if n == 0 {
			n, because = counts[largest], "as the input "+largest
		}
		add(name, p.useOf(name), n, because)
	}
	if len(open) > 0 {
		slices.Sort(open)
		return nil, cannotCreate("the number of partitions of %s follows from no other topic: choose it (--partitions); it cannot change once there is state",
			strings.Join(open, ", "))
	}
	slices.SortFunc(topics, func(a, b NewTopic) int { return cmp.Compare(a.Name, b.Name) })
	return topics, nil
}

// asAsked is why a topic has CreateOptions.Partitions.
const asAsked = "as asked"

// partitionsBeside returns the number of partitions of a source that exists; 0 if none does. A task
// reads the same partition of each source of its subtopology.
func partitionsBeside(sub graph.Subtopology, found map[string]broker.TopicInfo) (n int32, because string) {
	for _, src := range sub.Sources {
		if there := found[src.Topic].Partitions; there > 0 {
			return there, "as " + src.Topic + ", which the same tasks read"
		}
	}
	return 0, ""
}

// useOf says what a topic of the user that is no input is for.
func (p *Plan) useOf(name string) string {
	for _, table := range p.topology.GlobalTables() {
		if table.Topic() == name {
			return useGlobalTable
		}
	}
	if name == p.topology.DeadLetterTopic() {
		return useDeadLetters
	}
	return useOutput
}

// kafkaRetention is Kafka's own default of retention.ms. Only a shorter one is set on created
// topics. All others follow the cluster's default.
const kafkaRetention = 7 * 24 * time.Hour

// settingsOf returns the settings without which the start would refuse a topic of the user.
func (p *Plan) settingsOf(name string, o Options) map[string]string {
	settings := map[string]string{}
	if o.InSyncMin > 0 {
		settings["min.insync.replicas"] = strconv.Itoa(o.InSyncMin)
	}
	for _, sub := range p.topology.Subtopologies() {
		for _, store := range sub.Stores {
			if store.FromSource == nil || store.RestoredFrom != name {
				continue
			}
			settings["cleanup.policy"] = "compact"
			for _, setting := range []string{"min.compaction.lag.ms", "delete.retention.ms"} {
				settings[setting] = strconv.FormatInt(deleteRetention.Milliseconds(), 10)
			}
		}
	}
	for _, w := range p.topology.DedupeWindows() {
		if w.Tolerated || !slices.Contains(w.Topics, name) || w.Retention >= kafkaRetention {
			continue
		}
		before, err := strconv.ParseInt(settings["retention.ms"], 10, 64)
		if limit := w.Retention.Milliseconds(); err != nil || limit < before {
			settings["retention.ms"] = strconv.FormatInt(limit, 10)
		}
	}
	return settings
}

// Create creates topics, and returns once the cluster knows them with a leader for each partition.
// A topic that exists stays as it is, and is not in created.
func Create(ctx context.Context, c *broker.Cluster, topics []NewTopic) (created []NewTopic, err error) {
	var names []string
	for _, n := range topics {
		configs := map[string]*string{}
		for key, value := range n.Settings {
			configs[key] = &value
		}
		made, err := c.CreateTopic(ctx, n.Name, n.Partitions, cmp.Or(n.Replicas, -1), configs)
		if err != nil {
			return created, fmt.Errorf("creating the %s %s: %w", n.Use, n.Name, err)
		}
		if made {
			created = append(created, n)
		}
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return nil, nil
	}
	_, err = awaitTopics(ctx, c, names, func(found map[string]broker.TopicInfo, _ []string) (waiting string, err error) {
		for _, name := range names {
			if info, there := found[name]; !there || !info.Led {
				waiting = name
			}
		}
		return waiting, nil
	})
	return created, err
}
