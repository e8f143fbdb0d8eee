package topology

import (
	"fmt"
	"sync/atomic"

	"github.com/onceward/onceward/topology/graph"
)

// Gauge is a number of a node that goes up and down, such as how long something has waited. It is
// for metrics alone: it is neither a part of the unit at work nor undone with it, no restart keeps
// it, and nothing that a result depends on may read it. It shows what was set last, and 0 before.
type Gauge struct {
	node, name string
	value      atomic.Int64
}

// Gauge returns a gauge of the node. Its name, which says the unit too, is unique in the node. It
// may be set by any goroutine.
func (t *Setup) Gauge(name string) *Gauge {
	g := &Gauge{node: t.node.name, name: name}
	if err := graph.CheckName(name); err != nil {
		t.errs = append(t.errs, fmt.Errorf("name of a gauge: %w", err))
	}
	for _, other := range t.graph.gauges {
		if other.node == g.node && other.name == name {
			t.errs = append(t.errs, fmt.Errorf("gauge %s is named twice", name))
		}
	}
	t.graph.gauges = append(t.graph.gauges, g)
	return g
}

// Set makes the gauge show n.
func (g *Gauge) Set(n int64) { g.value.Store(n) }

// Gauges returns what the gauges of the nodes show. It may be called from any goroutine.
func (g *Graph) Gauges() []graph.GaugeReading {
	readings := make([]graph.GaugeReading, len(g.gauges))
	for i, gauge := range g.gauges {
		readings[i] = graph.GaugeReading{Node: gauge.node, Name: gauge.name, Value: gauge.value.Load()}
	}
	return readings
}
