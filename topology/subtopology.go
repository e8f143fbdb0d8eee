package topology

import (
	"cmp"
	"slices"
	"strings"
)

// subtopology is a connected component of nodes and shared stores. It is immutable.
type subtopology struct {
	name string
	// nodes are sorted by their distance from a source, then by name.
	nodes []*node
	// sources are those of nodes, in the same order.
	sources []*node
	// stores are sorted by name, each once.
	stores []storeInfo
}

// divide finds the connected components of nodes, by union-find over edges and shared stores, and
// returns them sorted by name.
func divide(nodes []*node) []*subtopology {
	leader := map[*node]*node{}
	for _, n := range nodes {
		leader[n] = n
	}
	var find func(n *node) *node
	find = func(n *node) *node {
		if leader[n] != n {
			leader[n] = find(leader[n])
		}
		return leader[n]
	}
	user := map[string]*node{}
	for _, n := range nodes {
		for _, parent := range n.parents {
			leader[find(n)] = find(parent.node)
		}
		if n.of != nil {
			leader[find(n)] = find(n.of)
		}
		for _, store := range n.stores {
			if other, ok := user[store.name]; ok {
				leader[find(n)] = find(other)
			}
			user[store.name] = n
		}
	}
	components := map[*node]*subtopology{}
	var subs []*subtopology
	for _, n := range nodes {
		s, ok := components[find(n)]
		if !ok {
			s = &subtopology{}
			components[find(n)] = s
			subs = append(subs, s)
		}
		s.nodes = append(s.nodes, n)
	}
	for _, s := range subs {
		s.order()
	}
	slices.SortFunc(subs, func(a, b *subtopology) int { return strings.Compare(a.name, b.name) })
	return subs
}

// order sorts the parts of s and names it, so that nothing depends on the order of the
// declarations.
func (s *subtopology) order() {
	distance := map[*node]int{}
	var measure func(n *node) int
	measure = func(n *node) int {
		if d, ok := distance[n]; ok {
			return d
		}
		d := 0
		for _, parent := range n.parents {
			d = max(d, measure(parent.node)+1)
		}
		distance[n] = d
		return d
	}
	slices.SortFunc(s.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(measure(a), measure(b)), strings.Compare(a.name, b.name))
	})
	for _, n := range s.nodes {
		if n.kind == sourceNode {
			s.sources = append(s.sources, n)
			if n.of == nil && (s.name == "" || n.topic.name < s.name) {
				s.name = n.topic.name
			}
		}
		s.stores = append(s.stores, n.stores...)
	}
	byName := func(a, b storeInfo) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(s.stores, byName)
	s.stores = slices.CompactFunc(s.stores, func(a, b storeInfo) bool { return a.name == b.name })
}
