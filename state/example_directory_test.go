package state_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/state"
)

func ExampleOpenDirectory() {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(base)
	d, err := state.OpenDirectory(base, state.DirectoryOptions{Application: "payments", Instance: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	fmt.Println(d.Instance())

	path, err := d.TaskPath("ledger", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	below, _ := filepath.Rel(base, path)
	fmt.Println(filepath.ToSlash(below))

	_, err = d.TaskPath("../../etc", 3)
	fmt.Println(err != nil)
	// Output:
	// node-1
	// tasks/ledger/3
	// true
}
