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

// Events that overtake each other wait for those before them. Three minutes of stream time after a
// key has stopped to move, those that still wait are put aside.
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

// Events that overtake others wait, and the source is asked for those that are missing.
func ExampleRepairGaps() {
	type Moved struct {
		Version int64  `json:"version"`
		Place   string `json:"place"`
	}
	moves := topology.Topic("moves", schemas.String(), schemas.JSON[Moved]())
	places := topology.Topic("places", schemas.String(), schemas.JSON[projection.Row[string]]())
	missing := topology.Topic("moves-missing", schemas.String(), schemas.JSON[projection.Repair]())
	lost := topology.Topic("moves-lost", schemas.String(), schemas.JSON[projection.Abandoned[Moved]]())

	version := func(r topology.Record[string, Moved]) (int64, error) { return r.Value.Version, nil }
	fold := func(_ string, _ bool, r topology.Record[string, Moved]) (string, error) { return r.Value.Place, nil }
	b := topology.NewBuilder("parcels", topology.DeadLetters("parcels.dead"))
	latest := projection.Latest(topology.From(b, moves), "places", version, fold, schemas.String(),
		projection.RepairGaps(schemas.JSON[Moved](), projection.Limits{Records: 100, StreamTime: time.Hour}))
	latest.Changes().Into(places)
	latest.Repairs().Into(missing)
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
	show := func() {
		repairs, err := topologytest.Output(d, missing)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range repairs {
			fmt.Printf("%s lacks %d to %d\n", r.Key, r.Value.From, r.Value.To)
		}
		rows, err := topologytest.Output(d, places)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range rows {
			fmt.Println(r.Key, r.Value.Version, r.Value.Value)
		}
	}
	for _, m := range []Moved{{1, "Bern"}, {4, "Paris"}, {2, "Basel"}, {3, "Lyon"}} {
		if err := topologytest.Pipe(d, moves, "parcel-7", m); err != nil {
			fmt.Println(err)
			return
		}
		show()
	}
	// Output:
	// parcel-7 1 Bern
	// parcel-7 lacks 2 to 3
	// parcel-7 2 Basel
	// parcel-7 3 Lyon
	// parcel-7 4 Paris
}

// A source that begins with the versions anew when it makes an aggregate again says which life a
// record belongs to.
func ExampleIncarnation() {
	type Rented struct {
		Life    int64  `json:"life"`
		Version int64  `json:"version"`
		Tenant  string `json:"tenant"`
	}
	rents := topology.Topic("rents", schemas.String(), schemas.JSON[Rented]())
	tenants := topology.Topic("tenants", schemas.String(), schemas.JSON[projection.Row[string]]())

	version := func(r topology.Record[string, Rented]) (int64, error) { return r.Value.Version, nil }
	life := func(r topology.Record[string, Rented]) (int64, error) { return r.Value.Life, nil }
	fold := func(old string, has bool, r topology.Record[string, Rented]) (string, error) {
		if has {
			return old + " and " + r.Value.Tenant, nil
		}
		return r.Value.Tenant, nil
	}
	b := topology.NewBuilder("rents", topology.DeadLetters("rents.dead"))
	latest := projection.Latest(topology.From(b, rents), "tenants", version, fold, schemas.String(),
		projection.FirstVersion(1), projection.Incarnation(life))
	latest.Changes().Into(tenants)
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
	for _, r := range []Rented{{1, 1, "Ada"}, {1, 2, "Bob"}, {2, 1, "Eve"}, {1, 3, "Zoe"}, {2, 2, "Kim"}} { // Zoe comes late
		if err := topologytest.Pipe(d, rents, "room-7", r); err != nil {
			fmt.Println(err)
			return
		}
	}
	rows, err := topologytest.Output(d, tenants)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rows {
		fmt.Printf("life %d, version %d: %s\n", r.Value.Incarnation, r.Value.Version, r.Value.Value)
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// life 1, version 1: Ada
	// life 1, version 2: Ada and Bob
	// life 2, version 1: Eve
	// life 2, version 2: Eve and Kim
	// applied 4
	// stale 1
}
