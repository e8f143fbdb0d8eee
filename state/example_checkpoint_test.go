package state_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// A task's database is taken over by another instance.
func ExampleDirectory_CheckpointTask() {
	if err := checkpointAndImport(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// round none state none inputs pages-0@7 changelogs
}

func checkpointAndImport() error {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	open := func(path string) (state.Database, error) { return pebblestore.Open(path, pebblestore.Options{}) }
	var instances [2]*state.Directory
	for i := range instances {
		d, err := state.OpenDirectory(filepath.Join(base, fmt.Sprint("node-", i)),
			state.DirectoryOptions{Application: "visits", Open: open})
		if err != nil {
			return err
		}
		defer d.Close()
		instances[i] = d
	}

	// The first instance works, and gives a checkpoint away.
	path, err := instances[0].TaskPath("pages", 0)
	if err != nil {
		return err
	}
	db, err := open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	var next state.Positions
	next.SetInput(state.Input{Topic: "pages", Offset: 7, StreamTime: state.NoTime})
	if err := db.Apply(state.Positions{}, next, func(func(state.Write) bool) {}); err != nil {
		return err
	}
	checkpoint := filepath.Join(base, "checkpoint")
	if err := instances[0].CheckpointTask("pages", 0, db, checkpoint); err != nil {
		return err
	}

	// The second one begins where it is, and not at the start of the changelogs.
	if err := instances[1].ImportTask("pages", 0, checkpoint); err != nil {
		return err
	}
	if path, err = instances[1].TaskPath("pages", 0); err != nil {
		return err
	}
	imported, err := open(path)
	if err != nil {
		return err
	}
	fmt.Println(imported.Positions())
	return imported.Close()
}
