package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Bind returns t with the topics of the cluster that its sources by pattern read: those that it has
// read before and that are still there, and those that are new. It returns t if there is no such
// source. One broker answers, and it may lack a topic for a moment: see [Gone].
//
// A new topic is left out, and is a Problem of the kind NotRead, if the application could not go on
// with it:
//   - two patterns match it,
//   - this process may not read it,
//   - it does not fit the nodes and internal topics behind its source.
//
// It is looked at again the next time. A topic whose leader or configuration is not known yet is
// left out without a Problem.
//
// A topology without any topic to read is an ErrAbsent.
func Bind(ctx context.Context, c *broker.Cluster, t *topology.Topology) (bound *topology.Topology, problems []Problem, err error) {
	if len(t.Patterns()) == 0 {
		return t, nil, nil
	}
	all, err := c.AllTopics(ctx)
	if err != nil {
		return nil, nil, err
	}
	leave := func(info broker.TopicInfo, why error) {
		problems = append(problems, Problem{
			Topic: info.Name, Kind: NotRead, Unread: info.Partitions, Err: fmt.Errorf("input %s is not read: %w", info.Name, why),
		})
	}
	known, read := t.Matched(), []string(nil)
	fresh := map[string]broker.TopicInfo{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		info, patterns := all[name], t.PatternsOf(name)
		switch denied := denied(info); {
		case len(patterns) == 0:
		case len(patterns) > 1:
			leave(info, fmt.Errorf("the patterns of the sources %s match it; change one of them", strings.Join(patterns, " and ")))
		case slices.Contains(known, name):
			read = append(read, name)
		case len(denied) > 0:
			leave(info, c.Denied(denied))
		case info.Led:
			fresh[name] = info
		}
	}
	fitting, err := fittingOf(ctx, c, t, fresh, leave)
	if err != nil {
		return nil, nil, err
	}
	if bound, err = t.WithTopics(append(read, fitting...)); err != nil {
		return nil, nil, err
	}
	if len(bound.Subtopologies()) == 0 {
		var expressions []string
		for _, p := range t.Patterns() {
			expressions = append(expressions, p.Expression)
		}
		return nil, problems, &Mismatch{Topic: "none matches " + strings.Join(expressions, " or "), missing: true}
	}
	return bound, problems, nil
}

// denied returns what this process may not do with an input and has to.
func denied(info broker.TopicInfo) (missing []broker.Permission) {
	for _, op := range inputOperations {
		if !slices.Contains(info.Allowed, op) {
			missing = append(missing, broker.Permission{Operation: op, Resource: broker.TopicResource, Name: info.Name})
		}
	}
	return missing
}

// fittingOf returns the new topics that fit the nodes and internal topics behind them. It tells
// leave of the others.
func fittingOf(
	ctx context.Context, c *broker.Cluster, t *topology.Topology, fresh map[string]broker.TopicInfo, leave func(broker.TopicInfo, error),
) (fitting []string, err error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(fresh))
	found, _, err := c.Topics(ctx, slices.Concat(names, t.InternalTopics()))
	if err != nil {
		return nil, err
	}
	with, err := t.WithTopics(names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		info, there := found[name]
		switch why := misfit(t, with.DedupeWindows(), info, found); {
		case !there || info.Settings == nil: // the next look knows it
		case why != nil:
			leave(info, why)
		default:
			fitting = append(fitting, name)
		}
	}
	return fitting, nil
}

// misfit returns why a new input does not fit, nil if it does. At start such an input of a source
// with one topic is refused.
func misfit(t *topology.Topology, windows []graph.DedupeWindow, info broker.TopicInfo, found map[string]broker.TopicInfo) error {
	for _, w := range windows {
		if !slices.Contains(w.Topics, info.Name) || w.Tolerated {
			continue
		}
		if m := outlives(info, w); m != nil {
			return m
		}
	}
	size := number(info, "max.message.bytes", 0)
	for _, name := range t.InternalTopics() {
		if internal, there := found[name]; there && number(internal, "max.message.bytes", size) < size {
			return fmt.Errorf("its max.message.bytes is %d, and that of %s is %d, so that a record that comes in could not go on; "+
				"kafka-configs.sh --alter --entity-type topics --entity-name %s --add-config max.message.bytes=%d",
				size, name, number(internal, "max.message.bytes", 0), name, size)
		}
	}
	return nil
}

// Gone returns the topics that sources by pattern read before, and not after, as an ErrAbsent; nil
// if there is none.
func Gone(before, after *topology.Topology) error {
	gone := Fresh(after, before)
	if len(gone) == 0 {
		return nil
	}
	return &Mismatch{Topic: strings.Join(gone, ", "), Use: useInput, Setting: "existence", Found: "deleted", Needed: "there", deleted: true,
		Remedy: "a source by pattern has read it"}
}

// Fresh returns the topics that sources by pattern read after, and not before.
func Fresh(before, after *topology.Topology) []string {
	known := before.Matched()
	return slices.DeleteFunc(after.Matched(), func(name string) bool { return slices.Contains(known, name) })
}

// Without returns the layout without the topics that are [Gone].
func (l Layout) Without(before, after *topology.Topology) Layout {
	out := maps.Clone(l)
	for _, name := range Fresh(after, before) {
		delete(out, name)
	}
	return out
}

// Follow makes the plan that of another binding of its topology: see [Bind].
func (p *Plan) Follow(bound *topology.Topology) { p.topology, p.external = bound, bound.Topics() }
