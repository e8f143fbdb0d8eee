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

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Topic is what the runtime has to know of one topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// Replicas is the least number of replicas of a partition.
	Replicas int
	// MaxMessageBytes is the largest record batch that the topic takes, 0 when the cluster did not
	// say.
	MaxMessageBytes int32
	// Compacted says that the topic refuses records without a key.
	Compacted bool
	// Deletes says that the topic deletes records with time, be it compacted or not.
	Deletes bool
	// DeleteRetention is how long a compacted topic keeps tombstones.
	DeleteRetention time.Duration
	// CompactionLag is how old records of a compacted topic are at least before they are compacted.
	CompactionLag time.Duration
	// Retention is how long a topic that deletes keeps records, by their timestamps; 0 is for ever,
	// or not known.
	Retention time.Duration
}

// Layout holds every topic of a topology by name.
type Layout map[string]Topic

// RoundsTopic is the name of the application's topic for filler records, commit metadata that are
// too large, and positions at shutdown.
func RoundsTopic(application string) string { return application + "-rounds" }

// Options are about the internal topics.
type Options struct {
	// Replicas is how many replicas they are created with and have at least; 0 leaves it to the
	// cluster.
	Replicas int16
	// InSyncMin is the min.insync.replicas that they are created with and have at least; 0 leaves
	// it to the cluster.
	InSyncMin int
	// AsRounds creates them with what the rounds topic has of both, and compares what is there with
	// neither. It is for tools, which do not know how the application is configured: its starts
	// have made the rounds topic, or have found it to be good enough.
	AsRounds bool
}

// create are the options that internal topics are created with, where these are given and the
// rounds topic is what was found of it.
func (o Options) create(rounds broker.TopicInfo) Options {
	if !o.AsRounds {
		return o
	}
	out := Options{Replicas: int16(rounds.Replicas)}
	if rounds.Settings["min.insync.replicas"].Own { // otherwise it follows the cluster's
		out.InSyncMin = int(number(rounds, "min.insync.replicas", 0))
	}
	return out
}

// Plan is what Check has found to be needed. It is not safe for concurrent use.
type Plan struct {
	topology *topology.Topology
	opts     Options
	external []string
	internal map[string]internalTopic
	// missing are the internal topics that Ensure has to create, and create what it creates them
	// with.
	missing []string
	create  Options
	// tolerated has the mismatches of the last look that a node tolerates.
	tolerated []*Mismatch
}

// Check verifies the user's topics, and the internal ones that are there. It changes nothing. That
// no user topic has the name of an internal one is the topology's own check.
func Check(ctx context.Context, c *broker.Cluster, t *topology.Topology, opts Options) (*Plan, error) {
	p := &Plan{topology: t, opts: opts, external: t.Topics()}
	found, err := p.look(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.internal)) {
		if _, ok := found[name]; !ok {
			p.missing = append(p.missing, name)
		}
	}
	return p, p.verify(found)
}

// Ensure creates the internal topics that Check has missed and verifies them.
func (p *Plan) Ensure(ctx context.Context, c *broker.Cluster) (Layout, error) {
	for _, name := range p.missing {
		w := p.internal[name]
		replicas := int16(-1)
		if p.create.Replicas > 0 {
			replicas = p.create.Replicas
		}
		if _, err := c.CreateTopic(ctx, name, w.partitions, replicas, w.configs); err != nil {
			return nil, fmt.Errorf("creating the %s %s: %w", w.use, name, err)
		}
	}
	found, err := p.waitForLeaders(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.permissions(c, found, nil), p.verify(found)); err != nil {
		return nil, err
	}
	return layoutOf(found), nil
}

// Missing are the internal topics that Check has missed, as Ensure would create them. They have no
// id yet.
func (p *Plan) Missing() Layout {
	layout := Layout{}
	for _, name := range p.missing {
		layout[name] = Topic{Name: name, Partitions: p.internal[name].partitions}
	}
	return layout
}

