package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Plan compares the topology with the existing application, and says what the next start would make
// of it, before anything is touched. It writes nothing, joins no group, and may be called while
// instances run, old or new ones.
//
// before describes the topology that ran, as [topology.Topology.Description] has it. It is stored
// in the state directory of each instance (state.ReadDescription). It may be nil: then formats of
// stores and records are not compared, and the plan says so.
//
// Plan reads the cluster in any case: topics and their settings, committed offsets, and for each
// task whether state and offsets name each other for the new topology. The rules are those by which
// an instance opens a task. Plan does not read local databases; they follow the changelogs.
// [Application.PlanWith] reads those of a stopped instance. For a table without a changelog
// (topology.RestoreFromTopic) that is not all. Only a start shows whether a directory is there, and
// how much of the topic was compacted while it was not.
func (a *Application) Plan(ctx context.Context, before *graph.Description) (Plan, error) {
	return a.PlanWith(ctx, before, nil)
}

// PlanWith is Plan for an instance with that state: it has to be of this cluster, and its databases
// are judged together with the commits, as the start judges them. That takes no instance of the
// application to be running; otherwise only the cluster is compared. local may be nil.
func (a *Application) PlanWith(ctx context.Context, before *graph.Description, local *State) (Plan, error) {
	p, err := a.look(ctx, before, local)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p.judge(), nil
}

// look gathers what the plan is made of.
func (a *Application) look(ctx context.Context, before *graph.Description, local *State) (_ planInput, err error) {
	cfg := a.client.cfg
	cfg.GroupMayBeAbsent = true
	p := planInput{before: before, after: a.topology.Description(), unread: map[string]restore.Unread{},
		parked: map[string]int64{}, parkedUnknown: map[string]bool{}}
	if before != nil && before.Application != p.after.Application {
		return p, fmt.Errorf("the topology that ran is described as application %s, and this one is application %s", before.Application,
			p.after.Application)
	}
	if p.members, err = a.client.members(ctx, p.after.Application); err != nil {
		return p, err
	}
	cluster, err := broker.Connect(ctx, cfg, p.after.Application)
	if err != nil {
		return p, err
	}
	defer cluster.Close()
	databases := map[graph.TaskID]state.Positions{}
	if local != nil {
		if err := a.client.checkCluster(ctx, local); err != nil {
			return p, err
		}
		if databases, err = local.positions(ctx, len(p.members) == 0); err != nil {
			return p, err
		}
	}
	bound, notRead, err := topics.Bind(ctx, cluster, a.topology)
	p.notRead = notRead
	if p.mismatches, err = mismatchesIn(err); err != nil || len(p.mismatches) > 0 {
		return p, err
	}
	needed, err := topics.Check(ctx, cluster, bound, topics.Options{})
	if p.mismatches, err = mismatchesIn(err); err != nil {
		return p, err
	}
	for _, m := range p.mismatches {
		if !errors.Is(m, topics.ErrAbsent) {
			return p, nil // the existing tasks depend on topics that are as they should be
		}
	}
	var layout topics.Layout
	if p.looked = true; len(p.mismatches) > 0 {
		layout, err = topics.Existing(ctx, cluster, bound)
	} else {
		layout, err = needed.Verify(ctx, cluster, nil)
	}
	if err != nil {
		return p, err
	}
	for _, name := range append(bound.InternalTopics(), topics.RoundsTopic(p.after.Application)) {
		if _, there := layout[name]; !there && !slices.Contains(p.missing, name) {
			p.missing = append(p.missing, name)
		}
	}
	if err := p.countUnread(ctx, cluster, cfg.Logger); err != nil {
		return p, err
	}
	restorer := restore.New(restore.Restorer{
		Cluster: cluster, Layout: layout, Logger: cfg.Logger, Waits: newWaits(cluster, cfg.Logger),
		RoundsTopic: topics.RoundsTopic(p.after.Application), BytesMax: restoreBytes,
	})
	defer restorer.Close()
	l := taskLooker{restorer: restorer, layout: layout, starts: broker.NewStarts(cluster, restore.StartsOf(bound)),
		quiet: len(p.members) == 0, fingerprint: fingerprint(a.topology), databases: databases}
	p.unassigned, p.deletedByClock = l.unassigned(bound), layout.DeletedByClock(bound)
	if p.tasks, err = l.lookAll(ctx, bound); err != nil {
		return p, err
	}
	if err := p.countParked(ctx, a.client, cluster, restorer); err != nil {
		return p, err
	}
	commits, err := cluster.Commits(ctx)
	if err != nil {
		return p, err
	}
	p.left, err = restorer.Left(ctx, bound, restore.Unlooked(bound, commits))
	return p, err
}

