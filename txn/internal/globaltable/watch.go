package globaltable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/txn/internal/topics"
)

const (
	// watchEvery is how often the ends of a topic are listed, and the topic itself looked at.
	watchEvery = 5 * time.Second
	// touchEvery is how often the positions note that nothing is missing.
	touchEvery = time.Minute
)

// watch looks at the topic until ctx ends or the topic changes.
func (r *reading) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	touched := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := time.Now()
		asked, cancel := context.WithTimeout(ctx, watchEvery)
		ends, err := r.look(asked)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, errChanged):
			return err
		case err != nil:
			r.told.fail(err, began)
			r.tell()
			continue
		}
		if r.follows {
			missing := r.told.listed(ends, r.db.Positions(), r.topic.Name, began)
			if !missing && began.Sub(touched) >= touchEvery {
				if err := r.touch(began); err != nil {
					return err
				}
				touched = began
			}
		}
		r.told.succeed()
		r.tell()
	}
}

// look returns the ends of a topic that is as it was.
func (r *reading) look(ctx context.Context) (map[int32]int64, error) {
	now, err := topics.Describe(ctx, r.cfg.Cluster, r.topic.Name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking at topic %s: %w", r.topic.Name, err)
	case now.ID != r.topic.ID, now.Partitions != r.topic.Partitions:
		return nil, errChanged
	}
	return r.ends(ctx, now)
}
