package topology_test

import (
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Reading is what a sensor has measured, and when. It may arrive late.
type Reading struct {
	At      time.Time `json:"at"`
	Celsius float64   `json:"celsius"`
}

// Mean is what the readings of a minute come to.
type Mean struct {
	Readings int     `json:"readings"`
	Sum      float64 `json:"sum"`
}

// The windows and the topics of the sensors. Readings are waited for until half a minute after the
// end of their minute.
var (
	minuteWindows = topology.Tumbling(time.Minute).Grace(30 * time.Second)
	readingTopic  = topology.Topic("readings", schemas.String(), schemas.JSON[Reading]())
	meanTopic     = topology.Topic("means", topology.WindowedCodec(schemas.String(), minuteWindows.Size()), schemas.JSON[Mean]())
)

// sensors passes on one mean for each sensor and minute, when the minute is over.
func sensors() (*topology.Topology, error) {
	means := topology.WindowStore("mean-per-minute", schemas.String(), schemas.JSON[Mean](), minuteWindows.Retention())

	b := topology.NewBuilder("sensors", topology.DeadLetters("readings.dead"))
	readings := topology.From(b, readingTopic, topology.EventTime(func(r topology.Record[string, Reading]) (time.Time, error) {
		return r.Value.At, nil
	}))
	topology.AggregateWindows(readings, minuteWindows, means, nil,
		func(sofar Mean, r topology.Record[string, Reading]) (Mean, error) {
			return Mean{Readings: sofar.Readings + 1, Sum: sofar.Sum + r.Value.Celsius}, nil
		}).Closed().Into(meanTopic)
	return b.Build()
}

// Windows of event time, with late records.
func Example_sensors() {
	t, err := sensors()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range []struct {
		sensor  string
		seconds int64
		celsius float64
	}{
		{"roof", 10, 20}, {"roof", 70, 22}, {"roof", 50, 21}, {"roof", 95, 24}, {"roof", 40, 30}, {"cellar", 160, 12},
	} {
		err := topologytest.Pipe(d, readingTopic, r.sensor, Reading{At: time.Unix(r.seconds, 0).UTC(), Celsius: r.celsius})
		if err != nil {
			log.Fatal(err)
		}
	}
	means, err := topologytest.Output(d, meanTopic)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range means {
		fmt.Printf("%s from %s: %.1f of %d\n", m.Key.Key, time.UnixMilli(m.Key.Start).UTC().Format("15:04"),
			m.Value.Sum/float64(m.Value.Readings), m.Value.Readings)
	}
	fmt.Println("late:", d.Count("mean-per-minute", "late"))
	// Output:
	// roof from 00:00: 20.5 of 2
	// roof from 00:01: 23.0 of 2
	// late: 1
}