// mismatchesIn takes an error apart: topics that do not fit are findings, everything else stays an
// error.
func mismatchesIn(err error) ([]*topics.Mismatch, error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var mismatches []*topics.Mismatch
	var others []error
	for _, err := range all {
		if m, ok := errors.AsType[*topics.Mismatch](err); ok {
			mismatches = append(mismatches, m)
		} else if err != nil {
			others = append(others, err)
		}
	}
	return mismatches, errors.Join(others...)
}

// countUnread finds what waits in the repartition topics of the topology that ran whose codecs
// change or that are read no more.
func (p *planInput) countUnread(ctx context.Context, cluster *broker.Cluster, log *slog.Logger) error {
	if p.before == nil {
		return nil
	}
	concerned, stays := map[string]bool{}, map[string]bool{}
	for _, d := range graph.Compare(*p.before, p.after) {
		gone := d.Attribute == graph.AttributeExistence && d.After == ""
		concerned[d.Name] = concerned[d.Name] || d.Subject == graph.SubjectSource && (gone || d.Attribute == graph.AttributeFormats)
	}
	for _, sub := range p.after.Subtopologies {
		for _, source := range sub.Sources {
			stays[source.Topic] = true
		}
	}
	for _, sub := range p.before.Subtopologies {
		for _, source := range sub.Sources {
			if !source.Repartition || !concerned[source.Topic] {
				continue
			}
			waits, err := unread(ctx, cluster, log, source.Topic, stays[source.Topic])
			if err != nil {
				return err
			}
			p.unread[source.Topic] = waits
		}
	}
	return nil
}

// countParked counts the records that wait in the stores of the topology that ran which are there
// no more, as its last commits say, or the changelogs where they do not.
func (p *planInput) countParked(ctx context.Context, client *Client, cluster *broker.Cluster, restorer *restore.Restorer) error {
	if p.before == nil {
		return nil
	}
	gone := map[string]bool{}
	for _, d := range graph.Compare(*p.before, p.after) {
		if d.Subject == graph.SubjectStore && d.Attribute == graph.AttributeExistence && d.After == "" {
			gone[d.Name] = true
		}
	}
	asked := map[string]bool{} // by the task of which the commit is with that topic, whether that store is there
	for _, sub := range p.after.Subtopologies {
		for _, source := range sub.Sources {
			asked[sub.Sources[0].Topic+"/"+source.ParkStore(p.after.Application)] = true
		}
	}
	for _, sub := range p.before.Subtopologies {
		var parking []goneParkStore
		for _, s := range sub.Stores {
			// A store of the application's own can have a name that ends alike.
			parks := slices.ContainsFunc(sub.Sources, func(source graph.SourceDescription) bool {
				return source.ParkStore(p.before.Application) == s.Name
			})
			if gone[s.Name] && parks {
				parking = append(parking, goneParkStore{restore.ParkStore{Name: s.Name, ChangelogTopic: s.ChangelogTopic},
					asked[sub.Sources[0].Topic+"/"+s.Name]})
			}
		}
		if parking == nil {
			continue
		}
		// The commit of a task is with its first input.
		described, there, err := client.describe(ctx, sub.Sources[0].Topic)
		switch {
		case err != nil:
			return err
		case !there:
			continue
		}
		offsets, err := stableOffsets(ctx, cluster, client.cfg.Logger, map[string][]int32{described.Topic: described.Partitions.Numbers()})
		if err != nil {
			return err
		}
		found, errs := make([]map[string]int64, len(offsets)), make([]error, len(offsets))
		together(len(offsets), func(i int) {
			id := graph.TaskID{Subtopology: sub.Name, Partition: offsets[i].Partition}
			found[i], errs[i] = waitingIn(ctx, restorer, id, offsets[i].Metadata, parking)
		})
		if err := cmp.Or(errs...); err != nil {
			return err
		}
		for _, waits := range found {
			for store, n := range waits {
				p.parked[store] += max(n, 0)
				p.parkedUnknown[store] = p.parkedUnknown[store] || n < 0
			}
		}
	}
	return nil
}

// goneParkStore is a store of parked keys that is there no more.
type goneParkStore struct {
	restore.ParkStore
	// asked says that the source is still there, with the same task: that looks into the changelog
	// where no commit is known.
	asked bool
}

