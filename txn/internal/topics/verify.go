package topics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Mismatch is a topic that is not what the topology needs. The cluster was not changed because of
// it.
type Mismatch struct {
	// Topic is its name and Use what it is for.
	Topic, Use string
	// Setting is what does not fit, with the values that were found and are needed.
	Setting, Found, Needed string
	// Remedy says what to do.
	Remedy string

	missing, deleted bool
	err              error // of the topology, about the partitions of inputs
}

// ErrAbsent is wrapped by the Mismatch of a topic that was not in the cluster's answer. A broker
// can leave a topic out for a moment, while it catches up with the cluster's metadata. A caller
// that knows the topic asks again before it believes the answer.
var ErrAbsent = errors.New("a topic is not there")

// Is makes absence be found by ErrAbsent, also among other mismatches.
func (e *Mismatch) Is(target error) bool { return target == ErrAbsent && (e.missing || e.deleted) }

func (e *Mismatch) Error() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.missing:
		return fmt.Sprintf("topics that do not exist: %s: create them first (a start creates internal topics only, and `onceward topics create` all)%s", e.Topic, e.Remedy)
	}
	return fmt.Sprintf("%s %s: %s is %s and has to be %s: %s", e.Use, e.Topic, e.Setting, e.Found, e.Needed, e.Remedy)
}

// Unwrap returns the topology's own error, if that is the cause.
func (e *Mismatch) Unwrap() error { return e.err }

// internalTopic is an internal topic as it has to be.
type internalTopic struct {
	use        string
	partitions int32
	// partitionsMax is the largest number that a changelog may have: that of the inputs, read or
	// not.
	partitionsMax int32
	// configs are what it is created with.
	configs map[string]*string
	// policy is the only cleanup.policy that does no harm; the order of its parts does not matter.
	policy string
	// retentionMin is the least retention.ms of a changelog that deletes, where it is not -1,
	// compactionLagMin the least min.compaction.lag.ms of one that has a history; 0 for the others.
	retentionMin, compactionLagMin time.Duration
	// bytesMin is the least max.message.bytes.
	bytesMin int64
}

// The uses of topics, as an operator calls them.
const (
	useInput       = "input"
	useGlobalTable = "global table"
	useOutput      = "output"
	useDeadLetters = "dead-letter topic"
	useChangelog   = "changelog"
	useRepartition = "repartition topic"
	useRounds      = "rounds topic"
)

// deleteRetention is how long the changelogs that we create keep tombstones. The default of a day
// would make every instance that was away for longer restore in full.
const deleteRetention = 7 * 24 * time.Hour

// kafkaMessageBytes is Kafka's own default of max.message.bytes. Only a larger one is set on the
// topics that we create, so that others follow the cluster's default.
const kafkaMessageBytes = 1_048_588

// internalTopics returns the internal topics by name. external are the partitions of the other
// source topics, resolved those of all source topics as far as tasks read them.
func internalTopics(
	t *topology.Topology, external, resolved map[string]int32, found map[string]broker.TopicInfo, opts Options,
) map[string]internalTopic {
	largest := int64(0)
	for _, sub := range t.Subtopologies() {
		for _, src := range sub.Sources {
			if !src.Repartition {
				largest = max(largest, number(found[src.Topic], "max.message.bytes", 0))
			}
		}
	}
	topics := map[string]internalTopic{}
	add := func(name string, w internalTopic, settings map[string]string) {
		settings["cleanup.policy"], settings["message.timestamp.type"] = w.policy, "CreateTime"
		if opts.InSyncMin > 0 {
			settings["min.insync.replicas"] = strconv.Itoa(opts.InSyncMin)
		}
		if w.bytesMin > kafkaMessageBytes {
			settings["max.message.bytes"] = strconv.FormatInt(w.bytesMin, 10)
		}
		w.configs = map[string]*string{}
		for k, v := range settings {
			w.configs[k] = &v
		}
		topics[name] = w
	}
	compact := func() map[string]string {
		return map[string]string{"delete.retention.ms": strconv.FormatInt(deleteRetention.Milliseconds(), 10)}
	}
	add(RoundsTopic(t.Application()), internalTopic{use: useRounds, partitions: 1, policy: "compact"}, compact())
	for _, sub := range t.Subtopologies() {
		tasks, tasksMax := int32(0), int32(0)
		for _, src := range sub.Sources {
			tasks = max(tasks, resolved[src.Topic])
			tasksMax = max(tasksMax, resolved[src.Topic], external[src.Topic])
			if src.Repartition {
				add(src.Topic, internalTopic{use: useRepartition, partitions: resolved[src.Topic], policy: "delete", bytesMin: largest},
					map[string]string{"retention.ms": "-1", "retention.bytes": "-1"})
			}
		}
		for _, store := range sub.Restored() {
			if store.FromSource != nil {
				continue
			}
			w, settings := changelogOf(store.Layout), compact()
			w.partitions, w.partitionsMax, w.bytesMin = tasks, tasksMax, largest
			if w.retentionMin > 0 {
				// The brokers delete nothing by their clock, which can be ahead of the stream time
				// by any amount: the owner does, by the stream time.
				settings["retention.ms"], settings["retention.bytes"] = "-1", "-1"
			}
			if w.compactionLagMin > 0 {
				settings["min.compaction.lag.ms"] = strconv.FormatInt(w.compactionLagMin.Milliseconds(), 10)
			}
			add(store.ChangelogTopic, w, settings)
		}
	}
	return topics
}

