package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/topology"
)

// Topic is what the runtime has to know of one topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// MaxMessageBytes is the largest record batch that the topic takes, 0 when the cluster did not say.
	MaxMessageBytes int32
	// Compacted says that the topic refuses records without a key.
	Compacted bool
	// DeleteRetention is how long a compacted topic keeps tombstones.
	DeleteRetention time.Duration
}

// Layout holds every topic of a topology by name.
type Layout map[string]Topic

// RoundsTopic is the name of the application's topic for filler records and positions at shutdown.
func RoundsTopic(application string) string { return application + "-rounds" }

// deleteRetention is how long the changelogs that we create keep tombstones. The default of a day would make every instance that was
// away for longer restore in full.
const deleteRetention = 7 * 24 * time.Hour

// Plan is what Check has found to be there and to be needed.
type Plan struct {
	external []string
	wanted   map[string]wantedTopic
}

// Check verifies the user's topics: they exist, and their partitions fit together. It changes nothing.
func Check(ctx context.Context, adm *kadm.Client, t *topology.Topology) (*Plan, error) {
	have, err := describe(ctx, adm, externalTopics(t))
	if err != nil {
		return nil, err
	}
	var missing []string
	counts := map[string]int32{}
	for _, name := range externalTopics(t) {
		if topic, ok := have[name]; ok {
			counts[name] = topic.Partitions
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("topics that do not exist: %s: create them first (Onceward creates only its internal topics)",
			strings.Join(missing, ", "))
	}
	internal, err := t.ResolvePartitions(counts)
	if err != nil {
		return nil, err
	}
	return &Plan{externalTopics(t), internalTopics(t, counts, internal)}, nil
}

// Ensure creates the internal topics that are missing and verifies the others.
func (p *Plan) Ensure(ctx context.Context, adm *kadm.Client) (Layout, error) {
	if err := create(ctx, adm, p.wanted); err != nil {
		return nil, err
	}
	layout, err := waitForLeaders(ctx, adm, append(slices.Clone(p.external), slices.Sorted(maps.Keys(p.wanted))...))
	if err != nil {
		return nil, err
	}
	if err := verify(layout, p.wanted); err != nil {
		return nil, err
	}
	return layout, addConfigs(ctx, adm, layout)
}

// wantedTopic is an internal topic as it has to be.
type wantedTopic struct {
	partitions int32
	configs    map[string]*string
}

func internalTopics(t *topology.Topology, external, internal map[string]int32) map[string]wantedTopic {
	compact := map[string]*string{
		"cleanup.policy":         kadm.StringPtr("compact"),
		"delete.retention.ms":    kadm.StringPtr(strconv.FormatInt(deleteRetention.Milliseconds(), 10)),
		"message.timestamp.type": kadm.StringPtr("CreateTime"),
	}
	keep := map[string]*string{
		"cleanup.policy":         kadm.StringPtr("delete"),
		"retention.ms":           kadm.StringPtr("-1"),
		"message.timestamp.type": kadm.StringPtr("CreateTime"),
	}
	wanted := map[string]wantedTopic{RoundsTopic(t.Application()): {1, compact}}
	for _, sub := range t.Subtopologies() {
		tasks := int32(0)
		for _, src := range sub.Sources {
			tasks = max(tasks, external[src.Topic], internal[src.Topic])
			if src.Repartition {
				wanted[src.Topic] = wantedTopic{internal[src.Topic], keep}
			}
		}
		for _, store := range sub.Stores {
			wanted[store.ChangelogTopic] = wantedTopic{tasks, compact}
		}
	}
	return wanted
}

// externalTopics are those that the user owns: sources, sinks and the dead-letter topic.
func externalTopics(t *topology.Topology) []string {
	internal := map[string]bool{}
	names := map[string]bool{}
	for _, sub := range t.Subtopologies() {
		for _, src := range sub.Sources {
			if src.Repartition {
				internal[src.Topic] = true
			}
			names[src.Topic] = true
		}
		for _, sink := range sub.Sinks {
			names[sink] = true
		}
	}
	if dl := t.DeadLetterTopic(); dl != "" {
		names[dl] = true
	}
	for name := range internal {
		delete(names, name)
	}
	return slices.Sorted(maps.Keys(names))
}

func describe(ctx context.Context, adm *kadm.Client, names []string) (Layout, error) {
	details, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("asking for topics: %w", err)
	}
	out := Layout{}
	for _, d := range details {
		switch {
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			continue
		case d.Err != nil && !errors.Is(d.Err, kerr.LeaderNotAvailable):
			return nil, fmt.Errorf("asking for topic %s: %w", d.Topic, d.Err)
		}
		out[d.Topic] = Topic{Name: d.Topic, ID: d.ID, Partitions: int32(len(d.Partitions))}
	}
	return out, nil
}

