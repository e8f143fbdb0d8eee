package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
)

// Topology is a validated graph of nodes: what to compute, for any number of tasks and runtimes. It never
// changes and is safe for concurrent use.
type Topology struct {
	name        string
	pos         position
	application string
	deadLetters string
	stacks      bool
	policies    [classes]Policy
	// subtopologies are sorted by name.
	subtopologies []*subtopology
	fingerprint   string
}

// Name returns the name given to [NewBuilder].
func (t *Topology) Name() string { return t.name }

// Application returns the application id: the name of the topology unless WithApplication has changed it.
func (t *Topology) Application() string { return t.application }

// WithApplication returns the topology under another application id, and so with other names for its
// internal topics. Two applications share nothing: that is how a next version runs beside the old one.
func (t *Topology) WithApplication(id string) (*Topology, error) {
	other := *t
	other.application = id
	if err := checkName(id); err != nil {
		return nil, fmt.Errorf("topology %s: application id: %w", t.name, err)
	}
	var errs []error
	for _, m := range other.checkInternalNames() {
		errs = append(errs, m)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("topology %s as application %s: %w", t.name, id, err)
	}
	return &other, nil
}

// DeadLetterTopic returns the topic for dead letters, empty if there is none.
func (t *Topology) DeadLetterTopic() string { return t.deadLetters }

// Subtopology is a part of a topology that shares no record and no store with the others except through
// topics. A task is one partition of a subtopology.
type Subtopology struct {
	// Name is the alphabetically first name among its source topics and repartitionings, as the user gave
	// them. So it does not change when other parts of the topology do. A new source with an earlier name
	// changes it, and with it the names of the tasks, but not those of changelogs.
	Name string
	// Sources are sorted by topic. All of them have the same number of partitions.
	Sources []Source
	// Stores are sorted by name.
	Stores []StoreInfo
	// Sinks are the topics that are written, repartition topics included and the dead-letter topic not,
	// sorted.
	Sinks []string
}

// Source is a topic that a subtopology reads.
type Source struct {
	// Topic is the name on the cluster.
	Topic string
	// Repartition says that the topic is internal, and written by this topology.
	Repartition bool
	// Delay is how long a record waits after its timestamp before it is processed: above 0 for a delayed retry topic,
	// which is a repartition topic that the subtopology itself writes.
	Delay time.Duration
	// Start says where a new application starts. It is Earliest for a repartition topic.
	Start Start
	// ParkStore is the store in which records of the source wait, and ParkChangelog its changelog on the cluster. The subtopology has that
	// store only with [ParkKeys]; it is named without as well, so that what waits since there was one is found. Both are empty for a
	// delayed retry topic, and where the changelog would have a longer name than Kafka allows, so that there never was one.
	ParkStore, ParkChangelog string
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}

// StoreInfo is a store of a subtopology.
type StoreInfo struct {
	// Name is the stable name of the store.
	Name string
	// ChangelogTopic is the name of its changelog on the cluster, which has as many partitions as the sources; empty if it has none.
	ChangelogTopic string
	// RestoredFrom is the source topic that a store without a changelog is restored from, see [RestoreFromTopic], and FromSource makes rows
	// of its records. They are empty and nil for a store that has a changelog.
	RestoredFrom string
	FromSource   *SourceRows
	// Layout says what its rows and its changelog records look like.
	Layout state.Layout
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}

// Declarations returns the stores as a database is told of them.
func (s Subtopology) Declarations() []state.Declaration {
	declared := make([]state.Declaration, len(s.Stores))
	for i, store := range s.Stores {
		declared[i] = state.Declaration{Name: store.Name, Layout: store.Layout}
	}
	return declared
}

// Subtopologies returns the subtopologies, sorted by name. The caller may change the result.
func (t *Topology) Subtopologies() []Subtopology {
	subs := make([]Subtopology, len(t.subtopologies))
	for i, s := range t.subtopologies {
		subs[i] = Subtopology{Name: s.name, Sinks: t.sinkTopics(s)}
		for _, n := range s.sources {
			src := Source{
				Topic:       n.topic.on(t.application),
				Repartition: n.topic.repartition,
				Delay:       n.delay,
				Start:       n.start,
				KeyFormat:   n.topic.formats.key,
				ValueFormat: n.topic.formats.value,
			}
			if changelog := t.changelog(n.topic.parkStore()); n.of == nil && checkInternalLength(changelog) == nil {
				src.ParkStore, src.ParkChangelog = n.topic.parkStore(), changelog
			}
			subs[i].Sources = append(subs[i].Sources, src)
		}
		slices.SortFunc(subs[i].Sources, func(a, b Source) int { return strings.Compare(a.Topic, b.Topic) })
		for _, store := range s.stores {
			subs[i].Stores = append(subs[i].Stores, StoreInfo{
				Name:           store.name,
				ChangelogTopic: t.changelogOf(s, store.name),
				RestoredFrom:   t.restoredFrom(s, store.name),
				FromSource:     s.rowsOf(store.name),
				Layout:         store.layout,
				KeyFormat:      store.formats.key,
				ValueFormat:    store.formats.value,
			})
		}
	}
	return subs
}

// Topic returns the topic that the store is restored from: its changelog, or else the source topic.
func (s StoreInfo) Topic() string { return cmp.Or(s.ChangelogTopic, s.RestoredFrom) }

// ChangelogTopic returns the name of a store's changelog on the cluster.
func ChangelogTopic(application, store string) string {
	return application + "-" + store + changelogSuffix
}

func (t *Topology) changelog(store string) string { return ChangelogTopic(t.application, store) }

func (t *Topology) sinkTopics(s *subtopology) []string {
	var topics []string
	for _, n := range s.nodes {
		if n.kind == sinkNode || n.of != nil {
			topics = append(topics, n.topic.on(t.application))
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// InternalTopics returns the changelogs and repartition topics, sorted. The topic of the rounds, which
// belongs to the runtime, is not among them.
func (t *Topology) InternalTopics() []string {
	var topics []string
	for _, s := range t.subtopologies {
		for _, store := range s.stores {
			if s.rowsOf(store.name) == nil {
				topics = append(topics, t.changelog(store.name))
			}
		}
		for _, n := range s.sources {
			if n.topic.repartition {
				topics = append(topics, n.topic.on(t.application))
			}
		}
	}
	slices.Sort(topics)
	return topics
}

// Topics returns the topics that are not internal, sorted: sources, sinks and the dead-letter topic. They
// have to exist before the topology runs.
func (t *Topology) Topics() []string {
	var topics []string
	if t.deadLetters != "" {
		topics = append(topics, t.deadLetters)
	}
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			if n.kind != processorNode && !n.topic.repartition {
				topics = append(topics, n.topic.name)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (t *Topology) subtopology(name string) (*subtopology, bool) {
	for _, s := range t.subtopologies {
		if s.name == name {
			return s, true
		}
	}
	return nil, false
}
