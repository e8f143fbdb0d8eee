package demo

import (
	"context"

	"github.com/onceward/onceward/bench/load"
)

// feed writes the events while the pipeline runs, and never far ahead of where the next kill is to
// fall. With all of them in the topic from the start, every life of the pipeline commits what a
// machine processes in a commit interval, a tenth of the input on a fast one, and the tries for a
// kill that counts use the input up.
type feed struct {
	writer  *load.Writer
	facts   []fact
	written int
}

// leads is how many leads the input has: the part that is written beyond what is asked for or
// committed, so that transactions are open there.
const leads = 100

func newFeed(brokers []string, facts []fact) (*feed, error) {
	w, err := load.NewWriter(brokers, eventsTopic)
	if err != nil {
		return nil, err
	}
	return &feed{writer: w, facts: facts}, nil
}

// beyond writes the events up to one lead beyond n of them.
func (f *feed) beyond(ctx context.Context, n int) error {
	end := min(n+max(len(f.facts)/leads, 1), len(f.facts))
	if end <= f.written {
		return nil
	}
	_, err := f.writer.Write(ctx, func(yield func(load.Record) bool) {
		for i := f.written; i < end; i++ {
			if !yield(f.facts[i].record(i)) {
				return
			}
		}
	})
	f.written = end
	return err
}
