package projection_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleLatest() {
	type Moved struct {
		Version int64  `json:"version"`
		Place   string `json:"place"`
	}
	type Parcel struct {
		Place string `json:"place"`
		Stops int    `json:"stops"`
	}
	moves := topology.Topic("moves", schemas.String(), schemas.JSON[Moved]())
	parcels := topology.Topic("parcels", schemas.String(), schemas.JSON[projection.Row[Parcel]]())

	version := func(r topology.Record[string, Moved]) (int64, error) { return r.Value.Version, nil }
	fold := func(p Parcel, _ bool, r topology.Record[string, Moved]) (Parcel, error) {
		return Parcel{Place: r.Value.Place, Stops: p.Stops + 1}, nil
	}
	b := topology.NewBuilder("parcels", topology.DeadLetters("parcels.dead"))
	latest := projection.Latest(topology.From(b, moves), "parcel-latest", version, fold, schemas.JSON[Parcel]())
	latest.Changes().Into(parcels)
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
	for _, m := range []Moved{{1, "Bern"}, {2, "Basel"}, {1, "Bern"}, {4, "Paris"}, {3, "Lyon"}, {4, "Paris"}} {
		if err := topologytest.Pipe(d, moves, "parcel-7", m); err != nil {
			fmt.Println(err)
			return
		}
	}
	rows, err := topologytest.Output(d, parcels)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rows {
		fmt.Printf("%s version %d: %+v\n", r.Key, r.Value.Version, r.Value.Value)
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// parcel-7 version 1: {Place:Bern Stops:1}
	// parcel-7 version 2: {Place:Basel Stops:2}
	// parcel-7 version 3: {Place:Lyon Stops:3}
	// parcel-7 version 4: {Place:Paris Stops:4}
	// applied 4
	// dead-letter-validation 1
	// stale 1
}
