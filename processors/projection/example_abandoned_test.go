package projection_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// What was abandoned comes back in front of the projection and behind the inbox, which has accepted
// it and would take it for a copy.
func ExampleProjection_Abandoned() {
	type Moved struct {
		Version int64  `json:"version"`
		Place   string `json:"place"`
	}
	moves := topology.Topic("moves", schemas.String(), schemas.JSON[Moved]())
	again := topology.Topic("moves-again", schemas.String(), schemas.JSON[Moved]())
	routes := topology.Topic("routes", schemas.String(), schemas.JSON[projection.Row[string]]())
	lost := topology.Topic("moves-lost", schemas.String(), schemas.JSON[projection.Abandoned[Moved]]())

	id := func(r topology.Record[string, Moved]) (string, error) {
		return fmt.Sprintf("%s/%d", r.Key, r.Value.Version), nil
	}
	version := func(r topology.Record[string, Moved]) (int64, error) { return r.Value.Version, nil }
	fold := func(route string, _ bool, r topology.Record[string, Moved]) (string, error) {
		return route + "/" + r.Value.Place, nil
	}
	b := topology.NewBuilder("parcels", topology.DeadLetters("parcels.dead"))
	once := inbox.Dedupe(topology.From(b, moves), "moves-once", id, inbox.Forever())
	all := once.Accepted().Merge("all-moves", topology.From(b, again))
	latest := projection.Latest(all, "routes", version, fold, schemas.String(), projection.FirstVersion(1),
		projection.ParkGaps(schemas.JSON[Moved](), projection.Limits{Records: 100, StreamTime: 3 * time.Minute}))
	latest.Changes().Into(routes)
	latest.Abandoned().Into(lost)
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
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pipe := func(topic topology.TopicOf[string, Moved], parcel string, m Moved, minute int) {
		at := topologytest.At(noon.Add(time.Duration(minute) * time.Minute))
		if err := topologytest.Pipe(d, topic, parcel, m, at); err != nil {
			fmt.Println(err)
		}
	}
	pipe(moves, "parcel-7", Moved{1, "Bern"}, 0)
	pipe(moves, "parcel-7", Moved{3, "Paris"}, 1)
	pipe(moves, "parcel-8", Moved{1, "Oslo"}, 10) // moves the stream time
	abandoned, err := topologytest.Output(d, lost)
	if err != nil {
		fmt.Println(err)
		return
	}
	pipe(moves, "parcel-7", Moved{2, "Basel"}, 11)
	for _, r := range abandoned {
		fmt.Println("abandoned:", r.Key, r.Value.Actual)
		pipe(moves, r.Key, r.Value.Value, 12) // only a copy
		pipe(again, r.Key, r.Value.Value, 13)
	}
	rows, err := topologytest.Output(d, routes)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rows {
		fmt.Println(r.Key, r.Value.Version, r.Value.Value)
	}
	fmt.Println("copies:", d.Count("moves-once", "duplicates"))
	// Output:
	// abandoned: parcel-7 3
	// parcel-7 1 /Bern
	// parcel-8 1 /Oslo
	// parcel-7 2 /Bern/Basel
	// parcel-7 3 /Bern/Basel/Paris
	// copies: 1
}
