package simulation

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestPurgeBeyondTheCommitIsFound: a purge up to the committed position is right, one record more
// is a finding.
func TestPurgeBeyondTheCommitIsFound(t *testing.T) {
	purge := func(offset int64) *kmsg.DeleteRecordsRequest {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = 1, offset
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic, topic.Partitions = "repartition", []kmsg.DeleteRecordsRequestTopicPartition{p}
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = append(req.Topics, topic)
		return req
	}
	committed := func(topic string, partition int32) int64 {
		if topic == "repartition" && partition == 1 {
			return 7
		}
		return 0
	}
	if wrong := purgedEarly(purge(7), committed); len(wrong) > 0 {
		t.Errorf("a purge up to the committed position: %q", wrong)
	}
	if wrong := purgedEarly(purge(8), committed); len(wrong) != 1 {
		t.Errorf("a purge beyond the committed position: %q", wrong)
	}
}

// TestTaskThatDoesNotRunOnceIsFound: a task that no instance runs, and one that two run, keep a run
// from its end.
func TestTaskThatDoesNotRunOnceIsFound(t *testing.T) {
	task := func(partition int32, state txn.TaskState) txn.TaskStatus {
		return txn.TaskStatus{ID: graph.TaskID{Partition: partition}, State: state}
	}
	running, restoring := task(0, txn.TaskRunning), task(0, txn.TaskRestoring)
	other := task(1, txn.TaskRunning)
	status := func(tasks ...txn.TaskStatus) txn.Status { return txn.Status{Tasks: tasks} }
	for _, c := range []struct {
		name     string
		statuses []txn.Status
		ok       bool
	}{
		{"each runs once", []txn.Status{status(running), status(other)}, true},
		{"one instance runs both", []txn.Status{status(running, other), {}}, true},
		{"one runs twice", []txn.Status{status(running, other), status(running)}, false},
		{"one restores", []txn.Status{status(restoring, other)}, false},
		{"one is missing", []txn.Status{status(running)}, false},
	} {
		if why := runningOnce(c.statuses); (why == "") != c.ok {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
