package admin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/admin"
)

// ExampleOpenState reads what an instance has left, as it would read one that runs.
func ExampleOpenState() {
	parent, err := os.MkdirTemp("", "example")
	must(err)
	defer os.RemoveAll(parent)
	path := filepath.Join(parent, "state")
	leaveState(path)

	ctx := context.Background()
	s, err := admin.OpenState(ctx, path)
	must(err)
	defer s.Close()
	row, err := s.Get(ctx, "balances", 3, []byte("acct-1"), false)
	must(err)
	fmt.Printf("%s of %s, round %s, in-3 up to %d\n", row.Value, row.Task, row.Positions.Round, row.Positions.Inputs[0].Offset)

	scan, err := s.Scan(ctx, admin.ScanRequest{Store: "balances", Partition: 3, Range: state.Prefix([]byte("acct-")), Limit: 10})
	must(err)
	defer scan.Close()
	for e, err := range scan.Rows() {
		must(err)
		fmt.Printf("%s %s\n", e.Key, e.Value)
	}
	// Output:
	// 7 of in_3, round 1/0/0000beef, in-3 up to 5
	// acct-1 7
	// acct-2 9
}

// leaveState does what an instance does.
func leaveState(path string) {
	dir, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "bank"})
	must(err)
	place, err := dir.TaskPath("in", 3)
	must(err)
	db, err := pebblestore.Open(place, pebblestore.Options{})
	must(err)
	must(db.Declare(state.KeyValues("balances")...))
	at := state.Positions{Round: state.RoundID{ProducerID: 1, Incarnation: 0xbeef}, Inputs: []state.Input{{Topic: "in", Partition: 3, Offset: 5}}}
	id := state.IDOf("balances")
	must(db.Apply(state.Positions{}, at, slices.Values([]state.Write{
		{Store: id, Key: []byte("acct-1"), Value: []byte("7")}, {Store: id, Key: []byte("acct-2"), Value: []byte("9")},
	})))
	must(db.Close())
	must(dir.Close())
}
