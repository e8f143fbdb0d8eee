package topology_test

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// How often each person has spoken, at most once a minute for each person. The time moves with the
// records only.
func ExampleTable_Suppress() {
	counts := topology.TimestampedStore("counts", schemas.String(), schemas.Int64())
	slow := topology.Topic("slow", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("suppress")
	topology.Count(topology.From(b, said), counts).
		Suppress("slowly", schemas.String(), schemas.Int64(), topology.UntilTimeLimit(time.Minute)).Into(slow)
	run(b, slow, sendAt(0, said, "ann", "hello"), sendAt(20*second, said, "ann", "hi"), sendAt(30*second, said, "bob", "hi"),
		sendAt(60*second, said, "bob", "still here"), sendAt(90*second, said, "ann", "back again"))
	// Output:
	// ann 2
	// bob 2
}

// At most two people wait. When a third one speaks, the oldest count is emitted early.
func ExampleSuppression_MaxRecords() {
	counts := topology.TimestampedStore("counts", schemas.String(), schemas.Int64())
	slow := topology.Topic("slow", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("suppress")
	topology.Count(topology.From(b, said), counts).
		Suppress("slowly", schemas.String(), schemas.Int64(), topology.UntilTimeLimit(time.Minute).MaxRecords(2)).Into(slow)
	run(b, slow, sendAt(0, said, "ann", "hello"), sendAt(second, said, "bob", "hi"), sendAt(2*second, said, "cid", "hi"))
	// Output:
	// ann 1
}
