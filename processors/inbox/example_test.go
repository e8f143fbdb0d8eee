package inbox_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleDedupe() {
	type Capture struct {
		EventID string `json:"event_id"`
		Amount  int64  `json:"amount"`
	}
	captures := topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	once := topology.Topic("captures-once", schemas.String(), schemas.JSON[Capture]())
	disputed := topology.Topic("captures-disputed", schemas.String(), schemas.JSON[Capture]())

	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	eventID := func(r topology.Record[string, Capture]) (string, error) { return r.Value.EventID, nil }
	in := inbox.Dedupe(topology.From(b, captures), "inbox", eventID)
	in.Accepted().Into(once)
	in.Conflicts().Into(disputed)
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
	for _, value := range []string{
		`{"event_id":"e1","amount":100}`,
		`{"amount":100, "event_id":"e1"}`, // the same, spelled in another way
		`{"event_id":"e1","amount":999}`,  // the same id, and something else
		`{"amount":5}`,                    // no id
	} {
		if err := d.PipeRaw("captures", []byte("account-7"), []byte(value)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// accepted 1
	// conflicts 1
	// dead-letter-validation 1
	// duplicates 1
}
