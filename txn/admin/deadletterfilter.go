package admin

import (
	"bytes"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// DeadLetterFilter chooses dead letters. A dead letter has to match every field that is set, and
// one value of a field with several values. The zero DeadLetterFilter chooses all dead letters that
// were not redriven.
type DeadLetterFilter struct {
	IDs          []string
	Keys         [][]byte // as in [DeadLetter.OwnKey]; a nil one is the null key
	Classes      []graph.Class
	Nodes        []string
	Applications []string
	// Topics match the topic in which the record died first. They also match the topic of the
	// input, if an internal topic keeps that (topology.KeepOrigin). So the name of an input finds
	// its records without knowledge of the internal topics.
	Topics []string
	// Since and Until bound the time of the last failure: at or after Since, before Until.
	Since, Until time.Time
	// Redriven chooses also dead letters that were redriven.
	Redriven bool
}

// Matches reports whether the filter chooses the dead letter.
func (f *DeadLetterFilter) Matches(l *DeadLetter) bool {
	among := func(texts []string, text string) bool { return len(texts) == 0 || slices.Contains(texts, text) }
	switch {
	case !f.Redriven && !l.Redriven.IsZero(), !among(f.IDs, l.ID), !among(f.Nodes, l.Node), !among(f.Applications, l.Application),
		!among(f.Topics, l.Origin.Topic) && (l.Source.Topic == "" || !among(f.Topics, l.Source.Topic)), len(f.Classes) > 0 && !slices.Contains(f.Classes, l.Class):
		return false
	case !f.Since.IsZero() && l.LastFailure.Before(f.Since), !f.Until.IsZero() && !l.LastFailure.Before(f.Until):
		return false
	case len(f.Keys) == 0:
		return true
	}
	own := l.OwnKey()
	return slices.ContainsFunc(f.Keys, func(k []byte) bool { return (k == nil) == (own == nil) && bytes.Equal(k, own) })
}
