package admin

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
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
		sub.Stores = slices.DeleteFunc(sub.Restored(), func(st graph.StoreInfo) bool { // see completeTopics
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