func create(ctx context.Context, adm *kadm.Client, wanted map[string]wantedTopic) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[name]
		resp, err := adm.CreateTopic(ctx, w.partitions, -1, w.configs, name)
		if err == nil {
			err = resp.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("creating internal topic %s: %w", name, err)
		}
	}
	return nil
}

// waitForLeaders returns once every topic is known with a leader for each partition: a produce before that would wait for the
// client's next refresh of its metadata.
func waitForLeaders(ctx context.Context, adm *kadm.Client, names []string) (Layout, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		details, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return nil, fmt.Errorf("waiting for topics: %w", err)
		}
		out, waiting := Layout{}, ""
		for _, name := range names {
			d, ok := details[name]
			if !ok || d.Err != nil || len(d.Partitions) == 0 {
				waiting = name
				break
			}
			for _, p := range d.Partitions {
				if p.Err != nil || p.Leader < 0 {
					waiting = name
				}
			}
			out[name] = Topic{Name: name, ID: d.ID, Partitions: int32(len(d.Partitions))}
		}
		if waiting == "" {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a leader of topic %s: %w", waiting, ctx.Err())
		case <-tick.C:
		}
	}
}

func verify(layout Layout, wanted map[string]wantedTopic) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if got, want := layout[name].Partitions, wanted[name].partitions; got != want {
			return fmt.Errorf("internal topic %s has %d partitions and the topology needs %d: the inputs were repartitioned, or "+
				"another application uses the name; nothing was changed", name, got, want)
		}
	}
	return nil
}

// addConfigs reads what of the configuration the runtime relies on, and refuses an internal topic that would lose state.
func addConfigs(ctx context.Context, adm *kadm.Client, layout Layout) error {
	configs, err := adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(layout))...)
	if err != nil {
		return fmt.Errorf("asking for topic configurations: %w", err)
	}
	for _, rc := range configs {
		if rc.Err != nil {
			return fmt.Errorf("asking for the configuration of %s: %w", rc.Name, rc.Err)
		}
		topic := layout[rc.Name]
		for _, c := range rc.Configs {
			switch c.Key {
			case "max.message.bytes":
				if n, err := strconv.ParseInt(c.MaybeValue(), 10, 32); err == nil {
					topic.MaxMessageBytes = int32(n)
				}
			case "delete.retention.ms":
				if n, err := strconv.ParseInt(c.MaybeValue(), 10, 64); err == nil {
					topic.DeleteRetention = time.Duration(n) * time.Millisecond
				}
			case "cleanup.policy":
				topic.Compacted = strings.Contains(c.MaybeValue(), "compact")
				if strings.HasSuffix(rc.Name, "-changelog") && !topic.Compacted {
					return fmt.Errorf("changelog %s has cleanup.policy %q and needs compact: state would be lost; change the "+
						"topic's configuration", rc.Name, c.MaybeValue())
				}
			}
		}
		layout[rc.Name] = topic
	}
	return nil
}
