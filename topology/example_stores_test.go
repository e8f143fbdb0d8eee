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

// The last known position of each ship: a report that is older than the one that is known changes
// nothing.
func ExampleTimestampedStore() {
	reports := topology.Topic("reports", schemas.String(), schemas.String())
	last := topology.TimestampedStore("last", schemas.String(), schemas.String())

	b := topology.NewBuilder("ships")
	topology.Process(topology.From(b, reports), "keep", last, func(
		_ *topology.Context, last state.Timestamped[string, string], r topology.Record[string, string],
		_ topology.Emit[string, string],
	) error {
		_, at, ok, err := last.Get(r.Key)
		if err != nil || ok && at >= r.Timestamp {
			return err
		}
		return last.Put(r.Key, r.Value, r.Timestamp)
	})
	d := driver(b)
	for _, r := range []topology.Record[string, string]{
		{Key: "Ada", Value: "Lisbon", Timestamp: 2000},
		{Key: "Ada", Value: "Porto", Timestamp: 1000},
	} {
		if err := topologytest.Pipe(d, reports, r.Key, r.Value, topologytest.At(r.Time())); err != nil {
			log.Fatal(err)
		}
	}
	s, err := topologytest.Store(d, last, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Get("Ada"))
	// Output: Lisbon 2000 true <nil>
}

// How many orders each customer has made, in memory: there is a row for each customer, and no file.
// A restart reads the counts again from the changelog.
func ExampleStore_InMemory() {
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	counts := topology.TimestampedStore("orders-of", schemas.String(), schemas.Int64()).InMemory()

	b := topology.NewBuilder("shop")
	topology.Count(topology.From(b, orders), counts)
	d := driver(b)
	for _, order := range []string{"tea", "coffee"} {
		if err := topologytest.Pipe(d, orders, "Ada", order); err != nil {
			log.Fatal(err)
		}
	}
	s, err := topologytest.Store(d, counts, 0)
	if err != nil {
		log.Fatal(err)
	}
	count, _, _, err := s.Get("Ada")
	fmt.Println(count, err)
	// Output: 2 <nil>
}

// A sensor that reports something impossible is mentioned once, and not with each report. That is
// remembered in memory alone. After a restart it is mentioned once more, which does no harm.
func ExampleStore_LostOnRestart() {
	reports := topology.Topic("reports", schemas.String(), schemas.Int64())
	mentioned := topology.KeyValueStore("mentioned", schemas.String(), schemas.Int64()).LostOnRestart()
	remarks := topology.Topic("remarks", schemas.String(), schemas.String())

	b := topology.NewBuilder("sensors")
	topology.Process(topology.From(b, reports), "mention", mentioned, func(
		c *topology.Context, mentioned state.KeyValue[string, int64], r topology.Record[string, int64],
		emit topology.Emit[string, string],
	) error {
		if r.Value >= 0 {
			return nil
		}
		switch _, known, err := mentioned.Get(r.Key); {
		case err != nil || known:
			return err
		}
		if err := mentioned.Put(r.Key, r.Value); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, fmt.Sprint("reports ", r.Value)))
	}).Into(remarks)
	d := driver(b)
	report := func(value int64) {
		if err := topologytest.Pipe(d, reports, "boiler", value); err != nil {
			log.Fatal(err)
		}
	}
	report(-1)
	report(-2)
	if err := d.Restart(); err != nil {
		log.Fatal(err)
	}
	report(-3)
	report(-4)
	out, err := topologytest.Output(d, remarks)
	for _, r := range out {
		fmt.Println(r.Key, r.Value)
	}
	fmt.Println(err)
	// Output:
	// boiler reports -1
	// boiler reports -3
	// <nil>
}

// Orders are priced as of the time at which they were made, also when a price arrives late.
func ExampleVersionedStore() {
	prices := topology.Topic("prices", schemas.String(), schemas.Int64())
	history := topology.VersionedStore("history", schemas.String(), schemas.Int64(), 24*time.Hour)

	b := topology.NewBuilder("pricing")
	topology.Process(topology.From(b, prices), "keep", history, func(
		_ *topology.Context, history state.Versioned[string, int64], r topology.Record[string, int64],
		_ topology.Emit[string, int64],
	) error {
		placed, err := history.Put(r.Key, r.Value, r.Timestamp)
		if err == nil && placed == state.NotPlaced {
			err = topology.Fail(topology.Validation, schemas.Reason("the price is from before the history"))
		}
		return err
	})
	d := driver(b)
	for _, r := range []topology.Record[string, int64]{
		{Key: "tea", Value: 300, Timestamp: 1000},
		{Key: "tea", Value: 500, Timestamp: 3000},
		{Key: "tea", Value: 400, Timestamp: 2000},
	} {
		if err := topologytest.Pipe(d, prices, r.Key, r.Value, topologytest.At(r.Time())); err != nil {
			log.Fatal(err)
		}
	}
	s, err := topologytest.Store(d, history, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Get("tea"))
	fmt.Println(s.GetAsOf("tea", 2500))
	for v, err := range s.History("tea", 0, 2000) {
		fmt.Println(v.Value, v.From, v.To, err)
	}
	// Output:
	// 500 3000 true <nil>
	// 400 2000 true <nil>
	// 300 1000 2000 <nil>
	// 400 2000 3000 <nil>
}

// Payments are taken once: what comes again is counted, and what is too old to be known goes to the
// dead letters.
func ExampleDedupeStore() {
	payments := topology.Topic("payments", schemas.String(), schemas.Int64())
	taken := topology.Topic("taken", schemas.String(), schemas.Int64())
	seen := topology.DedupeStore("seen", schemas.String(), schemas.Int64(), time.Hour)

	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	topology.Process(topology.From(b, payments), "once", seen, func(
		c *topology.Context, seen state.Dedupe[string, int64], r topology.Record[string, int64],
		emit topology.Emit[string, int64],
	) error {
		_, presence, err := seen.PutIfAbsent(r.Key, r.Value, r.Timestamp)
		if err != nil {
			return err
		}
		switch presence {
		case state.Absent:
			return emit(c, r)
		case state.TooLate:
			return topology.Fail(topology.Validation, schemas.Reason("nobody knows whether it was taken"))
		default:
			return nil
		}
	}).Into(taken)
	d := driver(b)
	hour := time.Hour.Milliseconds()
	for _, r := range []topology.Record[string, int64]{
		{Key: "payment-1", Value: 10, Timestamp: hour},
		{Key: "payment-1", Value: 10, Timestamp: hour + 1},
		{Key: "payment-2", Value: 20, Timestamp: 3 * hour},
		{Key: "payment-1", Value: 10, Timestamp: hour},
	} {
		if err := topologytest.Pipe(d, payments, r.Key, r.Value, topologytest.At(r.Time())); err != nil {
			log.Fatal(err)
		}
	}
	records, err := topologytest.Output(d, taken)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value)
	}
	letters, err := d.DeadLetters()
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range letters {
		fmt.Println(string(l.Key), l.Info.Message)
	}
	// Output:
	// payment-1 10
	// payment-2 20
	// payment-1 nobody knows whether it was taken
}

func driver(b *topology.Builder) *topologytest.Driver {
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	return d
}