// waitingIn returns how many records of a task wait in stores that do not exist any more, by store;
// -1 is unknown. It does not ask a changelog that the start does not ask either:
//   - if the commit names it at 0, because it never held a record,
//   - if no commit is known of a task that is gone, because its offsets were deleted, or committed
//     again from outside. That is how waiting records are given up (restore.Left.Recovery).
func waitingIn(
	ctx context.Context, restorer *restore.Restorer, id graph.TaskID, metadata string, parking []goneParkStore,
) (map[string]int64, error) {
	committed, err := restorer.Parse(ctx, restore.Request{Task: id}, metadata)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, store := range parking {
		at, named := committed.Target(store.Name)
		said := slices.ContainsFunc(committed.WhereParked(), func(p task.CommittedParked) bool { return p.Store == store.Name })
		if !said && (named && at == 0 || committed == nil && !store.asked) {
			continue
		}
		n, untold, err := restorer.Waiting(ctx, committed, store.ParkStore, id)
		if err != nil {
			return nil, err
		}
		if untold != "" {
			n = -1
		}
		out[store.Name] = n
	}
	return out, nil
}

// describe returns what a topic is; there is false if it does not exist.
func (c *Client) describe(ctx context.Context, topic string) (described kadm.TopicDetail, there bool, err error) {
	listed, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return described, false, fmt.Errorf("describing topic %s: %w", topic, err)
	}
	described, there = listed[topic]
	if !there || errors.Is(described.Err, kerr.UnknownTopicOrPartition) {
		return described, false, nil
	}
	if described.Err != nil {
		return described, false, fmt.Errorf("describing topic %s: %w", topic, described.Err)
	}
	return described, true, nil
}

// unread finds the records that wait in a topic behind the committed offsets; none if the topic
// does not exist. Brokers answer "not authorized" for a missing topic to a principal that may not
// see it.
func unread(ctx context.Context, cluster *broker.Cluster, log *slog.Logger, topic string, read bool) (waits restore.Unread, err error) {
	found, hidden, err := cluster.Topics(ctx, []string{topic})
	if len(hidden) > 0 {
		log.Warn("cannot tell whether records wait in a repartition topic: it does not exist, or the application may not describe it", "topic", topic)
	}
	if err != nil || found[topic].Partitions == 0 {
		return waits, err
	}
	partitions := make([]int32, found[topic].Partitions)
	for p := range partitions {
		partitions[p] = int32(p)
	}
	committed, err := stableOffsets(ctx, cluster, log, map[string][]int32{topic: partitions})
	if err != nil {
		return waits, err
	}
	return restore.FindUnread(ctx, cluster, found[topic], committed, read)
}

// taskLooker looks at the tasks of a topology some of whose topics may not exist yet.
type taskLooker struct {
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

func (l taskLooker) lookAll(ctx context.Context, t *topology.Topology) ([]taskPlanInput, error) {
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
	together(len(places), func(i int) { out[i], errs[i] = l.look(ctx, places[i].id, places[i].sub) })
	return out, cmp.Or(errs...)
}

// tasksOf returns how many tasks of a subtopology can have a past: as many as its sources have
// partitions, or its changelogs where they have fewer, or where no source exists yet.
func (l taskLooker) tasksOf(sub graph.Subtopology) int32 {
	n, changelogs := int32(0), int32(0)
	for _, source := range sub.Sources {
		n = max(n, l.layout[source.Topic].Partitions)
	}
	for _, store := range sub.Stores {
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
func (l taskLooker) unassigned(t *topology.Topology) map[string]int32 {
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

// look sees a task as a restore would, and fills in what the start would create.
func (l taskLooker) look(ctx context.Context, id graph.TaskID, sub graph.Subtopology) (taskPlanInput, error) {
	req := restore.RequestOf(id, sub, l.starts)
	for i, source := range req.Sources {
		if !l.has(source.Topic) {
			req.Sources[i].Start = func(context.Context, int32) (int64, error) { return 0, nil }
		}
	}
	seen, err := l.restorer.Look(ctx, req)
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

func (l taskLooker) has(topic string) bool {
	_, there := l.layout[topic]
	return there
}

// members returns the names of the instances that are in a group now, sorted; none if there is no
// such group.
func (c *Client) members(ctx context.Context, group string) ([]string, error) {
	described, err := c.adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("describing group %q: %w", group, err)
	}
	g, ok := described[group]
	switch {
	case !ok, errors.Is(g.Err, kerr.GroupIDNotFound):
		return nil, nil
	case g.Err != nil:
		return nil, fmt.Errorf("describing group %q: %w", group, g.Err)
	}
	names := map[string]bool{}
	for _, m := range g.Members {
		if m.InstanceID != nil {
			names[*m.InstanceID] = true
		} else {
			names[m.MemberID] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
