package virtual

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuseStale refuses batches of transactions that are over, as a broker does. kfake adds the partition of a late batch to the producer's
// transaction before it looks at the epoch of the batch: it refuses the batch, and has opened a transaction that nothing will end.
func (j *journal) refuseStale(kreq kmsg.Request) (kmsg.Response, error, bool) {
	j.k.KeepControl()
	req := kreq.(*kmsg.ProduceRequest)
	if req.TransactionID == nil {
		return nil, nil, false
	}
	id, epoch, ok := producerOf(req)
	if !ok {
		return nil, nil, false
	}
	stale, late := j.isStale(id, epoch)
	if late && !stale {
		// The coordinator may have ended the transaction by itself since the last request.
		j.k.SleepControl(func() { stale = j.k.markers.isOver(*req.TransactionID, id, epoch) })
	}
	if stale {
		return produceRefused(req, kerr.InvalidProducerEpoch), nil, true
	}
	return nil, nil, false
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

// isStale reports whether the requests so far say that an epoch is over, and whether the last of them was so long ago that its transaction may
// have timed out.
func (j *journal) isStale(id int64, epoch int16) (stale, late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	stale = epoch < j.epochs[id] || j.ended[[2]int64{id, int64(epoch)}]
	seen, known := j.seen[id]
	late = known && time.Since(seen) > lateAfter
	if !stale {
		j.note(id, epoch)
	}
	return stale, late
}

// note keeps what a request says of its producer; the caller holds mu.
func (j *journal) note(id int64, epoch int16) {
	j.epochs[id], j.seen[id] = max(j.epochs[id], epoch), time.Now()
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
