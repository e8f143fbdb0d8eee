package latency

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/bench/benchtopics"
)

// Topics are the user topics of one measurement. All of them exist with equal partition counts
// before an instance starts.
type Topics struct {
	In, Out string
	// Dead takes dead letters, of which there are none; empty for an application that is not
	// started here.
	Dead       string
	Partitions int32
}

// TopicsOf returns the topics of an application, as far as nothing else is said.
func TopicsOf(application string, partitions int32) Topics {
	return Topics{In: application + "-in", Out: application + "-out", Dead: application + "-dead", Partitions: partitions}
}

// lane returns the input partition of an event, and so the task that processes it.
func (t Topics) lane(event uint64) int32 { return int32(event % accounts % uint64(t.Partitions)) }

// Create makes those of the topics that are not there, and waits until every partition has a
// leader. Input and output have to be without records: each would be taken for an event of the
// measurement.
func (t Topics) Create(ctx context.Context, brokers []string) error {
	names := []string{t.In, t.Out}
	if t.Dead != "" {
		names = append(names, t.Dead)
	}
	err := benchtopics.Create(ctx, brokers, t.Partitions, names...)
	if errors.Is(err, benchtopics.ErrPartitions) {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err != nil {
		return err
	}
	c, err := benchtopics.Connect(brokers)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range names[:2] {
		for p := range t.Partitions {
			end, err := c.End(ctx, name, p)
			if err != nil {
				return err
			}
			if end > 0 {
				return fmt.Errorf("%w: topic %s has records already; name another one", ErrUnusable, name)
			}
		}
	}
	return nil
}
