package pebblestore_test

import (
	"fmt"
	"os"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// A task's database in two incarnations of a process.
func ExampleOpen() {
	path, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	shared := pebblestore.NewShared(64<<20, 500) // for all databases of the process
	defer shared.Close()

	for range 2 {
		db, err := pebblestore.Open(path, pebblestore.Options{Shared: shared})
		if err != nil {
			fmt.Println(err)
			return
		}
		task, err := state.NewTask(db, state.KeyValues("visits"))
		if err != nil {
			fmt.Println(err)
			return
		}
		visits := task.Store("visits")
		value, ok, err := visits.Get([]byte("/docs"))
		fmt.Printf("found %q %t %v\n", value, ok, err)

		if err := visits.Put([]byte("/docs"), []byte("1")); err != nil {
			fmt.Println(err)
			return
		}
		layer, base := task.Freeze(), task.Positions()
		next := base.Clone()
		in, _ := base.Input("pages", 0)
		next.SetInput(state.Input{Topic: "pages", Offset: in.Offset + 1, StreamTime: state.NoTime})
		if err := task.Apply(layer, base, next); err != nil {
			fmt.Println(err)
			return
		}
		task.Retire(layer)
		fmt.Println(task.Positions())
		if err := task.Close(); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// found "" false <nil>
	// round none state none inputs pages-0@1 changelogs
	// found "1" true <nil>
	// round none state none inputs pages-0@2 changelogs
}
