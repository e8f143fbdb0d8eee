package topology_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/topology"
)

// TestSinkIntoOwnSource: a sink that writes to a topic that the topology reads is a mistake, unless
// it is stated, and the statement is one anywhere else.
func TestSinkIntoOwnSource(t *testing.T) {
	for name, test := range map[string]struct {
		build func(b *topology.Builder)
		want  string
	}{
		"not stated": {func(b *topology.Builder) { topology.From(b, wordsTopic).Into(wordsTopic) },
			"words-sink: what is written to words comes back through words-source ("},
		"a chain is no circle": {func(b *topology.Builder) {
			topology.From(b, wordsTopic).Into(otherTopic)
			topology.From(b, otherTopic).Into(outTopic)
		}, ""},
		"a circle of topics": {func(b *topology.Builder) {
			topology.From(b, wordsTopic).Into(otherTopic)
			repartition(topology.From(b, otherTopic), "r").Into(wordsTopic)
		}, "other-sink: what is written to other comes back through other-source ("},
		"a circle of topics, stated by one": {func(b *topology.Builder) {
			topology.From(b, wordsTopic).Into(otherTopic)
			repartition(topology.From(b, otherTopic), "r").Into(wordsTopic, topology.Feedback())
		}, ""},
		"stated": {func(b *topology.Builder) {
			topology.From(b, wordsTopic).Filter("some", pass).Into(wordsTopic, topology.Feedback())
		}, ""},
		"stated for nothing": {func(b *topology.Builder) { topology.From(b, wordsTopic).Into(outTopic, topology.Feedback()) },
			"the topology does not read out, so nothing comes back; leave Feedback out"},
		"of an operator": {func(b *topology.Builder) {
			topology.From(b, wordsTopic).Filter("some", pass, topology.Feedback()).Into(outTopic)
		}, "Feedback is an option of sinks"},
	} {
		b := topology.NewBuilder("app")
		test.build(b)
		_, err := b.Build()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Build says %v, want %q", name, err, test.want)
		}
	}
}
