package projection_test

import (
	"fmt"
	"time"

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

// Events that overtake each other wait for those before them. Three minutes of stream time after a key has
// stopped to move, those that still wait are put aside.
func ExampleParkGaps() {
	type Moved struct {
		Version int64  `json:"version"`
		Place   string `json:"place"`
	}
	moves := topology.Topic("moves", schemas.String(), schemas.JSON[Moved]())
	routes := topology.Topic("routes", schemas.String(), schemas.JSON[projection.Row[string]]())
	lost := topology.Topic("moves-lost", schemas.String(), schemas.JSON[projection.Abandoned[Moved]]())

	version := func(r topology.Record[string, Moved]) (int64, error) { return r.Value.Version, nil }
	fold := func(route string, _ bool, r topology.Record[string, Moved]) (string, error) {
		return route + "/" + r.Value.Place, nil
	}
	b := topology.NewBuilder("parcels", topology.DeadLetters("parcels.dead"))
	latest := projection.Latest(topology.From(b, moves), "routes", version, fold, schemas.String(),
		projection.FirstVersion(1),
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
	for i, m := range []Moved{{3, "Paris"}, {1, "Bern"}, {2, "Basel"}, {5, "Rome"}, {3, "Paris"}} {
		at := topologytest.At(noon.Add(time.Duration(i) * time.Minute))
		if err := topologytest.Pipe(d, moves, "parcel-7", m, at); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Another parcel moves the stream time.
	if err := topologytest.Pipe(d, moves, "parcel-8", Moved{1, "Oslo"}, topologytest.At(noon.Add(time.Hour))); err != nil {
		fmt.Println(err)
		return
	}
	rows, err := topologytest.Output(d, routes)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rows {
		fmt.Println(r.Key, r.Value.Version, r.Value.Value)
	}
	abandoned, err := topologytest.Output(d, lost)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range abandoned {
		fmt.Printf("%s %d after %s: %s\n", r.Key, r.Value.Actual, r.Value.Reason, r.Value.Message)
	}
	// Output:
	// parcel-7 1 /Bern
	// parcel-7 2 /Bern/Basel
	// parcel-7 3 /Bern/Basel/Paris
	// parcel-8 1 /Oslo
	// parcel-7 5 after stream-time: versions are missing before the one of the record
}
