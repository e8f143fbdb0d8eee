package effect

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// The suffixes of a ledger's other stores.
const (
	agendaSuffix = "-due"
	claimsSuffix = "-claim"
)

// callerSuffix is what the name of the node that makes the calls has behind that of the ledger.
const callerSuffix = "-caller"

// Stores returns the names of the three stores of a side-effect ledger, for programs that read them
// from outside of its topology.
func Stores(name string) (effects, agenda, claims string) {
	return name, name + agendaSuffix, name + claimsSuffix
}

// Names returns the names of the side-effect ledgers of which all stores are among stores, each
// once, sorted.
func Names(stores []state.Declaration) []string {
	var ledgers []string
	for _, d := range stores {
		name, ok := strings.CutSuffix(d.Name, claimsSuffix)
		if !ok || name == "" {
			continue
		}
		effects, agenda, claims := Stores(name)
		if !slices.ContainsFunc(state.KeyValues(effects, agenda, claims), func(d state.Declaration) bool {
			return !slices.Contains(stores, d)
		}) {
			ledgers = append(ledgers, name)
		}
	}
	slices.Sort(ledgers)
	return slices.Compact(ledgers)
}

// ReadEffect reads a row of the store of the effects as it is stored. The error wraps
// state.ErrCorrupt.
func ReadEffect(row state.Entry) (id string, e Effect, err error) {
	if id, err = schemas.String().Decode(row.Key); err == nil {
		e, err = schemas.JSON[Effect]().Decode(row.Value)
	}
	if err == nil && e.Status == 0 {
		err = errNoRow
	}
	if err != nil {
		return "", Effect{}, fmt.Errorf("effect: %w: %w", state.ErrCorrupt, err)
	}
	return id, e, nil
}

const errNoRow = schemas.Reason("the row has no status, so it does not belong to a side-effect ledger")

// Claimed is a step of an effect that an opening of its task has claimed, and that has not ended as
// far as is known.
type Claimed struct {
	// Lookup says that the step only asks. The others are calls.
	Lookup bool
	// At is when it was claimed, and Expires when it has ended at the latest, in milliseconds since
	// the epoch. If the opening is gone, another one takes the claim for over when the grace has
	// passed on top (see [Claims]).
	At, Expires int64
}

// ReadClaims reads the rows of the store of the claims as they are stored, and returns the steps by
// the ids of their effects, of which each has one at most. An error about a row wraps
// state.ErrCorrupt.
func ReadClaims(rows iter.Seq2[state.Entry, error]) (map[string]Claimed, error) {
	claimed := map[string]Claimed{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		open, err := schemas.JSON[claim]().Decode(row.Value)
		if err != nil {
			return nil, fmt.Errorf("effect: %w: %w", state.ErrCorrupt, err)
		}
		for _, s := range open.Steps {
			claimed[s.ID] = Claimed{Lookup: s.Lookup, At: open.At, Expires: open.Expires}
		}
	}
	return claimed, nil
}

// ResolvedFrom returns the sources whose records [Resolve] takes for resolutions of the ledger with
// that name, each once. They are the topics that people write to, unless a source is a repartition
// topic.
func ResolvedFrom(d graph.Description, name string) []graph.SourceDescription {
	var from []graph.SourceDescription
	for _, sub := range d.Subtopologies {
		for _, source := range sub.Sources {
			if resolving(sub.Nodes, source.Topic, name) {
				from = append(from, source)
			}
		}
	}
	return from
}

// resolving reports whether records of the topic come to a node of Resolve for the ledger with that
// name: beside the two nodes of the ledger itself nothing else has its stores.
func resolving(nodes []graph.NodeDescription, topic, name string) bool {
	effects, agenda, claims := Stores(name)
	reached := map[string]bool{}
	var todo []graph.NodeDescription
	reach := func(found func(n graph.NodeDescription) bool) {
		for _, n := range nodes {
			if !reached[n.Name] && found(n) {
				reached[n.Name] = true
				todo = append(todo, n)
			}
		}
	}
	reach(func(n graph.NodeDescription) bool { return n.Kind == graph.SourceKind && n.Topic == topic })
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		if n.Name != name && n.Name != name+callerSuffix &&
			slices.Contains(n.Stores, effects) && slices.Contains(n.Stores, agenda) && slices.Contains(n.Stores, claims) {
			return true
		}
		reach(func(next graph.NodeDescription) bool {
			return slices.ContainsFunc(n.Next, func(e graph.EdgeDescription) bool { return e.To == next.Name })
		})
	}
	return false
}
