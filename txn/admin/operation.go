package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/waits"
)

// operation is one action under way. It belongs to one goroutine.
type operation struct {
	client   *Client
	topology *topology.Topology
	cluster  *broker.Cluster
	layout   topics.Layout
	restorer *restore.Restorer
	starts   *broker.Starts
	tasks    []target
	// coming are the inputs among the internal topics that a dry run does not create. They are in
	// the layout, and hold nothing.
	coming topics.Layout
	// withoutParked and mode are those of the options.
	withoutParked bool
	mode          *topology.Mode
	// kept are the positions that clean stops have left in the rounds topic, by task; nil until
	// they are needed.
	kept map[string]string
	// modes are those that the last known commits of the application's tasks say; nil until they
	// are needed.
	modes []topology.Mode
}

// target is a task to act on.
type target struct {
	id  graph.TaskID
	sub graph.Subtopology
}

// sight is what was found of a task.
type sight struct {
	restore.Sight
	target
	// bounds are those of the logs of its inputs.
	bounds []bounds
}

type bounds struct{ start, end int64 }

// reportAfter is how long a wait for another producer's transaction lasts before it is reported,
// and then again: the runtime's transaction timeout and a margin.
const reportAfter = 25 * time.Second

// newWaits returns what reports the waits of a tool.
func newWaits(c *broker.Cluster, log *slog.Logger) *waits.Waits {
	return waits.New(c, reportAfter, log, nil)
}

// stableOffsets returns the offsets of partitions once all of them are stable.
func stableOffsets(
	ctx context.Context, c *broker.Cluster, log *slog.Logger, partitions map[string][]int32,
) ([]broker.Offset, error) {
	waiting := newWaits(c, log).Offsets()
	defer waiting.Over()
	return c.StableOffsets(ctx, partitions, waiting.Still)
}

func (a *Application) open(ctx context.Context, o Options) (_ *operation, err error) {
	cfg := a.client.cfg
	cfg.GroupMayBeAbsent = true
	op := &operation{client: a.client, topology: a.topology, withoutParked: o.WithoutParked, mode: o.Mode}
	if op.cluster, err = broker.Connect(ctx, cfg, a.topology.Application()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			op.close()
		}
	}()
	if op.topology, _, err = topics.Bind(ctx, op.cluster, a.topology); err != nil {
		return nil, err
	}
	plan, err := topics.Check(ctx, op.cluster, op.topology, topics.Options{AsRounds: true})
	if err != nil {
		return nil, err
	}
	if op.layout, err = plan.Verify(ctx, op.cluster, nil); err != nil {
		return nil, err
	}
	if err := op.completeTopics(ctx, plan, o); err != nil {
		return nil, err
	}
	op.restorer = restore.New(restore.Restorer{
		Cluster: op.cluster, Layout: op.layout, Logger: cfg.Logger, Waits: newWaits(op.cluster, cfg.Logger),
		RoundsTopic: topics.RoundsTopic(a.topology.Application()), BytesMax: restoreBytes,
	})
	op.starts = broker.NewStarts(op.cluster, restore.StartsOf(op.topology))
	op.tasks, err = selectTasks(op.topology, op.layout, o.Tasks)
	return op, err
}

// completeTopics refuses an application of which internal topics are not there, or creates those
// that its topology has gained since it ran, where the action fills them. A dry run goes on without
// the changelogs, which would be empty, and as if the inputs were there.
func (op *operation) completeTopics(ctx context.Context, plan *topics.Plan, o Options) error {
	rounds := topics.RoundsTopic(op.topology.Application())
	missing := slices.DeleteFunc(append(op.topology.InternalTopics(), rounds), func(name string) bool {
		_, there := op.layout[name]
		return there
	})
	absent := func(name string) error {
		return refuse("the topic %s does not exist; a start of the application creates it", name)
	}
	switch {
	case len(missing) == 0:
		return nil
	case !o.creates || slices.Contains(missing, rounds):
		return absent(missing[0])
	case o.DryRun:
		op.layout, op.coming = maps.Clone(op.layout), topics.Layout{}
		wouldBe := plan.Missing()
		for _, sub := range op.topology.Subtopologies() {
			for _, source := range sub.Sources {
				if t, comes := wouldBe[source.Topic]; comes {
					op.layout[t.Name], op.coming[t.Name] = t, t
				}
			}
		}
		return nil
	}
	if err := op.requireEmptyGroup(ctx); err != nil {
		return err
	}
	layout, err := plan.Ensure(ctx, op.cluster)
	if err != nil {
		return err
	}
	op.layout = layout
	return nil
}

// restoreBytes is the memory of a rebuild, as that of a runtime by default: with the least one no
// chunk is large enough for a table.
const restoreBytes = 64 << 20

func (op *operation) close() {
	if op.restorer != nil {
		op.restorer.Close()
	}
	op.cluster.Close()
}

