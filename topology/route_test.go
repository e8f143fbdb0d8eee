package topology_test

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestIntoOneOf: each record goes to the topic that is chosen for it, and to no other.
func TestIntoOneOf(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		topology.From(b, leftTopic).IntoOneOf("route", func(r word) (topology.TopicOf[string, string], error) {
			switch r.Value {
			case "out":
				return outTopic, nil
			case "second":
				return secondTopic, nil
			case "fail":
				return topology.TopicOf[string, string]{}, topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return otherTopic, nil
		}, []topology.TopicOf[string, string]{secondTopic, outTopic})
	})
	for _, value := range []string{"second", "out"} {
		v := want(t, k.send("left", 5, "a", value), graph.Accept)
		if got := lines(v.Outputs); got != fmt.Sprintf("%s %q=%q", value, "a", value) {
			t.Errorf("the outputs are %s", got)
		}
	}
	v := want(t, k.send("left", 5, "a", "fail"), topology.DeadLetter)
	if v.Failure.Class != topology.Validation || v.Failure.Node != "route" {
		t.Errorf("the failure is %v", v.Failure)
	}
	v = want(t, k.send("left", 5, "a", "elsewhere"), topology.Stop)
	if v.Failure.Class != topology.Config || v.Failure.Node != "route" {
		t.Errorf("the failure is %v", v.Failure)
	}
}