// changelogSlack is how much longer than its store a changelog has to keep records if the brokers
// delete or compact by the clock. The store goes by stream time, and the clock is ahead of it.
// Kafka Streams allows a day as well.
const changelogSlack = 24 * time.Hour

// changelogOf returns how the changelog of a store is kept. The policy of stores whose rows expire
// includes delete, because a broker otherwise refuses to delete records for the owner. A history
// needs every version of a key for as long as it can be read, not only the last record.
func changelogOf(l state.Layout) internalTopic {
	w := internalTopic{use: useChangelog, policy: "compact"}
	retention := time.Duration(l.Retention)*time.Millisecond + changelogSlack
	switch {
	case l.Kind == state.VersionedKind:
		w.compactionLagMin = retention
	case l.Kind.Expires():
		w.policy, w.retentionMin = "compact,delete", retention
	}
	return w
}

// use says what a topic is for.
func (p *Plan) use(name string) string {
	if w, ok := p.internal[name]; ok {
		return w.use
	}
	return "topic"
}

// verify compares what was found with what is needed; topics that are not there yet are left out.
func (p *Plan) verify(found map[string]broker.TopicInfo) error {
	var errs []error
	written, restored := map[string]bool{p.topology.DeadLetterTopic(): true}, map[string]bool{}
	for _, sub := range p.topology.Subtopologies() {
		for _, store := range sub.Stores {
			restored[store.RestoredFrom] = store.FromSource != nil
		}
	}
	for _, sink := range p.topology.SinkTopics() {
		written[sink] = true
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		info := found[name]
		wrong := func(setting, found, needed, remedy string) {
			errs = append(errs, &Mismatch{
				Topic: name, Use: p.use(name), Setting: setting, Found: found, Needed: needed, Remedy: remedy,
			})
		}
		w, internal := p.internal[name]
		if internal || written[name] {
			verifyWritable(info, wrong)
		}
		if restored[name] {
			verifyRestorable(info, wrong)
		}
		if internal {
			w.verify(info, wrong)
			p.opts.verify(info, wrong)
		}
	}
	refused := p.verifyDedupeWindows(found)
	return errors.Join(append(errs, refused...)...)
}

// found tells a mismatch: setting, found, needed, remedy.
type found func(setting, found, needed, remedy string)

func verifyWritable(info broker.TopicInfo, wrong found) {
	if n := number(info, "min.insync.replicas", 0); int64(info.Replicas) < n {
		wrong("the number of replicas", strconv.Itoa(info.Replicas), fmt.Sprintf("at least min.insync.replicas, %d", n),
			"nothing could be written to it; add replicas or lower min.insync.replicas")
	}
}

// CompactionLagMin is the least min.compaction.lag.ms of a compacted topic that tables are restored
// from. An application that is behind by more cannot be restored on an empty disk, so it is longer
// than a restart takes; the right value is the longest outage to survive. It is the least
// delete.retention.ms too: a restore has to end before the topic removes the deletions that it has
// begun to read.
const CompactionLagMin = time.Hour

// verifyRestorable looks at a topic that tables are restored from.
func verifyRestorable(info broker.TopicInfo, wrong found) {
	const remedy = "a table is restored from the topic (RestoreFromTopic); " + change
	policy := info.Settings["cleanup.policy"].Value
	if strings.Contains(policy, "delete") {
		for _, setting := range []string{"retention.ms", "retention.bytes"} {
			if s, ok := info.Settings[setting]; ok && s.Value != "-1" {
				wrong(setting, s.Value, "-1, or cleanup.policy compact", remedy)
			}
		}
	}
	if strings.Contains(policy, "compact") {
		for _, setting := range []string{"min.compaction.lag.ms", "delete.retention.ms"} {
			if n := number(info, setting, 0); n < CompactionLagMin.Milliseconds() {
				wrong(setting, strconv.FormatInt(n, 10), fmt.Sprintf("at least %d", CompactionLagMin.Milliseconds()), remedy)
			}
		}
	}
}

