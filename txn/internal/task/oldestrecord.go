package task

import "github.com/onceward/onceward/state"

// Oldest returns for every input the timestamp of the oldest record that is queued, state.NoTime
// where there is none. Records of an input are in the order of their offsets; the first one is
// taken for the oldest. It belongs to the worker goroutine.
func (t *Task) Oldest() []int64 {
	out := make([]int64, len(t.inputs))
	for i := range out {
		out[i] = state.NoTime
		if f := &t.queue.inputs[i]; f.len() > 0 {
			out[i] = f.records[f.head].Timestamp.UnixMilli()
		}
	}
	// An entry that is to run again is older than every fresh one; the next one stands last.
	for _, e := range t.queue.again {
		if e.Record != nil {
			out[e.Input] = e.Record.Timestamp.UnixMilli()
		}
	}
	t.queue.in.Lock()
	defer t.queue.in.Unlock()
	for i, b := range t.queue.in.batches {
		if out[i] == state.NoTime && len(b) > 0 {
			out[i] = b[0].Timestamp.UnixMilli()
		}
	}
	return out
}

// Oldest returns for every input the timestamp of the first record that the round took,
// state.NoTime where there is none.
func (c *Contribution) Oldest() []int64 {
	out := make([]int64, len(c.Taken))
	for i := range out {
		if out[i] = state.NoTime; c.Taken[i].Records > 0 {
			out[i] = c.Taken[i].first
		}
	}
	return out
}