// selectTasks returns the tasks with those names, or all, in their order.
func selectTasks(t *topology.Topology, layout topics.Layout, names []string) ([]target, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var out []target
	for _, sub := range t.Subtopologies() {
		partitions := layout[sub.Sources[0].Topic].Partitions
		sub.Stores = slices.DeleteFunc(sub.Stores, func(st graph.StoreInfo) bool { // see completeTopics
			_, there := layout[st.Topic()]
			return !there
		})
		for _, st := range sub.Stores {
			partitions = min(partitions, layout[st.Topic()].Partitions)
		}
		for p := range partitions {
			id := graph.TaskID{Subtopology: sub.Name, Partition: p}
			if len(names) == 0 || wanted[id.String()] {
				out = append(out, target{id, sub})
				delete(wanted, id.String())
			}
		}
	}
	for _, name := range names {
		if wanted[name] {
			return nil, refuse("there is no task %q; tasks are named as status names them, such as %s_0", name, t.Subtopologies()[0].Name)
		}
	}
	return out, nil
}

// request describes a task to the restorer, without its database.
func (op *operation) request(t target) restore.Request {
	req := restore.RequestOf(t.id, t.sub, op.starts)
	for i, source := range req.Sources {
		if _, comes := op.coming[source.Topic]; comes {
			req.Sources[i].Start = func(context.Context, int32) (int64, error) { return 0, nil }
		}
	}
	return req
}

func (op *operation) changelogTopic(store string) string {
	for _, sub := range op.topology.Subtopologies() {
		for _, st := range sub.Stores {
			if st.Name == store {
				return st.Topic()
			}
		}
	}
	return ""
}

// invalidate makes the next look read everything again.
func (op *operation) invalidate() { op.kept, op.modes = nil, nil }

// parallelLooks bounds how many tasks are looked at together: a look can wait for a while, and does
// not cost much.
const parallelLooks = 16

// together looks at n tasks at the same time, as far as parallelLooks allows.
func together(n int, look func(i int)) {
	free := make(chan struct{}, parallelLooks)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			look(i)
		})
	}
	all.Wait()
}

// lookAll looks at every task, in their order.
func (op *operation) lookAll(ctx context.Context) ([]sight, error) {
	sights, errs := make([]sight, len(op.tasks)), make([]error, len(op.tasks))
	together(len(op.tasks), func(i int) { sights[i], errs[i] = op.look(ctx, op.tasks[i]) })
	return sights, cmp.Or(errs...)
}

func (op *operation) look(ctx context.Context, t target) (sight, error) {
	seen, err := op.restorer.Look(ctx, op.request(t))
	if err != nil {
		return sight{}, err
	}
	s := sight{Sight: seen, target: t}
	s.Now = time.Time{} // two sights of the same thing are equal
	for _, in := range s.Inputs {
		var b bounds
		if _, comes := op.coming[in.Topic]; comes {
			s.bounds = append(s.bounds, b)
			continue
		}
		if b.start, _, err = op.cluster.LogBounds(ctx, in.Topic, in.Partition); err != nil {
			return sight{}, err
		}
		if b.end, err = op.cluster.StableEnd(ctx, in.Topic, in.Partition); err != nil {
			return sight{}, err
		}
		s.bounds = append(s.bounds, b)
	}
	return s, nil
}

// requireEmptyGroup refuses while the group has members: they would go on from what they know. It
// is asked for a clear answer; what counts is that the commit itself is one that brokers refuse
// unless the group is empty.
func (op *operation) requireEmptyGroup(ctx context.Context) error {
	group := op.topology.Application()
	if skipGroupCheck {
		return nil
	}
	names, err := op.client.members(ctx, group)
	if err != nil || len(names) == 0 {
		return err
	}
	return refuse("the group %q has members (%s): stop every instance first", group, strings.Join(names, ", "))
}

