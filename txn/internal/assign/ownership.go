package assign

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/onceward/onceward/topology/graph"
)

// Subtopology is what the assignment has to know of one.
type Subtopology struct {
	Name string
	// Sources are its input topics; they have equal partition counts.
	Sources []string
	// PartitionsMax bounds the tasks: the partitions of the changelogs. Partitions that the sources
	// gained later are not assigned. 0 says that there is no bound.
	PartitionsMax int32
	// Stateful says that its tasks have stores, so that there can be copies of them.
	Stateful bool
}

// Claim is a task as it was when it was opened.
type Claim struct {
	Task   graph.TaskID
	Epoch  uint64
	Member string
}

// Ownership follows the group's callbacks. It is safe for concurrent use.
type Ownership struct {
	subtopologies map[string]Subtopology
	byTopic       map[string]string

	mu struct {
		sync.Mutex
		assigned map[string]map[int32]bool
		epochs   map[graph.TaskID]uint64
		owned    map[graph.TaskID]bool
	}
}

// New returns an ownership without any task.
func New(subtopologies []Subtopology) *Ownership {
	o := &Ownership{subtopologies: map[string]Subtopology{}, byTopic: map[string]string{}}
	for _, s := range subtopologies {
		o.subtopologies[s.Name] = s
		for _, t := range s.Sources {
			o.byTopic[t] = s.Name
		}
	}
	o.mu.assigned = map[string]map[int32]bool{}
	o.mu.epochs = map[graph.TaskID]uint64{}
	o.mu.owned = map[graph.TaskID]bool{}
	return o
}

// Add takes assigned partitions and returns the tasks that are complete now, in order.
func (o *Ownership) Add(partitions map[string][]int32) []graph.TaskID {
	o.mu.Lock()
	defer o.mu.Unlock()
	touched := map[graph.TaskID]bool{}
	for topic, ps := range partitions {
		if _, known := o.byTopic[topic]; !known {
			continue // of another version of the topology
		}
		if o.mu.assigned[topic] == nil {
			o.mu.assigned[topic] = map[int32]bool{}
		}
		for _, p := range ps {
			o.mu.assigned[topic][p] = true
			touched[graph.TaskID{Subtopology: o.byTopic[topic], Partition: p}] = true
		}
	}
	var complete []graph.TaskID
	for id := range touched {
		if !o.mu.owned[id] && o.completeLocked(id) {
			o.mu.owned[id] = true
			complete = append(complete, id)
		}
	}
	slices.SortFunc(complete, compareTasks)
	return complete
}

func (o *Ownership) completeLocked(id graph.TaskID) bool {
	for _, topic := range o.subtopologies[id.Subtopology].Sources {
		if !o.mu.assigned[topic][id.Partition] {
			return false
		}
	}
	return true
}

// Remove takes partitions away, raises the epoch of every task that they belong to and returns
// those that were owned, in order. From here on no commit of these tasks passes Check.
func (o *Ownership) Remove(partitions map[string][]int32) []graph.TaskID {
	o.mu.Lock()
	defer o.mu.Unlock()
	given := map[graph.TaskID]bool{}
	for topic, ps := range partitions {
		for _, p := range ps {
			delete(o.mu.assigned[topic], p)
			given[graph.TaskID{Subtopology: o.byTopic[topic], Partition: p}] = true
		}
	}
	var out []graph.TaskID
	for id := range given {
		o.mu.epochs[id]++
		if o.mu.owned[id] {
			delete(o.mu.owned, id)
			out = append(out, id)
		}
	}
	slices.SortFunc(out, compareTasks)
	return out
}

// Partial reports whether some inputs of a task that is not owned are still assigned.
func (o *Ownership) Partial(id graph.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.subtopologies[id.Subtopology].Sources, func(topic string) bool { return o.mu.assigned[topic][id.Partition] })
}

// Partitions returns how many inputs are assigned, also of tasks that are not complete.
func (o *Ownership) Partitions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, of := range o.mu.assigned {
		n += len(of)
	}
	return n
}

// Owned returns the tasks that are owned now, in no order.
func (o *Ownership) Owned() []graph.TaskID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.mu.owned))
}

// Epoch returns a task's epoch now; ok is false when the task is not owned.
func (o *Ownership) Epoch(id graph.TaskID) (epoch uint64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.epochs[id], o.mu.owned[id]
}

// ErrGivenUp says that a task of the round is not owned any more.
var ErrGivenUp = errors.New("given up")

// ErrMemberChanged says that the process is in the group as another member than when its tasks were
// opened. Another process may have owned them in between, so all of them are lost.
var ErrMemberChanged = errors.New("the group knows this process as a new member")

// Check compares the claims and reads the membership in one step. member must not block.
func (o *Ownership) Check(claims []Claim, member func() (id string, generation int32)) (id string, generation int32, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, generation = member()
	for _, c := range claims {
		if !o.mu.owned[c.Task] || o.mu.epochs[c.Task] != c.Epoch {
			return "", -1, fmt.Errorf("task %s was %w", c.Task, ErrGivenUp)
		}
		if c.Member != id {
			return "", -1, fmt.Errorf("task %s: %w", c.Task, ErrMemberChanged)
		}
	}
	return id, generation, nil
}

func compareTasks(a, b graph.TaskID) int {
	if c := strings.Compare(a.Subtopology, b.Subtopology); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}
