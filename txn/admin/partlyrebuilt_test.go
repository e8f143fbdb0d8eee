package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
)

// TestPartly: what says that nothing was changed is true.
func TestPartly(t *testing.T) {
	task := func(n int32) target { return target{id: graph.TaskID{Subtopology: "in", Partition: n}} }
	stop := &restore.StopError{Task: task(2).id, Reason: "offsets were moved"}
	if err := partly(nil, task(2), stop); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "task in_2: offsets were moved") {
		t.Errorf("the first task: %v", err)
	}
	err := partly([]target{task(0), task(1)}, task(2), stop)
	if errors.Is(err, ErrRefused) || !errors.Is(err, stop) || !strings.HasPrefix(err.Error(), "rebuilt are in_0, in_1; in_2 is as it was: ") {
		t.Errorf("the third task: %v", err)
	}
}
