package graph_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// speakers counts the records of each speaker, in a store of that name.
func speakers(store string) *topology.Topology {
	said := topology.Topic("said", schemas.String(), schemas.String())
	numbers := topology.Topic("numbers", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("speakers")
	counts := topology.Count(topology.From(b, said), topology.TimestampedStore(store, schemas.String(), schemas.Int64()))
	counts.Into(numbers)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// A picture for Markdown.
func ExampleDescription_Mermaid() {
	fmt.Print(speakers("counts").Description().Mermaid())
	// Output:
	// flowchart LR
	//   t_said(["said"])
	//   t_numbers(["numbers"])
	//   subgraph s_said["said"]
	//     n_counts["counts"]
	//     d_counts[("counts")]
	//   end
	//   t_said --> n_counts
	//   n_counts -.- d_counts
	//   n_counts -- "new" --> t_numbers
}

// The new program gives the store another name. onceward plan also says what that means for the
// data.
func ExampleCompare() {
	for _, d := range graph.Compare(speakers("counts").Description(), speakers("totals").Description()) {
		if d.Subject == graph.SubjectStore {
			fmt.Println(d)
		}
	}
	// Output:
	// store counts is gone: a store
	// store totals is new: a store
}
