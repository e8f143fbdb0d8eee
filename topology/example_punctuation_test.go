package topology_test

import (
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Totals per minute, emitted when the stream time says that the minute is over. A minute without
// orders has no total, and the last one waits for a record that moves the stream time on.
func ExampleSetup_OnStreamTime() {
	type order = topology.Record[string, int64]
	orders := topology.Topic("orders", schemas.String(), schemas.Int64())
	totals := topology.Topic("totals", schemas.String(), schemas.Int64())
	open := topology.KeyValueStore("open", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("turnover", topology.DeadLetters("orders.dead"))
	node := topology.Stateful(topology.From(b, orders), "per-minute", open)
	out := topology.Outlet[string, int64](node, "totals")
	node.Process(func(t *topology.Setup) (topology.Handler[string, int64], error) {
		open, emit := open.In(t), out.In(t)
		minuteOf := func(at time.Time) string { return at.Truncate(time.Minute).Format(time.RFC3339) }
		t.OnStreamTime(time.Minute, func(c *topology.Context, at time.Time) error {
			for total, err := range open.All() {
				if err != nil {
					return err
				}
				if total.Key >= minuteOf(at) {
					break // the minute that has just begun; the order of the keys is that of the minutes
				}
				if err := emit(c, order{Key: total.Key, Value: total.Value}); err != nil {
					return err
				}
				if err := open.Delete(total.Key); err != nil {
					return err
				}
			}
			return nil
		})
		return func(c *topology.Context, r order) error {
			total, _, err := open.Get(minuteOf(r.Time()))
			if err != nil {
				return err
			}
			return open.Put(minuteOf(r.Time()), total+r.Value)
		}, nil
	})
	out.Stream().Into(totals)

	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, second := range []time.Duration{5, 55, 65, 200} {
		if err := topologytest.Pipe(d, orders, "shop", 10, topologytest.At(noon.Add(second*time.Second))); err != nil {
			log.Fatal(err)
		}
	}
	records, err := topologytest.Output(d, totals)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value, "emitted at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// 2026-03-01T12:00:00Z 20 emitted at 12:01:00
	// 2026-03-01T12:01:00Z 10 emitted at 12:03:00
}

// Keys that have been idle for a while expire although no record comes. The handler sees no clock,
// so the first firing that finds a new entry dates it, and a later one measures from there.
func ExampleSetup_OnWallClock() {
	type event = topology.Record[string, string]
	events := topology.Topic("events", schemas.String(), schemas.String())
	expired := topology.Topic("expired", schemas.String(), schemas.String())
	// A session's value is when it was first seen idle, in milliseconds since the epoch; 0 is not
	// yet.
	sessions := topology.KeyValueStore("sessions", schemas.String(), schemas.Int64())
	const idle = 30 * time.Second

	b := topology.NewBuilder("sessions", topology.DeadLetters("events.dead"))
	node := topology.Stateful(topology.From(b, events), "expire", sessions)
	out := topology.Outlet[string, string](node, "expired")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		sessions, emit := sessions.In(t), out.In(t)
		t.OnWallClock(10*time.Second, func(c *topology.Context, at time.Time) error {
			for s, err := range sessions.All() {
				switch {
				case err != nil:
					return err
				case s.Value == 0:
					err = sessions.Put(s.Key, at.UnixMilli())
				case at.Sub(time.UnixMilli(s.Value)) >= idle:
					if err = sessions.Delete(s.Key); err == nil {
						err = emit(c, event{Key: s.Key, Value: "idle"})
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		return func(c *topology.Context, r event) error { return sessions.Put(r.Key, 0) }, nil
	})
	out.Stream().Into(expired)

	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d, err := topologytest.New(t, topologytest.Clock(noon))
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"ada", "bob", "ada"} {
		if err := topologytest.Pipe(d, events, key, "click"); err != nil {
			log.Fatal(err)
		}
		if err := d.Advance(15 * time.Second); err != nil {
			log.Fatal(err)
		}
	}
	if err := d.Advance(time.Minute); err != nil {
		log.Fatal(err)
	}
	records, err := topologytest.Output(d, expired)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println(r.Key, "expired at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// bob expired at 12:00:50
	// ada expired at 12:01:10
}
