package check

import "fmt"

// order judges whether outputs follow the order of the inputs, within what the output's grouping
// says.
type order struct {
	*judge
	last map[orderKey]int64
}

// orderKey is a sequence that has to be kept: the records of one group that come from one input
// partition, in one output partition.
type orderKey struct {
	output    int
	partition int32
	from      int32
	group     uint32
}

func newOrder(j *judge) *order { return &order{judge: j, last: map[orderKey]int64{}} }

func (o *order) see(e *Event) {
	if e.Read == nil || e.Read.Reader != LogReader {
		return
	}
	r := e.Read
	i, ok := o.outputs[r.Topic]
	if !ok {
		return
	}
	out := &o.spec.Outputs[i]
	for n, id := range r.IDs {
		at, there := o.place(o.spec.Input, id)
		if !there || !o.known(id) || !o.committed(r, n) {
			continue
		}
		key := orderKey{i, r.Partition, at.partition, o.group(out.By, id)}
		if last, ok := o.last[key]; ok && at.offset < last {
			o.found(Anomaly{Kind: Order, Topic: r.Topic, Partition: r.Partition, Offset: r.Offsets[n], ID: id,
				Detail: fmt.Sprintf("input offset %d of %s[%d] comes after %d", at.offset, o.spec.Input, at.partition, last)})
		}
		o.last[key] = max(o.last[key], at.offset)
	}
}

func (o *order) end() {}

// group returns what an input is grouped under.
func (ix *index) group(by Grouping, id uint32) uint32 {
	switch by {
	case ByKey:
		return ix.inputs[id].key
	case ByOther:
		return ix.inputs[id].other
	default:
		return 0
	}
}
