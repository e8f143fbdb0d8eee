package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Build returns the topology, or all mistakes at once as a [*BuildError]. The builder takes no
// declarations after it.
func (b *Builder) Build() (*Topology, error) {
	if !b.closed {
		b.closed = true
		b.built = b.build()
	}
	if len(b.mistakes) > 0 {
		// A copy, because a declaration after Build may still add to the list.
		return nil, &BuildError{Topology: b.name, Mistakes: slices.Clone(b.mistakes)}
	}
	return b.built, nil
}

func (b *Builder) build() *Topology {
	if len(b.sources)+len(b.patterns) == 0 {
		b.mistakeAt(b.pos, "", errors.New("the topology has no source; From declares one"))
	}
	for _, n := range b.nodes {
		if n.incomplete != "" {
			b.mistakeAt(n.pos, n.name, errors.New(n.incomplete))
		}
		for _, check := range n.checks {
			if err := check(); err != nil {
				b.mistakeAt(n.pos, n.name, err)
			}
		}
	}
	b.checkStores()
	b.checkParkStores()
	b.checkSources()
	b.checkPartitioners()
	b.checkGlobals()
	b.checkFeedback()
	b.checkAgain()
	b.checkDeadEnds()
	b.checkRestoredTables()
	t := &Topology{
		name:          b.name,
		pos:           b.pos,
		application:   b.application,
		deadLetters:   b.deadLetters,
		stacks:        b.stacks,
		policies:      b.policies,
		subtopologies: divide(b.nodes),
		globals:       sortGlobals(b.globals),
	}
	b.checkPatterns(t.subtopologies)
	b.mistakes = append(b.mistakes, t.checkInternalNames()...)
	if len(b.mistakes) > 0 {
		return nil
	}
	t.fingerprint = t.hash()
	return t
}

// checkStores looks for names that mean two stores and for stores that would share a prefix on
// disk.
func (b *Builder) checkStores() {
	type use struct {
		node *node
		info storeInfo
	}
	first := map[string]use{}
	ids := map[state.StoreID]use{}
	for _, n := range b.nodes {
		seen := map[string]bool{}
		for _, s := range n.stores {
			if seen[s.name] {
				b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s is named twice", s.name))
				continue
			}
			seen[s.name] = true
			if u, ok := first[s.name]; ok {
				if u.info.layout != s.layout {
					b.mistakeAt(n.pos, n.name, fmt.Errorf(
						"store %s is %s here and %s in node %s (%s:%d); one name is one store",
						s.name, s.layout, u.info.layout, u.node.name, u.node.pos.file, u.node.pos.line))
				}
				if u.info.place() != s.place() {
					b.mistakeAt(n.pos, n.name, fmt.Errorf(
						"store %s is %s here and %s in node %s (%s:%d); one name is one store",
						s.name, s.place(), u.info.place(), u.node.name, u.node.pos.file, u.node.pos.line))
				}
				if u.info.formats != s.formats {
					b.mistakeAt(n.pos, n.name, fmt.Errorf(
						"store %s has codecs %s here and %s in node %s (%s:%d); one name is one store",
						s.name, s.formats, u.info.formats, u.node.name, u.node.pos.file, u.node.pos.line))
				}
				continue
			}
			first[s.name] = use{n, s}
			if err := graph.CheckName(s.name); err != nil {
				b.mistakeAt(n.pos, n.name, fmt.Errorf("name of a store: %w", err))
				continue
			}
			id := state.IDOf(s.name)
			if u, ok := ids[id]; ok {
				b.mistakeAt(n.pos, n.name, fmt.Errorf(
					"stores %s and %s have the same id (%08x); rename one of them",
					u.info.name, s.name, uint32(id)))
			}
			ids[id] = use{n, s}
		}
	}
}

// checkSources looks for names that would make two subtopologies one, and for dead letters that
// come back.
func (b *Builder) checkSources() {
	repartitions := map[string]bool{}
	for _, n := range b.nodes {
		if n.kind == sourceNode && n.topic.repartition {
			repartitions[n.topic.name] = true
		}
	}
	for _, n := range b.nodes {
		if n.kind != sourceNode || n.topic.repartition || n.topic.pattern != nil {
			continue
		}
		if repartitions[n.topic.name] {
			b.mistakeAt(n.pos, n.name, fmt.Errorf("a repartitioning has the name of the source topic %s; "+
				"both name subtopologies, so rename the repartitioning", n.topic.name))
		}
		if n.topic.name == b.deadLetters {
			b.mistakeAt(n.pos, n.name, fmt.Errorf("%s is the dead-letter topic of this topology; a dead "+
				"letter that fails would come back for ever, so read it in another topology", n.topic.name))
		}
	}
}

// checkInternalNames compares the names that follow from the application id with Kafka's limit, and
// with the topics of the user.
func (t *Topology) checkInternalNames() []*Mistake {
	var mistakes []*Mistake
	note := func(node string, pos position, err error) {
		if err != nil {
			mistakes = append(mistakes, &Mistake{Node: node, File: pos.file, Line: pos.line, Err: err})
		}
	}
	note("", t.pos, t.checkNotReserved(t.deadLetters))
	for _, g := range t.globals {
		note(g.store.name, g.pos, t.checkNotReserved(g.topic))
	}
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			for _, store := range n.stores {
				if !store.lost {
					note(n.name, n.pos, checkInternalLength(t.changelog(store.name)))
				}
			}
			switch {
			case n.kind == processorNode, n.topic.pattern != nil:
			case !n.topic.repartition:
				note(n.name, n.pos, t.checkNotReserved(n.topic.name))
			case n.kind == sourceNode:
				note(n.name, n.pos, checkInternalLength(n.topic.on(t.application)))
			}
		}
	}
	return mistakes
}

func checkInternalLength(topic string) error {
	if len(topic) > graph.TopicBytesMax {
		return fmt.Errorf("the internal topic %s would have a name of %d characters, Kafka allows %d",
			topic, len(topic), graph.TopicBytesMax)
	}
	return nil
}

func (t *Topology) checkNotReserved(topic string) error {
	if t.reserves(topic) {
		return fmt.Errorf("the name %s is reserved for internal topics of application %s",
			topic, t.application)
	}
	return nil
}

// reserves reports whether a topic's name could be that of an internal topic of this application,
// now or after the next change of the topology.
func (t *Topology) reserves(topic string) bool {
	rest, ok := strings.CutPrefix(topic, t.application)
	if !ok || !strings.HasPrefix(rest, "-") {
		return false
	}
	return rest == graph.RoundsSuffix ||
		strings.HasSuffix(rest, graph.ChangelogSuffix) || strings.HasSuffix(rest, graph.RepartitionSuffix)
}
