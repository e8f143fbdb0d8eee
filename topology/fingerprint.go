package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// Fingerprint returns 32 hexadecimal digits that identify the structure of the topology: its
// subtopologies, nodes, edges, outlets, topics, patterns, stores, global tables, windows,
// suppressions, graces of joins, and the names of their codecs and partitioners. It does not depend
// on the order of declarations, the application id, policies, starts and numbers of partitions. It
// cannot cover what functions do.
func (t *Topology) Fingerprint() string { return t.fingerprint }

// fingerprintVersion is part of the hash, so that a change of what is hashed is never taken for a
// change of the topology.
const fingerprintVersion = "onceward topology 1"

func (t *Topology) hash() string {
	h := sha256.New()
	t.writeStructure(h)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// writeStructure writes what the fingerprint stands for. A hash never returns an error. Every
// string is quoted, so that no two structures are written alike.
func (t *Topology) writeStructure(w io.Writer) {
	fmt.Fprintf(w, "%s\n", fingerprintVersion)
	for _, s := range t.subtopologies {
		fmt.Fprintf(w, "subtopology %q\n", s.name)
		for _, store := range s.stores {
			fmt.Fprintf(w, "store %q %q %q", store.name, store.formats.key, store.formats.value)
			if store.layout != (state.Layout{}) {
				fmt.Fprintf(w, " layout %q", store.layout)
			}
			if source, ok := s.restoredFrom(store.name); ok {
				fmt.Fprintf(w, " restored from %q", source.topic.local())
			}
			if store.inMemory {
				fmt.Fprint(w, " in memory")
			}
			if store.lost {
				fmt.Fprint(w, " lost on restart")
			}
			fmt.Fprintln(w)
		}
		for _, n := range s.nodes {
			fmt.Fprintf(w, "%s %q", strings.ToLower(n.kind.String()), n.name)
			if n.kind != processorNode {
				fmt.Fprintf(w, " topic %q %q %q", n.topic.local(), n.topic.formats.key, n.topic.formats.value)
				if n.topic.pattern != nil {
					fmt.Fprintf(w, " pattern %q", n.topic.pattern.expression)
				}
				if n.topic.partitioner != "" {
					fmt.Fprintf(w, " partitioner %q", n.topic.partitioner)
				}
			}
			for _, store := range n.storeNames() {
				fmt.Fprintf(w, " store %q", store)
			}
			for _, store := range n.globalNames() {
				fmt.Fprintf(w, " global table %q", store)
			}
			if n.windows != "" {
				fmt.Fprintf(w, " windows %q", n.windows)
			}
			if n.suppression != "" {
				fmt.Fprintf(w, " suppression %q", n.suppression)
			}
			if n.grace != "" {
				fmt.Fprintf(w, " grace %q", n.grace)
			}
			parents := make([]string, len(n.parents))
			for i, p := range n.parents {
				parents[i] = fmt.Sprintf(" from %q.%q", p.node.name, p.name)
			}
			slices.Sort(parents)
			fmt.Fprintf(w, "%s\n", strings.Join(parents, ""))
		}
	}
	for _, g := range t.globals {
		fmt.Fprintf(w, "global table %q %q %q topic %q %q %q\n",
			g.store.name, g.store.formats.key, g.store.formats.value, g.topic, g.formats.key, g.formats.value)
	}
}
