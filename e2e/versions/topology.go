// Package versions lets two builds of one application, this one and the next, share a group and a state directory: a rolling upgrade
// and its rollback while records are processed, one directory used by both in turn, and downgrades that have to be refused.
//
// The next build is this one with the tag onceward_next. Its state directory, its commit metadata and what its members tell the group
// have a minor version that is one higher and something in them that this build does not know. ONCEWARD_NEXT_MAJOR names those whose
// major version is one higher too: state, blob, plan.
package versions

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Settings are one instance of the application, which counts the records of each key.
type Settings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	In, Out     string
}

// Config is how the instance runs.
func (s Settings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		SessionTimeout: 15 * time.Second, CacheBytes: 8 << 20,
	}
}

// Topology writes, for each record, the how manyth of its key it is.
func (s Settings) Topology() (*topology.Topology, error) {
	text, number := schemas.String(), schemas.Int64()
	b := topology.NewBuilder("versions")
	count := func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
	) error {
		n, _, err := counts.Get(r.Key)
		if err == nil {
			err = counts.Put(r.Key, n+1)
		}
		if err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, n+1))
	}
	source := topology.From(b, topology.Topic(s.In, text, text))
	topology.Process(source, "count", topology.Store("counts", text, number), count).Into(topology.Topic(s.Out, text, number))
	return b.Build()
}