// change is the remedy for a configuration.
const change = "change the topic's configuration (kafka-configs.sh --alter)"

func (w internalTopic) verify(info broker.TopicInfo, wrong found) {
	w.verifyPartitions(info, wrong)
	exactly := func(setting, needed, remedy string) {
		if s, ok := info.Settings[setting]; ok && s.Value != needed {
			wrong(setting, s.Value, needed, remedy)
		}
	}
	exactly("message.timestamp.type", "CreateTime", "the runtime keeps stream time in the timestamps; "+change)
	switch w.use {
	case useRepartition:
		exactly("cleanup.policy", w.policy, "compaction would drop records that are not processed yet; "+change)
		exactly("retention.ms", "-1", "records that are not processed yet would be deleted; "+change)
		exactly("retention.bytes", "-1", "records that are not processed yet would be deleted; "+change)
	default:
		if s, ok := info.Settings["cleanup.policy"]; ok && !samePolicy(s.Value, w.policy) {
			wrong("cleanup.policy", s.Value, w.policy, "state would be lost; "+change)
		}
		atLeast := func(setting, needed string, least time.Duration) {
			n := number(info, setting, least.Milliseconds())
			if n >= 0 && n < least.Milliseconds() {
				wrong(setting, strconv.FormatInt(n, 10), fmt.Sprintf(needed, least.Milliseconds()), "state would be lost; "+change)
			}
		}
		atLeast("retention.ms", "-1, or at least %d", w.retentionMin)
		atLeast("min.compaction.lag.ms", "at least %d", w.compactionLagMin)
		if w.retentionMin > 0 {
			exactly("retention.bytes", "-1", "state would be lost; "+change)
		}
	}
	if n := number(info, "max.message.bytes", w.bytesMin); n < w.bytesMin {
		wrong("max.message.bytes", strconv.FormatInt(n, 10), fmt.Sprintf("at least that of the inputs, %d", w.bytesMin),
			fmt.Sprintf("a record that comes in could not go on; kafka-configs.sh --alter --entity-type topics --entity-name %s --add-config "+
				"max.message.bytes=%d", info.Name, w.bytesMin))
	}
}

// verifyPartitions accepts a changelog with fewer partitions than the inputs: see resolve.
func (w internalTopic) verifyPartitions(info broker.TopicInfo, wrong found) {
	remedy := "another application uses the name; run this one under another application id"
	needed := w.partitions
	switch w.use {
	case useChangelog:
		if info.Partitions <= w.partitionsMax {
			return
		}
		needed = w.partitionsMax
		remedy = "the state was made for inputs with more partitions; give the inputs that many, or run the topology under another " +
			"application id"
	case useRepartition:
		remedy = "the topology asks for another number than before, by Partitions or by a topic that is read together with this one: " +
			"set the earlier number again, or use another application id"
	}
	if info.Partitions != needed {
		wrong("the number of partitions", strconv.Itoa(int(info.Partitions)), strconv.Itoa(int(needed)), remedy)
	}
}

// samePolicy compares cleanup policies, whose parts have no order.
func samePolicy(a, b string) bool {
	parts := func(s string) []string { return slices.Sorted(strings.SplitSeq(strings.ReplaceAll(s, " ", ""), ",")) }
	return slices.Equal(parts(a), parts(b))
}

func (o Options) verify(info broker.TopicInfo, wrong found) {
	if info.Replicas < int(o.Replicas) {
		wrong("the number of replicas", strconv.Itoa(info.Replicas), fmt.Sprintf("at least the configured %d", o.Replicas),
			"add replicas (kafka-reassign-partitions.sh) or change the setting")
	}
	n := number(info, "min.insync.replicas", 0)
	standard, _ := strconv.ParseInt(info.Settings["min.insync.replicas"].Default, 10, 64) // 0 if the cluster does not say
	switch {
	case n == 0:
	case n < int64(o.InSyncMin):
		wrong("min.insync.replicas", strconv.FormatInt(n, 10), fmt.Sprintf("at least the configured %d", o.InSyncMin), change)
	case n < standard:
		wrong("min.insync.replicas", strconv.FormatInt(n, 10), fmt.Sprintf("at least the cluster's default, %d", standard),
			"committed state could be lost with fewer brokers than other topics survive; "+change)
	}
}