// Verify does again what Check and Ensure have done, and creates nothing: a topic that was there in
// before and is gone, or is another one of that name, is an error. A topic that is only written may
// be another one: neither state nor offsets depend on it. The answer is that of one broker, see
// ErrAbsent.
func (p *Plan) Verify(ctx context.Context, c *broker.Cluster, before Layout) (Layout, error) {
	found, err := p.look(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name].Settings == nil { // nothing would be known to be wrong with it
			return nil, fmt.Errorf("the configuration of topic %s is not known at the moment", name)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch now, ok := found[name]; {
		case !ok:
			errs = append(errs, &Mismatch{Topic: name, Use: p.use(name), Setting: "existence", Found: "deleted", Needed: "there",
				deleted: true, Remedy: "it was deleted while the application ran; state and offsets may not fit the topics any more"})
		case now.ID != before[name].ID && !p.written(name):
			errs = append(errs, &Mismatch{Topic: name, Use: p.use(name), Setting: "topic id", Found: fmt.Sprintf("%x", now.ID),
				Needed: fmt.Sprintf("%x", before[name].ID),
				Remedy: "it was deleted and recreated while the application ran; state and offsets may not fit it any more"})
		}
	}
	if err := errors.Join(append(errs, p.verify(found))...); err != nil {
		return nil, err
	}
	return layoutOf(found), nil
}

// written reports whether neither state nor offsets of a task depend on a topic: an output, that of
// dead letters, or that of a global table, which is rebuilt.
func (p *Plan) written(name string) bool {
	if _, internal := p.internal[name]; internal || !slices.Contains(p.external, name) {
		return false
	}
	for _, sub := range p.topology.Subtopologies() {
		if slices.ContainsFunc(sub.Sources, func(s graph.Source) bool { return s.Topic == name }) {
			return false
		}
	}
	return true
}

// look describes every topic, checks permissions and the user's topics, and works out what the
// internal ones have to be.
func (p *Plan) look(ctx context.Context, c *broker.Cluster) (map[string]broker.TopicInfo, error) {
	found, hidden, err := c.Topics(ctx, p.names())
	if err != nil {
		return nil, err
	}
	if err := p.permissions(c, found, hidden); err != nil {
		return nil, err
	}
	var missing []string
	counts := map[string]int32{}
	for _, name := range p.external {
		if topic, ok := found[name]; ok {
			counts[name] = topic.Partitions
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, &Mismatch{Topic: strings.Join(missing, ", "), missing: true, Remedy: suggested(counts)}
	}
	resolved, err := resolve(p.topology, counts, found)
	if err != nil {
		return nil, &Mismatch{err: err}
	}
	p.create = p.opts.create(found[RoundsTopic(p.topology.Application())])
	p.internal = internalTopics(p.topology, counts, resolved, found, p.create)
	return found, nil
}

// suggested says how many partitions missing topics could have, where other topics of the user are
// there.
func suggested(counts map[string]int32) string {
	if len(counts) == 0 {
		return ""
	}
	most := slices.Max(slices.Collect(maps.Values(counts)))
	return fmt.Sprintf(", for example each with --partitions %d, as the topics that are there", most)
}

func (p *Plan) names() []string {
	names := append(slices.Clone(p.external), p.topology.InternalTopics()...)
	return append(names, RoundsTopic(p.topology.Application()))
}

// permissions returns an error that names every permission on a topic that is missing. For a topic
// that does not exist the brokers say only that it is not hidden.
func (p *Plan) permissions(c *broker.Cluster, found map[string]broker.TopicInfo, hidden []string) error {
	missing := missingPermissions(p.topology, found, hidden)
	if len(missing) == 0 {
		return nil
	}
	return c.Denied(missing)
}

// missingPermissions lists the permissions that a topology needs on topics and that are known to be
// missing.
func missingPermissions(t *topology.Topology, found map[string]broker.TopicInfo, hidden []string) (missing []broker.Permission) {
	for _, need := range Needs(t) {
		info, ok := found[need.Name]
		switch {
		case need.Resource != broker.TopicResource || need.Operation == broker.Create || need.Prefix:
		case slices.Contains(hidden, need.Name), ok && !slices.Contains(info.Allowed, need.Operation):
			missing = append(missing, need.Permission)
		}
	}
	return missing
}

// waitForLeaders returns once every topic is known with a leader for each partition and its
// configuration: a produce before that would wait for the client's next refresh of its metadata.
func (p *Plan) waitForLeaders(ctx context.Context, c *broker.Cluster) (map[string]broker.TopicInfo, error) {
	return awaitTopics(ctx, c, p.names(), func(found map[string]broker.TopicInfo, hidden []string) (waiting string, err error) {
		for _, name := range p.names() {
			if info, ok := found[name]; !ok || !info.Led || info.Settings == nil {
				waiting = name
			}
		}
		return waiting, p.permissions(c, found, hidden)
	})
}

// awaitTopics describes topics until judge names none of them that it waits for.
func awaitTopics(
	ctx context.Context, c *broker.Cluster, names []string, judge func(found map[string]broker.TopicInfo, hidden []string) (string, error),
) (map[string]broker.TopicInfo, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		found, hidden, err := c.Topics(ctx, names)
		if err != nil {
			return nil, err
		}
		waiting, err := judge(found, hidden)
		if err != nil {
			return nil, err
		}
		if waiting == "" {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a leader of topic %s: %w", waiting, ctx.Err())
		case <-tick.C:
		}
	}
}

