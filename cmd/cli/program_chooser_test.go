package cli_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// chooserTopology chooses between two definitions: the rows of the first are made of orders, those
// of the second of the topic again.
func chooserTopology() *topology.Topology {
	b := topology.NewBuilder("chooser", topology.DeadLetters("dead"))
	offset := func(r topology.Record[string, string]) (int64, error) { _, _, at := r.Source(); return at, nil }
	define := func(n uint16, topic string) projection.Defined[string, string] {
		source := topology.From(b, topology.Topic(topic, schemas.String(), schemas.String()))
		rows := projection.Latest(source, topic+"-rows", offset,
			func(_ string, _ bool, r topology.Record[string, string]) (string, error) {
				return fmt.Sprint(n, ":", r.Value), nil
			},
			schemas.String(), projection.Sparse(), projection.DefinitionVersion(n))
		return projection.Define(n, rows.Changes())
	}
	commands := topology.From(b, topology.Topic("commands", schemas.Bytes(), schemas.JSON[projection.Command]()))
	choice := projection.Choose(commands, "choice", schemas.String(), []projection.Defined[string, string]{
		define(1, "orders"), define(2, "again"),
	})
	choice.Changes().Into(topology.Topic("stock", schemas.String(), schemas.JSON[projection.Row[string]]()))
	choice.Answers().Into(topology.Topic("answers", schemas.Bytes(), schemas.JSON[projection.Answer]()))
	return mustBuild(b)
}
