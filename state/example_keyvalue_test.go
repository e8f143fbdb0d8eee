package state_test

import (
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

func ExampleKeyValue() {
	task, err := state.NewTask(memstore.New(), state.KeyValues("visits"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer task.Close()
	visits := state.NewKeyValue(task.Store("visits"), text{}, number{})

	for _, page := range []string{"/docs", "/", "/docs"} {
		n, _, err := visits.Get(page)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := visits.Put(page, n+1); err != nil {
			fmt.Println(err)
			return
		}
	}
	for p, err := range visits.All() {
		fmt.Println(p.Key, p.Value, err)
	}
	// Output:
	// / 1 <nil>
	// /docs 2 <nil>
}
