package topology_test

import (
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Counting views by page and minute. A view may be late by up to ten minutes; what comes later
// finds its window expired and is counted as late.
func ExampleWindowStore() {
	type (
		view  = topology.Record[string, string]
		count = topology.Record[string, int64]
	)
	views := topology.Topic("views", schemas.String(), schemas.String())
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	perMinute := topology.WindowStore("per-minute", schemas.String(), schemas.Int64(), 11*time.Minute)

	b := topology.NewBuilder("views")
	node := topology.Stateful(topology.From(b, views), "count", perMinute)
	out := topology.Outlet[string, int64](node, "counts")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		windows, emit, late := perMinute.In(t), out.In(t), t.Counter("late")
		return func(c *topology.Context, r view) error {
			start := r.Time().Truncate(time.Minute).UnixMilli()
			n, _, _, err := windows.Get(r.Key, start)
			if err != nil {
				return err
			}
			stored, err := windows.Put(r.Key, start, n+1, r.Timestamp)
			if err != nil {
				return err
			}
			if !stored {
				late.Inc()
				return nil
			}
			return emit(c, count{Key: r.Key, Value: n + 1})
		}, nil
	})
	out.Stream().Into(counts)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, seconds := range []int{10, 50, 60, 20, 15 * 60, 30} {
		after := time.Duration(seconds) * time.Second
		if err := topologytest.Pipe(d, views, "/docs", "", topologytest.At(noon.Add(after))); err != nil {
			log.Fatal(err)
		}
		windows, err := topologytest.Store(d, perMinute, 0)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("after %6s:", after)
		for w, err := range windows.Fetch("/docs", 0, noon.Add(time.Hour).UnixMilli()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf(" %s %d", time.UnixMilli(w.Start).UTC().Format("15:04"), w.Value)
		}
		fmt.Println()
	}
	fmt.Println("late:", d.Count("count", "late"))
	// Output:
	// after    10s: 12:00 1
	// after    50s: 12:00 2
	// after   1m0s: 12:00 2 12:01 1
	// after    20s: 12:00 3 12:01 1
	// after  15m0s: 12:15 1
	// after    30s: 12:15 1
	// late: 1
}

// Visits: what one visitor does with less than half an hour between is one session. A record can be
// the first of a session, belong to one, or join two.
func ExampleSessionStore() {
	type click = topology.Record[string, string]
	const gap = int64(30 * time.Minute / time.Millisecond)
	clicks := topology.Topic("clicks", schemas.String(), schemas.String())
	visits := topology.SessionStore("visits", schemas.String(), schemas.Int64(), 24*time.Hour)

	b := topology.NewBuilder("visits")
	topology.Process(topology.From(b, clicks), "join", visits, func(
		_ *topology.Context, visits state.Session[string, int64], r click, _ topology.Emit[string, int64],
	) error {
		start, end, n := r.Timestamp, r.Timestamp, int64(1)
		for s, err := range visits.Find(r.Key, r.Timestamp-gap, r.Timestamp+gap) {
			if err != nil {
				return err
			}
			start, end, n = min(start, s.Start), max(end, s.End), n+s.Value
			if err := visits.Delete(r.Key, s.Start, s.End); err != nil {
				return err
			}
		}
		_, err := visits.Put(r.Key, start, end, n)
		return err
	})
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, minutes := range []int64{0, 20, 70, 45} { // the last one is late, and joins the others
		at := topologytest.At(noon.Add(time.Duration(minutes) * time.Minute))
		if err := topologytest.Pipe(d, clicks, "ann", "", at); err != nil {
			log.Fatal(err)
		}
		store, err := topologytest.Store(d, visits, 0)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print("visits:")
		for s, err := range store.Fetch("ann") {
			if err != nil {
				log.Fatal(err)
			}
			from, to := time.UnixMilli(s.Start).UTC(), time.UnixMilli(s.End).UTC()
			fmt.Printf(" %s-%s %d", from.Format("15:04"), to.Format("15:04"), s.Value)
		}
		fmt.Println()
	}
	// Output:
	// visits: 12:00-12:00 1
	// visits: 12:00-12:20 2
	// visits: 12:00-12:20 2 13:10-13:10 1
	// visits: 12:00-13:10 4
}