// transactionalIDs returns those that the brokers remember of the application, sorted.
func (op *operation) transactionalIDs(ctx context.Context) ([]string, error) {
	listed, err := op.client.adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("listing transactions: %w", err)
	}
	var ids []string
	for id := range listed {
		if strings.HasPrefix(id, broker.TransactionalPrefix(op.topology.Application())) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// fence initialises transactional ids: what they have open is aborted or completed, and requests of
// the processes that had them are refused from then on. After it no offset can be pending any more.
func (op *operation) fence(ctx context.Context, ids []string) error {
	cfg := op.client.cfg
	for _, id := range ids {
		p := broker.NewProducer(cfg, id, 10*time.Second)
		err := p.Settle(ctx)
		p.Close()
		if err != nil {
			return fmt.Errorf("ending what %q may have open: %w", id, err)
		}
	}
	return nil
}

// keptPositions returns what the last clean stop has kept of a task in the rounds topic (rule 7.6);
// nil if there is nothing.
func (op *operation) keptPositions(ctx context.Context, t target) (*task.CommitMetadata, error) {
	if op.kept == nil {
		kept, err := op.readKept(ctx)
		if err != nil {
			return nil, err
		}
		op.kept = kept
	}
	metadata := op.kept[string(task.PositionsKey(t.id.String()))]
	if metadata == "" {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	return op.restorer.Parse(ctx, op.request(t), metadata)
}

// readKept reads what clean stops have kept of all tasks. The topic can hold much more: the
// metadata of every round that was too large for its commit, until they are compacted.
func (op *operation) readKept(ctx context.Context) (map[string]string, error) {
	t := op.layout[op.restorer.RoundsTopic]
	start, _, err := op.cluster.LogBounds(ctx, t.Name, 0)
	if err != nil {
		return nil, err
	}
	end, err := op.cluster.StableEnd(ctx, t.Name, 0)
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	err = newReading(op.cluster, t.Name, t.ID, 0).each(ctx, start, end, func(r *broker.Record) error {
		if bytes.HasPrefix(r.Key, task.PositionsKey("")) {
			kept[string(r.Key)] = string(r.Value)
		}
		return nil
	}, nil)
	return kept, err
}

// commit writes the offsets of all changes in one request, with the metadata that make state and
// offsets name each other, and reads them back. It is a plain commit from outside of the group:
// brokers take it only while the group is empty, which a transaction's is not refused for. No round
// can be pending beside it, because every transactional id was initialised before.
func (op *operation) commit(ctx context.Context, changes []change) error {
	offsets, metadata := kadm.Offsets{}, map[string]string{}
	for _, c := range changes {
		if c.next == nil {
			continue
		}
		text, err := op.metadata(ctx, c)
		if err != nil {
			return err
		}
		metadata[c.id.String()] = text
		for i, in := range c.next.Inputs {
			o := kadm.Offset{Topic: in.Topic, Partition: in.Partition, At: in.Offset, LeaderEpoch: -1}
			if i == 0 {
				o.Metadata = text
			}
			offsets.Add(o)
		}
	}
	if err := op.commitOffsets(ctx, offsets); err != nil {
		return err
	}
	// Last, because it may be believed only once the offsets are committed.
	for id, text := range metadata {
		err := op.cluster.Write(ctx, &broker.Record{
			Topic: op.restorer.RoundsTopic, Key: task.PositionsKey(id), Value: []byte(text),
		})
		if err != nil {
			return fmt.Errorf("the offsets are committed, but keeping the positions of task %s failed: %w", id, err)
		}
	}
	return nil
}

func (op *operation) commitOffsets(ctx context.Context, offsets kadm.Offsets) error {
	group := op.topology.Application()
	//nolint:forbidigo // an operator's, which brokers take only while the group is empty
	responses, err := op.client.adm.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = responses.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownMemberID):
		return refuse("an instance has joined the group %q meanwhile: stop every instance first", group)
	case err != nil:
		return fmt.Errorf("committing the offsets of group %q: %w; do it again, which changes nothing that is committed already", group, err)
	}
	partitions := map[string][]int32{}
	for topic, ps := range offsets {
		for p := range ps {
			partitions[topic] = append(partitions[topic], p)
		}
	}
	stored, err := stableOffsets(ctx, op.cluster, op.client.cfg.Logger, partitions)
	if err != nil {
		return err
	}
	for _, o := range stored {
		want, _ := offsets.Lookup(o.Topic, o.Partition)
		if o.At != want.At || o.Metadata != want.Metadata {
			return fmt.Errorf("another process has committed %s[%d] at the same time: it is at %d, and not at %d", o.Topic, o.Partition,
				o.At, want.At)
		}
	}
	return nil
}

// metadata returns the text to commit: the commit metadata, or a reference to the record that holds
// them if they are too large.
func (op *operation) metadata(ctx context.Context, c change) (string, error) {
	committed := task.NewCommitMetadata(fingerprint(op.topology), *c.next)
	committed.Parked, committed.Mode, committed.Modeless = c.parked, c.mode.Mode, c.mode.modeless
	text := committed.Encode()
	if len(text) <= task.MetadataMax {
		return text, nil
	}
	r := &broker.Record{Topic: op.restorer.RoundsTopic, Key: task.RecordKey(c.id.String()), Value: []byte(text)}
	if err := op.cluster.Write(ctx, r); err != nil {
		return "", fmt.Errorf("writing the metadata of task %s: %w", c.id, err)
	}
	return task.Reference{Round: committed.Round, Partition: r.Partition, Offset: r.Offset}.Encode(), nil
}

// streamTime is the stream time of a topic in commit metadata, state.NoTime if they have none.
func streamTime(b *task.CommitMetadata, topic string) int64 {
	if in, known := b.Input(topic); known {
		return in.StreamTime
	}
	return state.NoTime
}
