package topologytest

import (
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// task is one task with its graph, its state and its inputs.
type task struct {
	driver     *Driver
	id         topology.TaskID
	state      *state.Task
	graph      *topology.Graph
	inputs     []*partition
	streamTime int64
	stopped    error
}

// open makes the graph.
func (t *task) open() error {
	d := t.driver
	graph, err := d.topology.NewGraph(t.id, t.state, topology.GraphConfig{
		Partitions: func(name string) int32 {
			if topic, ok := d.topics[name]; ok {
				return int32(len(topic.partitions))
			}
			return 0
		},
		MaxMessageBytes: func(name string) int32 { return d.settings.maxMessageBytes[name] },
		Compacted:       func(name string) bool { return d.settings.compacted[name] },
		Now:             d.Now,
	})
	if err != nil {
		return err
	}
	t.graph = graph
	t.stopped = nil
	return nil
}

func (t *task) pending() bool { return t.next() != nil }

// next returns the input whose first record is the oldest, nil if there is none.
func (t *task) next() *partition {
	var oldest *partition
	for _, in := range t.inputs {
		if in.empty() {
			continue
		}
		if oldest == nil || in.first().Timestamp < oldest.first().Timestamp {
			oldest = in
		}
	}
	return oldest
}

// step processes one record to its end. It returns false if there is nothing to do, or the task is stopped.
func (t *task) step() bool {
	if t.stopped != nil {
		return false
	}
	p := t.next()
	if p == nil {
		return false
	}
	r := p.first()
	in := topology.Input{
		Topic:      p.topic,
		Partition:  p.number,
		Offset:     p.position,
		Timestamp:  r.Timestamp,
		StreamTime: max(t.streamTime, r.Timestamp),
		Key:        r.Key,
		Value:      r.Value,
		Headers:    r.Headers,
		Attempt:    1,
	}
	v := t.graph.Process(in)
	for v.Action == topology.Retry {
		if in.Attempt == 1 {
			in.FirstFailure = t.driver.Now()
		}
		in.Attempt++
		t.driver.Advance(max(v.Backoff, time.Millisecond))
		v = t.graph.Process(in)
	}
	if v.Action == topology.Stop {
		t.stopped = v.Failure
		return false
	}
	if v.Action == topology.Accept {
		t.streamTime = in.StreamTime
	}
	t.driver.deliver(v.Outputs)
	for _, c := range v.Counts {
		t.driver.counts[outcome{c.Node, c.Outcome}] += c.N
	}
	p.advance()
	return true
}
