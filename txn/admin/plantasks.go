package admin

import (
	"cmp"
	"context"
	"errors"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// taskInspector looks at the tasks of a topology some of whose topics may not exist yet.
type taskInspector struct {
	restorer *restore.Restorer
	layout   topics.Layout
	starts   *broker.Starts
	// quiet says that no instance runs, so that commits and changelogs stay what they are between
	// two looks.
	quiet bool
	// fingerprint is what commits of the topology carry.
	fingerprint [8]byte
	// databases are the positions of the databases of an instance that is to start.
	databases map[graph.TaskID]state.Positions
}

func (l taskInspector) inspectAll(ctx context.Context, t *topology.Topology) ([]taskPlanInput, error) {
	type place struct {
		id  graph.TaskID
		sub graph.Subtopology
	}
	var places []place
	for _, sub := range t.Subtopologies() {
		for p := range l.tasksOf(sub) {
			places = append(places, place{graph.TaskID{Subtopology: sub.Name, Partition: p}, sub})
		}
	}
	out, errs := make([]taskPlanInput, len(places)), make([]error, len(places))
	together(len(places), func(i int) { out[i], errs[i] = l.inspect(ctx, places[i].id, places[i].sub) })
	return out, cmp.Or(errs...)
}

// tasksOf returns how many tasks of a subtopology can have a past: as many as its sources have
// partitions, or its changelogs where they have fewer, or where no source exists yet.
func (l taskInspector) tasksOf(sub graph.Subtopology) int32 {
	n, changelogs := int32(0), int32(0)
	for _, source := range sub.Sources {
		n = max(n, l.layout[source.Topic].Partitions)
	}
	for _, store := range sub.Restored() {
		if there := l.layout[store.Topic()].Partitions; there > 0 && (changelogs == 0 || there < changelogs) {
			changelogs = there
		}
	}
	switch {
	case n == 0:
		return changelogs
	case changelogs == 0:
		return n
	}
	return min(n, changelogs)
}

// unassigned returns for each input how many of its partitions have no task, because it has grown
// since the changelogs were made.
func (l taskInspector) unassigned(t *topology.Topology) map[string]int32 {
	out := map[string]int32{}
	for _, sub := range t.Subtopologies() {
		tasks := l.tasksOf(sub)
		for _, source := range sub.Sources {
			if n := l.layout[source.Topic].Partitions; n > tasks {
				out[source.Topic] = n - tasks
			}
		}
	}
	return out
}

// inspect sees a task as a restore would, and fills in what the start would create.
func (l taskInspector) inspect(ctx context.Context, id graph.TaskID, sub graph.Subtopology) (taskPlanInput, error) {
	req := restore.RequestOf(id, sub, l.starts)
	for i, source := range req.Sources {
		if !l.has(source.Topic) {
			req.Sources[i].Start = func(context.Context, int32) (int64, error) { return 0, nil }
		}
	}
	seen, err := l.restorer.Inspect(ctx, req)
	if err != nil {
		return taskPlanInput{}, err
	}
	p := taskPlanInput{id: id, stop: seen.Stop}
	if local, there := l.databases[id]; there && p.stop == nil {
		with := seen.Found
		with.Database = local
		if _, err := restore.Judge(with); err != nil && !errors.As(err, &p.stop) {
			return taskPlanInput{}, err
		}
	}
	if p.stop == nil && l.quiet {
		p.stop = seen.NotLast()
	}
	p.describe(seen.Found)
	p.current = seen.Commit != nil && seen.Commit.Fingerprint == l.fingerprint
	return p, nil
}

// describe notes what the plan has to know beside the judgement.
func (p *taskPlanInput) describe(found restore.Found) {
	for _, in := range found.Inputs {
		p.committed = p.committed || in.Committed >= 0
	}
	named := 0
	for _, c := range found.Changelogs {
		target, known := found.Commit.Target(c.Store)
		if known {
			named++
		} else {
			p.empty = append(p.empty, c.Store)
		}
		if c.FromSource == nil && c.HighWatermark > 0 && (target > 0 || !known && !c.Empty) {
			p.holds = append(p.holds, c.Store)
		}
	}
	if found.Commit != nil {
		p.gone = len(found.Commit.Changelogs) - named
	}
}

func (l taskInspector) has(topic string) bool {
	_, there := l.layout[topic]
	return there
}
