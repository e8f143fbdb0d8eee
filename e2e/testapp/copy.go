package testapp

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// NewCopy returns the copy's topology. Each record takes pace to copy: a copy is over in a second
// otherwise, and nothing could happen to it.
func NewCopy(prefix string, pace time.Duration) (*topology.Topology, error) {
	b := topology.NewBuilder("copy")
	source := topology.From(b, topology.Topic(prefix+In, schemas.String(), schemas.Bytes()))
	source.Peek("pace", func(topology.Record[string, []byte]) error {
		time.Sleep(pace)
		return nil
	}).Into(topology.Topic(prefix+Copied, schemas.String(), schemas.Bytes()))
	return b.Build()
}
