package topology_test

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Build returns all mistakes at once, each with its place in the program.
func ExampleBuildError() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	b := topology.NewBuilder("mistaken")
	s := topology.From(b, events)
	s.Filter("keep", nil).Into(topology.Topic[string, string]("no spaces", schemas.String(), nil))
	topology.Stateful(s, "audit")

	_, err := b.Build()
	failed, _ := errors.AsType[*topology.BuildError](err)
	for _, m := range failed.Mistakes {
		fmt.Println(m.Node+":", m.Err)
	}
	// Output:
	// keep: the function is nil
	// no spaces-sink: the value codec is nil
	// no spaces-sink: sink topic: "no spaces" has characters other than A-Z a-z 0-9 . _ -
	// audit: the node has no Process function
}
