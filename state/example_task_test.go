package state_test

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// A round from the first record to the committed state. The second record fails and leaves no
// trace.
func ExampleTask() {
	task, err := state.NewTask(memstore.New(), state.KeyValues("balances"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer task.Close()
	balances := state.NewKeyValue(task.Store("balances"), text{}, number{})

	task.Mark()
	_ = balances.Put("alice", 100)

	task.Mark()
	_ = balances.Put("alice", 90)
	_ = balances.Put("mallory", 10)
	task.Revert()

	layer := task.Freeze()
	for w := range layer.Writes() { // these become changelog records
		fmt.Printf("changelog: %s = %d bytes\n", w.Key, len(w.Value))
	}

	// The transaction is committed: the layer becomes part of the database, with the position
	// behind the records.
	base := task.Positions()
	next := base.Clone()
	next.SetInput(state.Input{Topic: "payments", Partition: 0, Offset: 2, StreamTime: state.NoTime})
	if err := task.Apply(layer, base, next); err != nil {
		fmt.Println(err)
		return
	}
	task.Retire(layer)

	v, _, _ := balances.Get("alice")
	fmt.Println("alice:", v)
	fmt.Println(task.Positions())

	// Output:
	// changelog: alice = 8 bytes
	// alice: 100
	// round none state none inputs payments-0@2 changelogs
}

// A late resolver of an unanswered commit finds the database further on. It is refused and changes
// nothing.
func ExampleDatabase_apply() {
	db := memstore.New()
	defer db.Close()
	first := state.Positions{Inputs: []state.Input{{Topic: "in", Offset: 5}}}
	second := state.Positions{Inputs: []state.Input{{Topic: "in", Offset: 9}}}
	none := func(func(state.Write) bool) {}
	fmt.Println(db.Apply(state.Positions{}, first, none))
	fmt.Println(db.Apply(first, second, none))

	err := db.Apply(state.Positions{}, first, none)
	var base *state.BaseError
	fmt.Println(errors.Is(err, state.ErrBase), errors.As(err, &base))
	fmt.Println("the batch was made for", base.Base.Inputs)
	fmt.Println("the database is at", base.Actual.Inputs)
	// Output:
	// <nil>
	// <nil>
	// true true
	// the batch was made for []
	// the database is at [{in 0 9 0}]
}
