package worker

import (
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// outputs are what a round writes for its journal: records, which are encoded at once, and where
// each of them comes from.
type outputs struct {
	set *batch.Set
	// origins say for each record, in order, where it goes and which journal entry it comes from.
	origins []origin
	// unfit is the first record that no batch can hold. The cluster would refuse it, and the round
	// is treated as if it had.
	unfit *broker.ProduceError
}

// origin is where an output comes from and where it goes, by the indexes of its contribution in the
// round, of its entry in the journal, and of its destination in the set.
type origin struct{ contribution, entry, destination int32 }

// originSize is the memory of an origin.
const originSize = 12

// add encodes the outputs of a journal entry. Nothing of them is kept.
func (o *outputs) add(contribution, entry int, outputs []graph.Output) {
	for i := range outputs {
		out := &outputs[i]
		at, err := batch.Add(o.set, out.Topic, out.Partition, out.Timestamp, out.Key, out.Value, out.Headers)
		if err != nil && o.unfit == nil {
			o.unfit = broker.Unfit(out.Topic, out.Partition, err)
		}
		o.origins = append(o.origins, origin{int32(contribution), int32(entry), at.Destination})
	}
}

// records is how many there are.
func (o *outputs) records() int { return len(o.origins) }

// bytes is the memory of all, whether they were taken or not.
func (o *outputs) bytes() int64 {
	if o.set == nil {
		return 0
	}
	return o.set.Bytes() + originSize*int64(len(o.origins))
}

// manyTimes is how much more than what is sent ahead as whole batches has to wait before batches
// are sent ahead that are small. Where outputs go to many partitions, no batch may grow large
// within a round.
const manyTimes = 8

// ahead reports whether there is enough to be sent before the round is sealed.
func (o *outputs) ahead(enough int64) bool {
	return o.set.Ready() >= enough || o.set.Waiting() >= manyTimes*enough
}

// take hands over what is sent ahead, or all.
func (o *outputs) take(all bool) []*batch.Batch {
	if o.set == nil {
		return nil
	}
	return o.set.Take(all || o.set.Ready() == 0, nil)
}

// to reports whether a record goes to a partition.
func (o *outputs) to(i int, topic string, partition int32) bool {
	at, ok := o.destination(i)
	return ok && at == batch.Destination{Topic: topic, Partition: partition}
}

// destination returns where a record goes, and false if there is no such partition.
func (o *outputs) destination(i int) (batch.Destination, bool) {
	at := o.origins[i].destination
	if at < 0 {
		return batch.Destination{}, false
	}
	return o.set.Destination(at), true
}

// spare are the outputs of rounds that are over, for those that come. Two rounds are in flight, so
// more are never needed.
type spare struct{ outputs []outputs }

// originsMin is how long a list may be that is kept whatever the round was like.
const originsMin = 1 << 10

// take returns outputs that are empty. newSet makes a set where none is spare.
func (s *spare) take(newSet func() *batch.Set) outputs {
	if n := len(s.outputs); n > 0 {
		o := s.outputs[n-1]
		s.outputs = s.outputs[:n-1]
		return o
	}
	return outputs{set: newSet()}
}

// put keeps the memory of the outputs of a committed round, of which every record is acknowledged.
// They may not be read any more.
func (s *spare) put(o outputs) {
	if len(s.outputs) == 2 || o.set == nil {
		return
	}
	n := len(o.origins)
	o.set.Reset()
	o.unfit, o.origins = nil, o.origins[:0]
	if cap(o.origins) > max(4*n, originsMin) {
		o.origins = nil
	}
	s.outputs = append(s.outputs, o)
}
