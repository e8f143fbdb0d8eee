package faults

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// restoreSettings are one life of an application that counts the records of each key in two stores
// of one task. The first deletes a key with every fifth record, so that its changelog has
// tombstones; the second never does. An output names both counts. Whatever was done to the state in
// between, the next output of a key has to be the successor of its last one: it shows a write that
// a restore has lost, doubled, or taken from a transaction that did not commit. Values are padded,
// so that a restore is many chunks.
type restoreSettings struct {
	Brokers     []string
	Application string
	StateDir    string
	In, Out     string
}

// Config returns the configuration, with the least memory for restores that is allowed.
func (s restoreSettings) Config() txn.Config {
	return txn.Config{Brokers: s.Brokers, Application: s.Application, StateDir: s.StateDir, RestoreBytesMax: 8 << 20}
}

// cycleLength is how many records of a key it takes until the first store deletes it.
const cycleLength = 5

// padding is how long the values in the stores are.
const padding = 600

// The stores.
var (
	cycleStore = topology.KeyValueStore("cycles", schemas.String(), schemas.String())
	totalStore = topology.KeyValueStore("totals", schemas.String(), schemas.String())
)

// Topology returns the topology.
func (s restoreSettings) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("restoring")
	in := topology.From(b, topology.Topic(s.In, schemas.String(), schemas.String()))
	cycled := topology.Process(in, "cycle", cycleStore, cycle)
	topology.Process(cycled, "total", totalStore, number).Into(topology.Topic(s.Out, schemas.String(), schemas.String()))
	return b.Build()
}

// cycle counts from 1 to cycleLength, again and again.
func cycle(c *topology.Context, cycles state.KeyValue[string, string], r text, emit topology.Emit[string, string]) error {
	n, err := next(cycles, r.Key)
	if err != nil {
		return err
	}
	if n == cycleLength {
		err = cycles.Delete(r.Key)
	} else {
		err = cycles.Put(r.Key, padded(n))
	}
	if err != nil {
		return err
	}
	return emit(c, text{Key: r.Key, Value: fmt.Sprint(n), Timestamp: r.Timestamp})
}

// number counts all records of a key.
func number(c *topology.Context, totals state.KeyValue[string, string], r text, emit topology.Emit[string, string]) error {
	n, err := next(totals, r.Key)
	if err != nil {
		return err
	}
	if err := totals.Put(r.Key, padded(n)); err != nil {
		return err
	}
	return emit(c, text{Key: r.Key, Value: r.Value + "/" + fmt.Sprint(n), Timestamp: r.Timestamp})
}

// next returns the successor of the count that a store has.
func next(counts state.KeyValue[string, string], key string) (n int, err error) {
	before, there, err := counts.Get(key)
	if err != nil || !there {
		return 1, err
	}
	if _, err := fmt.Sscan(before, &n); err != nil {
		return 0, err
	}
	return n + 1, nil
}

func padded(n int) string { return fmt.Sprint(n, " ", strings.Repeat("=", padding)) }
