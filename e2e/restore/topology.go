// Package restore kills restores, stands in their way, and takes their ground away, and compares what comes out of it.
//
// # The application
//
// It counts the records of each key in two stores of one task: in one of them a key is deleted with every fifth record, so that its changelog
// has tombstones, in the other it never is. An output names both counts. Whatever was done to the state in between, the next output of
// a key has to be the successor of its last one: a write that a restore has lost, doubled, or taken from a transaction that did not commit
// shows there. Values are padded, so that a restore is many chunks.
//
// # What is done to it
//
//	killed           at every point of a restore, again and again on one directory: each life goes on where the last one was. On virtual
//	                 time that is after any number of frames, on real Kafka at each failpoint
//	a transaction    of somebody else is open on the changelog: the restore waits, says whose it is, and goes on after its end
//	compaction       of the changelogs, while the instance was away
//	the directory    is deleted, replaced by an older copy of itself, and made read-only
//
// # What it is not
//
// It measures nothing, and it is not about rounds: package crash kills those. Processes of their own are left to what needs one, a kill on real
// Kafka and the rights of another user, and need Unix signals.
package restore

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Settings are one life of the application.
type Settings struct {
	Brokers     []string
	Application string
	StateDir    string
	In, Out     string
}

// Config returns the configuration, with the least memory for restores that there is.
func (s Settings) Config() txn.Config {
	return txn.Config{Brokers: s.Brokers, Application: s.Application, StateDir: s.StateDir, RestoreBytesMax: 8 << 20}
}

// Cycle is how many records of a key it takes until the first store deletes it.
const Cycle = 5

// Padding is how long the values in the stores are.
const Padding = 600

// The stores.
var (
	Cycles = topology.Store("cycles", schemas.String(), schemas.String())
	Totals = topology.Store("totals", schemas.String(), schemas.String())
)

type text = topology.Record[string, string]

// Topology returns the topology.
func (s Settings) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("restoring")
	in := topology.From(b, topology.Topic(s.In, schemas.String(), schemas.String()))
	cycled := topology.Process(in, "cycle", Cycles, cycle)
	topology.Process(cycled, "total", Totals, total).Into(topology.Topic(s.Out, schemas.String(), schemas.String()))
	return b.Build()
}

// cycle counts from 1 to Cycle and begins anew.
func cycle(c *topology.Context, cycles state.KeyValue[string, string], r text, emit topology.Emit[string, string]) error {
	n, err := next(cycles, r.Key)
	if err != nil {
		return err
	}
	if n == Cycle {
		err = cycles.Delete(r.Key)
	} else {
		err = cycles.Put(r.Key, padded(n))
	}
	if err != nil {
		return err
	}
	return emit(c, text{Key: r.Key, Value: fmt.Sprint(n), Timestamp: r.Timestamp})
}

func total(c *topology.Context, totals state.KeyValue[string, string], r text, emit topology.Emit[string, string]) error {
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

func padded(n int) string { return fmt.Sprint(n, " ", strings.Repeat("=", Padding)) }
