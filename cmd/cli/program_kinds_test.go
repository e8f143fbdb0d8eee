package cli_test

import (
	"errors"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// kindsTopology keeps what comes in in a store of every kind but the plain one. The value gone
// deletes the price.
func kindsTopology() *topology.Topology {
	b := topology.NewBuilder("kinds")
	key, value := schemas.String(), schemas.String()
	last := topology.TimestampedStore("last", key, value)
	minutes := topology.WindowStore("minutes", key, value, time.Hour)
	visits := topology.SessionStore("visits", key, value, time.Hour)
	prices := topology.VersionedStore("prices", key, value, time.Hour)
	seen := topology.DedupeStore("seen", key, value, time.Hour)
	in := topology.From(b, topology.Topic("in", key, value))
	topology.Stateful(in, "keep", last, minutes, visits, prices, seen).Process(
		func(t *topology.Setup) (topology.Handler[string, string], error) {
			last, minutes, visits, prices, seen := last.In(t), minutes.In(t), visits.In(t), prices.In(t), seen.In(t)
			return func(_ *topology.Context, r topology.Record[string, string]) error {
				at := r.Timestamp
				if r.Value == "gone" {
					_, err := prices.Delete(r.Key, at)
					return err
				}
				_, err1 := minutes.Put(r.Key, at-at%time.Minute.Milliseconds(), r.Value, at)
				_, err2 := visits.Put(r.Key, at, at, r.Value)
				_, err3 := prices.Put(r.Key, r.Value, at)
				_, _, err4 := seen.PutIfAbsent(r.Key, r.Value, at)
				return errors.Join(last.Put(r.Key, r.Value, at), err1, err2, err3, err4)
			}, nil
		})
	return mustBuild(b)
}
