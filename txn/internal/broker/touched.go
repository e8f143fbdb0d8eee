package broker

import "maps"

// touched is the set of partitions that a transaction has produced to, and of those that older ones
// have.
type touched struct {
	last topicPartition
	all  map[topicPartition]struct{}
	// before are those of older transactions, since they were last looked at.
	before map[topicPartition]struct{}
}

type topicPartition struct {
	topic     string
	partition int32
}

func (t *touched) reset() {
	t.last = topicPartition{}
	if t.before == nil {
		t.before = map[topicPartition]struct{}{}
	}
	maps.Copy(t.before, t.all)
	clear(t.all)
}

func (t *touched) add(topic string, partition int32) {
	tp := topicPartition{topic, partition}
	if tp == t.last {
		return
	}
	t.last = tp
	if t.all == nil {
		t.all = map[topicPartition]struct{}{}
	}
	t.all[tp] = struct{}{}
}

// Partitions returns to which partitions the producer has produced since Looked was called, and in
// the transaction that was begun last before that, acknowledged or not. A marker of an older
// transaction can be lost although its commit was answered.
func (p *Producer) Partitions() map[string][]int32 {
	out := map[string][]int32{}
	for tp := range p.touched.before {
		out[tp.topic] = append(out[tp.topic], tp.partition)
	}
	for tp := range p.touched.all {
		if _, twice := p.touched.before[tp]; !twice {
			out[tp.topic] = append(out[tp.topic], tp.partition)
		}
	}
	return out
}

// Looked clears the partitions of older transactions: no partition holds a transaction of the
// producer open.
func (p *Producer) Looked() { clear(p.touched.before) }

// Touched returns to how many partitions the transaction that was begun last has produced,
// acknowledged or not.
func (p *Producer) Touched() int { return len(p.touched.all) }
