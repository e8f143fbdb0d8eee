package cli_test

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// lossyTopology keeps how often it has seen a key: at all, and since its task was opened. It writes
// the second number.
func lossyTopology() *topology.Topology {
	b := topology.NewBuilder("lossy")
	all := topology.KeyValueStore("all", schemas.String(), schemas.Int64())
	recent := topology.KeyValueStore("recent", schemas.String(), schemas.Int64()).LostOnRestart()
	node := topology.Stateful(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "see", all, recent)
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		all, recent, emit := all.In(t), recent.In(t), out.In(t)
		more := func(s state.KeyValue[string, int64], key string) (int64, error) {
			n, _, err := s.Get(key)
			if err != nil {
				return 0, err
			}
			return n + 1, s.Put(key, n+1)
		}
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if _, err := more(all, r.Key); err != nil {
				return err
			}
			n, err := more(recent, r.Key)
			if err != nil {
				return err
			}
			return emit(c, topology.WithValue(r, "seen"+"!!!"[:min(n, 3)]))
		}, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}
