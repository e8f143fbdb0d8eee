// Command sensors computes the mean temperature of each sensor and minute, and reports sensors that
// have stopped sending. It shows windows of event time, and a processor with a store and a timer.
//
//	sensors run --brokers localhost:9092 --state-dir ./state
//	sensors describe
//
// The topics:
//
//	readings  key: sensor               value: {"at": "2026-03-01T12:00:05Z", "celsius": 20.5}
//	means     key: sensor@start/end     value: {"readings": 2, "celsius": 20.25}; one for each minute, when it is over
//	silent    key: sensor               value: the time of its last reading
//
// A minute takes readings that come up to 30 seconds after its end. A sensor is silent when the
// readings of other sensors in its partition are five minutes ahead of its last one.
package main

import (
	"os"
	"time"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type reading struct {
	At      time.Time `json:"at"`
	Celsius float64   `json:"celsius"`
}

type mean struct {
	Readings int64   `json:"readings"`
	Celsius  float64 `json:"celsius"`
}

var (
	minutes = topology.Tumbling(time.Minute).Grace(30 * time.Second)

	readings = topology.Topic("readings", schemas.String(), schemas.JSON[reading]())
	means    = topology.Topic("means", topology.WindowedTextCodec(schemas.String()), schemas.JSON[mean]())
	silent   = topology.Topic("silent", schemas.String(), schemas.JSON[time.Time]())

	meanStore = topology.WindowStore("mean-per-minute", schemas.String(), schemas.JSON[mean](), minutes.Retention())
	// lastStore has the time of the last reading of each sensor that is not silent.
	lastStore = topology.KeyValueStore("last-reading", schemas.String(), schemas.JSON[time.Time]())
)

func sensors() (*topology.Topology, error) {
	b := topology.NewBuilder("sensors", topology.DeadLetters("readings-dead"))
	source := topology.From(b, readings, topology.EventTime(timeOf))
	topology.AggregateWindows(source, minutes, meanStore, nil, add).Closed().Into(means)

	watch := topology.Stateful(source, "watch", lastStore)
	late := topology.Outlet[string, time.Time](watch, "silent")
	watch.Process(func(s *topology.Setup) (topology.Handler[string, reading], error) {
		return watchdog(s, late), nil
	})
	late.Stream().Into(silent)
	return b.Build()
}

func timeOf(r topology.Record[string, reading]) (time.Time, error) { return r.Value.At, nil }

// add adds a reading to the mean of its minute.
func add(m mean, r topology.Record[string, reading]) (mean, error) {
	n := m.Readings + 1
	return mean{Readings: n, Celsius: m.Celsius + (r.Value.Celsius-m.Celsius)/float64(n)}, nil
}

const (
	patience  = 5 * time.Minute
	lookEvery = time.Minute
)

// watchdog returns the processor that reports silent sensors. It goes by the stream time, the
// largest time of a record so far: a replay reports the same sensors as the first run.
func watchdog(s *topology.Setup, out topology.OutletOf[string, time.Time]) topology.Handler[string, reading] {
	last, report := lastStore.In(s), out.In(s)
	s.OnStreamTime(lookEvery, func(c *topology.Context, now time.Time) error {
		for sensor, err := range last.All() {
			if err != nil {
				return err
			}
			if now.Sub(sensor.Value) < patience {
				continue
			}
			if err := last.Delete(sensor.Key); err != nil {
				return err
			}
			if err := report(c, topology.Record[string, time.Time]{Key: sensor.Key, Value: sensor.Value}); err != nil {
				return err
			}
		}
		return nil
	})
	return func(_ *topology.Context, r topology.Record[string, reading]) error {
		before, known, err := last.Get(r.Key)
		if err != nil || known && before.After(r.Value.At) {
			return err
		}
		return last.Put(r.Key, r.Value.At)
	}
}

func main() { os.Exit(cli.Run(sensors)) }
