package projection_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The second definition of a projection counts pieces instead of orders. It is built beside the
// first, compared with it, switched to, and switched back.
func ExampleChoose() {
	type order = topology.Record[string, int64] // a number of pieces
	orders := topology.Topic("orders", schemas.String(), schemas.Int64())
	stock := topology.Topic("stock", schemas.String(), schemas.JSON[projection.Row[int64]]())
	commands := topology.Topic("stock-commands", schemas.Bytes(), schemas.JSON[projection.Command]())
	answers := topology.Topic("stock-answers", schemas.Bytes(), schemas.JSON[projection.Answer]())

	version := func(r order) (int64, error) { _, _, offset := r.Source(); return offset, nil }
	b := topology.NewBuilder("stock", topology.DeadLetters("stock.dead"))
	source := topology.From(b, orders)
	byOrder := projection.Latest(source, "stock-by-order", version,
		func(n int64, _ bool, _ order) (int64, error) { return n + 1, nil }, schemas.Int64(), projection.Sparse())
	byPiece := projection.Latest(source, "stock-by-piece", version,
		func(n int64, _ bool, r order) (int64, error) { return n + r.Value, nil }, schemas.Int64(),
		projection.Sparse(), projection.DefinitionVersion(2))
	choice := projection.Choose(topology.From(b, commands), "stock", schemas.Int64(), []projection.Defined[string, int64]{
		projection.Define(1, byOrder.Changes()), projection.Define(2, byPiece.Changes()),
	})
	choice.Changes().Into(stock)
	choice.Answers().Into(answers)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func() {
		rows, err := topologytest.Output(d, stock)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range rows {
			fmt.Println(r.Key, r.Value.Value)
		}
		given, err := topologytest.Output(d, answers)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range given {
			fmt.Println(r.Value.Outcome, "to", r.Value.Active, "-", r.Value.Reason)
		}
	}
	for _, pieces := range []int64{10, 20} {
		if err := topologytest.Pipe(d, orders, "bolt", pieces); err != nil {
			fmt.Println(err)
			return
		}
	}
	show()
	for _, c := range []projection.Command{
		{ID: "c1", Action: projection.Switch, From: 1, To: 2},
		{ID: "c2", Action: projection.Switch, From: 2, To: 1},
	} {
		if err := topologytest.Pipe(d, commands, []byte("operator"), c); err != nil {
			fmt.Println(err)
			return
		}
		show()
	}
	// Output:
	// bolt 1
	// bolt 2
	// bolt 30
	// switched to 2 - the definition holds up to the comparison
	// bolt 2
	// switched to 1 - the definition holds up to the comparison
}
