package cli_test

import (
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// ratedTopology joins what comes in with a global table of rates.
func ratedTopology() *topology.Topology {
	b := topology.NewBuilder("rated", topology.DeadLetters("dead"))
	rates := schemas.JSON[int]()
	table := topology.GlobalTableFrom(b, topology.Topic("rates", schemas.String(), rates),
		topology.TimestampedStore("rate-table", schemas.String(), rates))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	topology.JoinGlobalTable(in, table, "rate",
		func(r topology.Record[string, string]) (topology.Option[string], error) {
			return topology.Some(r.Value), nil
		},
		func(_, name string, rate int) (string, error) { return fmt.Sprint(name, "=", rate), nil }).
		Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}
