package projection

import (
	"time"

	"github.com/onceward/onceward/topology"
)

const (
	// waitingGauge says how many records wait.
	waitingGauge = "waiting-records"
	// waitingInterval is how often they are counted.
	waitingInterval = time.Minute
)

// showWaiting shows how many records wait. They are counted when the task is opened, and then at
// intervals: a number that goes up and down with each record would not go back with those that are
// undone.
func (h *handler[K, V, S]) showWaiting(t *topology.Setup) error {
	gauge := t.Gauge(waitingGauge)
	count := func() error {
		n := int64(0)
		for pair, err := range h.parking.queues.All() {
			if err != nil {
				return err
			}
			n += pair.Value.Records
		}
		gauge.Set(n)
		return nil
	}
	t.OnWallClock(waitingInterval, func(*topology.Context, time.Time) error { return count() })
	return count()
}