// replicatedBrokers is how many brokers a cluster has whose topics are expected to have replicas.
const replicatedBrokers = 3

// Unreplicated returns the internal topics that have one replica on a cluster of that many brokers,
// sorted; none where it is too small for more.
func (l Layout) Unreplicated(t *topology.Topology, brokers int) []string {
	if brokers < replicatedBrokers {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(slices.Values(append(t.InternalTopics(), RoundsTopic(t.Application())))), func(name string) bool {
		return l[name].Replicas != 1
	})
}

// KeepChangelog is the remedy for a changelog of DeletedByClock.
const KeepChangelog = "set retention.ms of the topic to -1 (kafka-configs.sh --alter): the application deletes expired records"

// DeletedByClock returns the changelogs whose records the brokers delete by their clock, with the
// time that they keep them. Rows expire by the stream time of their store: it can still need a
// record that the clock deletes. The runtime creates no such changelog.
func (l Layout) DeletedByClock(t *topology.Topology) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, sub := range t.Subtopologies() {
		for _, store := range sub.Restored() {
			if c := l[store.Topic()]; store.FromSource == nil && c.Deletes && c.Retention > 0 {
				out[c.Name] = c.Retention
			}
		}
	}
	return out
}

// Existing returns the topics of a topology that are there, whatever is wrong with them.
func Existing(ctx context.Context, c *broker.Cluster, t *topology.Topology) (Layout, error) {
	p := &Plan{topology: t, external: t.Topics()}
	found, _, err := c.Topics(ctx, p.names())
	if err != nil {
		return nil, err
	}
	return layoutOf(found), nil
}

// Describe returns what the runtime has to know of one topic, as the cluster describes it now.
func Describe(ctx context.Context, c *broker.Cluster, name string) (Topic, error) {
	found, _, err := c.Topics(ctx, []string{name})
	if err != nil {
		return Topic{}, err
	}
	if found[name].Settings == nil {
		return Topic{}, fmt.Errorf("the configuration of topic %s is not known at the moment", name)
	}
	return layoutOf(found)[name], nil
}

func layoutOf(found map[string]broker.TopicInfo) Layout {
	layout := Layout{}
	for name, info := range found {
		layout[name] = Topic{
			Name: name, ID: info.ID, Partitions: info.Partitions, Replicas: info.Replicas,
			MaxMessageBytes: int32(number(info, "max.message.bytes", 0)),
			Compacted:       strings.Contains(info.Settings["cleanup.policy"].Value, "compact"),
			Deletes:         strings.Contains(info.Settings["cleanup.policy"].Value, "delete"),
			CompactionLag:   time.Duration(number(info, "min.compaction.lag.ms", 0)) * time.Millisecond,
			DeleteRetention: time.Duration(number(info, "delete.retention.ms", 0)) * time.Millisecond,
			Retention:       time.Duration(max(number(info, "retention.ms", 0), 0)) * time.Millisecond,
		}
	}
	return layout
}

// number returns a setting, or missing if the cluster did not say.
func number(info broker.TopicInfo, setting string, missing int64) int64 {
	n, err := strconv.ParseInt(info.Settings[setting].Value, 10, 64)
	if err != nil {
		return missing
	}
	return n
}
