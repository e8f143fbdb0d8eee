package admin

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestLostRecordsOfASource: if the cluster has lost records of a changelog, its topic is to be
// deleted. No text tells the operator to delete the topic of others that a table is restored from.
func TestLostRecordsOfASource(t *testing.T) {
	for _, c := range []restore.Changelog{
		{Store: "rows", Topic: "app-rows-changelog", TopicID: [16]byte{1}, HighWatermark: 9},
		{Store: "rows", Topic: "prices", TopicID: [16]byte{1}, HighWatermark: 9, FromSource: &graph.SourceRows{}},
	} {
		p := state.Positions{Changelogs: []state.Changelog{{Store: "rows", TopicID: c.TopicID, Applied: 10, Scanned: 10}}}
		committed := task.NewCommitMetadata([8]byte{1}, p)
		s := inspection{Inspection: restore.Inspection{Found: restore.Found{Commit: &committed, Changelogs: []restore.Changelog{c}}}}
		if err := (&operation{}).lostRecords(s); errors.Is(err, ErrRefused) != (c.FromSource == nil) {
			t.Errorf("%s: it returned %v", c.Topic, err)
		}
	}
}
