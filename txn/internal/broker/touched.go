package broker

// touched is the set of partitions that a transaction has produced to. It costs a comparison for most records: those in a row tend to
// go to one partition. The client's hooks would do it per batch, but they may run after the flush that acknowledged the batch.
type touched struct {
	last topicPartition
	all  map[topicPartition]struct{}
}

type topicPartition struct {
	topic     string
	partition int32
}

func (t *touched) reset() {
	t.last = topicPartition{}
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

// Partitions returns to which partitions the transaction that was begun last has produced, acknowledged or not.
func (p *Producer) Partitions() map[string][]int32 {
	out := map[string][]int32{}
	for tp := range p.touched.all {
		out[tp.topic] = append(out[tp.topic], tp.partition)
	}
	return out
}

// Touched returns to how many partitions the transaction that was begun last has produced, acknowledged or not.
func (p *Producer) Touched() int { return len(p.touched.all) }
