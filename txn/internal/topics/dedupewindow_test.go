package topics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// TestInputRetentionBeyondTheDedupeWindow: an input whose retention exceeds the dedupe window of a
// node is refused, or reported if the node tolerates it, also through a repartition topic. A
// retention within the window is neither. Requirement C8.
func TestInputRetentionBeyondTheDedupeWindow(t *testing.T) {
	const day = 24 * time.Hour // kfake keeps records for seven of them, as Kafka does
	for _, test := range []struct {
		name      string
		retention time.Duration
		set       map[string]string
		refused   string
	}{
		{"equal", 7 * day, nil, ""},
		{"longer", 8 * day, nil, ""},
		{"shorter", 7*day - time.Millisecond, nil, "topic in: retention.ms is 604800000 and has to be at most 604799999: " +
			"node remember recognises a record for 167h59m59.999s of stream time, " +
			"and the topic could bring one back after that; "},
		{"for ever", 7 * day, map[string]string{"retention.ms": "-1"}, "retention.ms is -1 and has to be at most 604800000: "},
		{"compacted", 7 * day, map[string]string{"cleanup.policy": "compact"},
			"cleanup.policy is compact and has to be delete, with a retention.ms of at most 604800000: "},
		{"both", 7 * day, map[string]string{"cleanup.policy": "compact,delete"}, ""},
	} {
		for _, tolerated := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				c := newCluster(t)
				for key, value := range test.set {
					c.set("in", key, value)
				}
				plan, err := topics.Check(t.Context(), c.Cluster, remembering(t, test.retention, tolerated), topics.Options{})
				refused := test.refused != "" && !tolerated
				if (err != nil) != refused || refused && !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("the error is %v, want %q", err, test.refused)
				}
				told := plan.Tolerated()
				want := test.refused != "" && tolerated
				if want != (len(told) == 1) || want && !strings.Contains(told[0].Error(), test.refused) {
					t.Errorf("what is tolerated is %v, want %q", told, test.refused)
				}
			})
		}
	}
}

// remembering has a node behind a repartitioning of in, and one behind dead that remembers nothing.
func remembering(t *testing.T, retention time.Duration, tolerated bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app")
	from := func(name string) topology.Stream[string, string] {
		return topology.From(b, topology.Topic(name, schemas.String(), schemas.String()))
	}
	node := topology.Stateful(topology.RepartitionWith(from("in"), "by-id", schemas.String(), schemas.String()), "remember")
	node.DedupeWindow(retention, tolerated).Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	from("dead").Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}
