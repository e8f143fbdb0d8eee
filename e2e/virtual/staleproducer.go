package virtual

import (
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is what the requests of a transactional id have said of its producer.
type producer struct {
	id    int64
	epoch int16 // the highest
	seen  time.Time
}

// initialise removes the producer of a transactional id. The next one may have the same producer id
// with lower epochs, if the transactional id has expired.
func (j *journal) initialise(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.InitProducerIDRequest)
	if req.TransactionalID == nil {
		return nil, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.producers[*req.TransactionalID]; p != nil {
		delete(j.producers, *req.TransactionalID)
		maps.DeleteFunc(j.ended, func(key [2]int64, _ bool) bool { return key[0] == p.id })
	}
	return nil, false
}

// refuseStale refuses batches of transactions that are over, as a broker does. kfake adds the
// partition of a late batch to the producer's transaction before it looks at the epoch of the
// batch: it refuses the batch, and has opened a transaction that nothing will end.
func (j *journal) refuseStale(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.ProduceRequest)
	if req.TransactionID == nil {
		return nil, false
	}
	id, epoch, ok := producerOf(req)
	if !ok {
		return nil, false
	}
	if j.isOver(*req.TransactionID, id, epoch) {
		return produceRefused(req, kerr.InvalidProducerEpoch), true
	}
	return nil, false
}

// isOver reports whether the transaction of an epoch is over. It asks the coordinator where the
// requests so far do not say. Only a control function may call it.
func (j *journal) isOver(transactionalID string, id int64, epoch int16) bool {
	stale, unsure := j.isStale(transactionalID, id, epoch)
	if unsure {
		j.k.SleepControl(func() { stale = j.k.markers.isOver(transactionalID, id, epoch) })
	}
	return stale
}

// producerOf returns the producer of a request, whose batches all have the same.
func producerOf(req *kmsg.ProduceRequest) (id int64, epoch int16, ok bool) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			var batch kmsg.RecordBatch
			if batch.ReadFrom(p.Records) == nil {
				return batch.ProducerID, batch.ProducerEpoch, true
			}
		}
	}
	return 0, 0, false
}

// lateAfter is less than any transaction timeout of the tests.
const lateAfter = 900 * time.Millisecond

// isStale reports whether the requests so far say that an epoch is over. It is unsure if there was
// none since the producer was initialised, and if the last one was so long ago that the coordinator
// may have ended its transaction by itself.
func (j *journal) isStale(transactionalID string, id int64, epoch int16) (stale, unsure bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.producers[transactionalID]
	if p == nil || p.id != id {
		j.note(transactionalID, id, epoch)
		return false, true
	}
	if epoch < p.epoch || j.ended[[2]int64{id, int64(epoch)}] {
		return true, false
	}
	unsure = time.Since(p.seen) > lateAfter
	j.note(transactionalID, id, epoch)
	return false, unsure
}

// note stores the producer of a request; the caller holds mu.
func (j *journal) note(transactionalID string, id int64, epoch int16) {
	p := j.producers[transactionalID]
	if p == nil || p.id != id {
		p = &producer{id: id}
		j.producers[transactionalID] = p
	}
	p.epoch, p.seen = max(p.epoch, epoch), time.Now()
}

// produceRefused answers every partition of a request with an error.
func produceRefused(req *kmsg.ProduceRequest, why *kerr.Error) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, why.Code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
