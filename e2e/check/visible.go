package check

import "fmt"

// visible judges what is in the output topics: lost, duplicate, phantom, dedupe leak, unseen.
type visible struct {
	*judge
	seen []bitmap // by output
}

func newVisible(j *judge) *visible {
	return &visible{judge: j, seen: make([]bitmap, len(j.spec.Outputs))}
}

func (v *visible) see(e *Event) {
	if e.Read == nil || e.Read.Reader != LogReader {
		return
	}
	r := e.Read
	if r.Topic == v.spec.Input {
		v.seeInput(r)
		return
	}
	i, ok := v.outputs[r.Topic]
	if !ok {
		return
	}
	for n, id := range r.IDs {
		if !v.committed(r, n) {
			continue
		}
		v.report.Outputs[i]++
		v.seeOutput(i, r, n, id)
	}
}

// seeInput finds inputs that nobody sent. The harness's own duplicates would be its fault, and show
// as lost further down.
func (v *visible) seeInput(r *Records) {
	for n, id := range r.IDs {
		a := Anomaly{Kind: Phantom, Topic: r.Topic, Partition: r.Partition, Offset: r.Offsets[n], ID: id}
		switch {
		case !v.known(id):
			a.Detail = "nobody has sent it"
			v.found(a)
		case v.inputs[id].failed && v.committed(r, n):
			a.Detail = "it is there although producing it has failed for good"
			v.found(a)
		}
	}
}

func (v *visible) seeOutput(i int, r *Records, n int, id uint32) {
	o := &v.spec.Outputs[i]
	a := Anomaly{Topic: r.Topic, Partition: r.Partition, Offset: r.Offsets[n], ID: id}
	_, there := v.place(v.spec.Input, id)
	switch {
	case !v.known(id) || !there:
		a.Kind, a.Detail = Phantom, "there is no such input"
	case v.seen[i].has(id):
		a.Kind, a.Detail = Duplicate, "the topic has it already"
	case v.expects(o, id):
		v.seen[i].set(id)
		return
	case o.Which == Messages && !v.inputs[id].poison:
		a.Kind, a.Detail = DedupeLeak, fmt.Sprintf("message %d was accepted again", v.inputs[id].message)
	default:
		a.Kind, a.Detail = Phantom, "the input has no record in this topic"
	}
	v.found(a)
}

func (v *visible) end() {
	for id := uint32(1); int(id) < len(v.inputs); id++ {
		if !v.known(id) {
			continue
		}
		if _, there := v.place(v.spec.Input, id); !there {
			if v.inputs[id].acked {
				v.found(Anomaly{Kind: Lost, Topic: v.spec.Input, Offset: -1, ID: id, Detail: "it was acknowledged"})
			}
			continue
		}
		for i := range v.spec.Outputs {
			v.endOutput(i, id)
		}
	}
}

func (v *visible) endOutput(i int, id uint32) {
	o := &v.spec.Outputs[i]
	if !v.expects(o, id) || v.seen[i].has(id) {
		return
	}
	at, there := v.place(o.From, id)
	if there {
		if _, covered := v.covering(o.From, at); covered {
			v.found(Anomaly{Kind: Lost, Topic: o.Topic, Partition: at.partition, Offset: at.offset, ID: id,
				Detail: "the position in " + o.From + " is past it and its output is not there"})
			return
		}
	}
	if v.quiesced && (there || o.From == v.spec.Input) {
		v.found(Anomaly{Kind: Unseen, Topic: o.Topic, Partition: at.partition, Offset: at.offset, ID: id,
			Detail: "it is in " + o.From + ", nothing is in flight, and its output is not there"})
	}
}

// bitmap is a set of ids.
type bitmap []uint64

func (b bitmap) has(id uint32) bool { return int(id/64) < len(b) && b[id/64]&(1<<(id%64)) != 0 }

func (b *bitmap) set(id uint32) {
	for int(id/64) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[id/64] |= 1 << (id % 64)
}
