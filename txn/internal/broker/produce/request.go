package produce

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// Versions of ProduceRequest. Below VersionMin a request does not add its partitions to the
// transaction.
const (
	VersionMin = 12
	// versionIDs is the first that names topics by their ids.
	versionIDs = 13
)

// ackTimeout is how long a broker may wait for its replicas, in milliseconds. It is the client's
// own default.
const ackTimeout = 10_000

// request is a ProduceRequest. The client's own type would need the bytes of each batch in one
// piece.
type request struct {
	version, versionMax int16
	transactionalID     string
	topics              []requestTopic
}

type requestTopic struct {
	name    string
	id      [16]byte
	batches []*batch.Batch
}

// newRequest returns a request with the batches, which are sealed by the time it is sent.
func newRequest(transactionalID string, sent []shipment) *request {
	r := &request{transactionalID: transactionalID, versionMax: versionIDs}
	index := map[string]int{}
	for _, s := range sent {
		i, ok := index[s.batch.Topic]
		if !ok {
			i = len(r.topics)
			index[s.batch.Topic] = i
			r.topics = append(r.topics, requestTopic{name: s.batch.Topic, id: s.id})
			if s.id == ([16]byte{}) {
				r.versionMax = VersionMin
			}
		}
		r.topics[i].batches = append(r.topics[i].batches, s.batch)
	}
	return r
}

// Key implements kmsg.Request.
func (*request) Key() int16 { return int16(kmsg.Produce) }

// MaxVersion implements kmsg.Request.
func (r *request) MaxVersion() int16 { return r.versionMax }

// SetVersion implements kmsg.Request.
func (r *request) SetVersion(v int16) { r.version = v }

// GetVersion implements kmsg.Request.
func (r *request) GetVersion() int16 { return r.version }

// IsFlexible implements kmsg.Request.
func (r *request) IsFlexible() bool { return true }

// Timeout implements kmsg.TimeoutRequest: the client waits for so much longer.
func (*request) Timeout() int32 { return ackTimeout }

// ReadFrom implements kmsg.Request. The client does not call it.
func (*request) ReadFrom([]byte) error { panic("a request is only written") }

// ResponseKind implements kmsg.Request.
func (r *request) ResponseKind() kmsg.Response {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = r.version
	return resp
}

// AppendTo implements kmsg.Request.
func (r *request) AppendTo(dst []byte) []byte {
	dst = kbin.AppendCompactNullableString(dst, &r.transactionalID)
	dst = kbin.AppendInt16(dst, -1) // all replicas
	dst = kbin.AppendInt32(dst, ackTimeout)
	dst = kbin.AppendCompactArrayLen(dst, len(r.topics))
	for i := range r.topics {
		t := &r.topics[i]
		if r.version >= versionIDs {
			dst = append(dst, t.id[:]...)
		} else {
			dst = kbin.AppendCompactString(dst, t.name)
		}
		dst = kbin.AppendCompactArrayLen(dst, len(t.batches))
		for _, b := range t.batches {
			dst = kbin.AppendInt32(dst, b.Partition)
			dst = kbin.AppendUvarint(dst, uint32(b.Size())+1)
			dst = b.AppendTo(dst)
			dst = append(dst, 0) // no tags
		}
		dst = append(dst, 0)
	}
	return append(dst, 0)
}
