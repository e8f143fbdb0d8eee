package restore

import (
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
)

// TestRoundsTopicIsNotThere: what a commit names in a rounds topic that is not there is gone. A
// plan says so, and a start that looks for what waits comes to create the topic.
func TestRoundsTopicIsNotThere(t *testing.T) {
	r := &Restorer{Cluster: &broker.Cluster{}, Layout: topics.Layout{}, RoundsTopic: "counting-rounds"}
	reference := task.Reference{Round: state.RoundID{ProducerID: 7}, Offset: 3}.Encode()
	b, err := r.Parse(t.Context(), Request{Task: graph.TaskID{Subtopology: "in"}}, reference)
	if b != nil || err != nil {
		t.Errorf("it returned %+v, %v", b, err)
	}
}
