package capture

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/topology"
)

// becomes is what has to become of a request.
type becomes int

const (
	// requested: its capture is asked for, for the first time.
	requested becomes = iota
	// copied: a message that was there before, spelled in another way.
	copied
	// repeated: another message that asks for the same.
	repeated
	// disputed: another message that asks for something else under the same capture request id.
	disputed
	// forged: another content under the same message id.
	forged
	// invalid: the envelope, or the capture request id, is not there.
	invalid
	// unreadable: what it says is not JSON.
	unreadable
)

// dies returns the class of the dead letter, 0 if there is none.
func (b becomes) dies() topology.Class {
	switch b {
	case disputed, forged:
		return topology.Conflict
	case invalid:
		return topology.Validation
	case unreadable:
		return topology.Poison
	default:
		return 0
	}
}

// request is one record, and what has to become of it.
type request struct {
	record *kgo.Record
	// message and capture are its ids, empty where it has none.
	message, capture string
	// amount is what it asks for.
	amount int64
	becomes
}

// requests makes requests.
type requests struct {
	random *rand.Rand
	began  time.Time
	all    []request
	// first are the places in all at which captures are asked for first, in the order of their ids.
	first []int
	// contested are the captures of which it is open which message comes first: these have no
	// copies, so that what becomes of how many does not depend on it.
	contested map[int]bool
}

func newRequests() *requests {
	return &requests{random: rand.New(rand.NewPCG(1, 2)), began: time.Now().Truncate(time.Second), contested: map[int]bool{}}
}

// more adds requests for n further captures. A fifth of as many are duplicates, half of them copies
// of messages and half messages that ask again, a hundredth are conflicts of the two kinds, and
// five in a thousand are no requests. All come under keys of their own, duplicates half of them at
// once, so that both are on their way at the same time, and half some time later.
func (q *requests) more(n int) {
	for range n {
		id := len(q.first)
		q.first = append(q.first, len(q.all))
		q.add(id, int64(id), requested)
		switch p := q.random.IntN(1000); {
		case p < 100:
			q.copy(q.target(id))
		case p < 200:
			other := q.target(id)
			q.add(other, int64(other), repeated)
		case p < 205:
			q.contested[id] = true
			q.add(id, -1, disputed)
		case p < 210:
			q.contested[id] = true
			q.forge(id)
		case p == 210:
			r := q.add(id, 1, invalid)
			r.record.Value, r.capture = []byte(`{"amount":1}`), ""
		case p == 211:
			r := q.add(id, 1, unreadable)
			r.record.Value, r.capture = []byte(`{"amount":`), ""
		case p < 215: // no message id, no correlation id, no schema version
			r := q.add(id, 1, invalid)
			r.record.Headers[p-212].Value = nil
		}
	}
}

// target returns a capture of which there may be duplicates: that one, or one before it.
func (q *requests) target(id int) int {
	if q.random.IntN(2) == 0 {
		return id
	}
	for {
		if other := q.random.IntN(id + 1); !q.contested[other] {
			return other
		}
	}
}

// add adds a message of its own about a capture. The time is that of the capture: what is compared
// after a replay must not depend on which message came first.
func (q *requests) add(id int, amount int64, b becomes) *request {
	message := fmt.Sprint("m", len(q.all))
	q.all = append(q.all, request{&kgo.Record{
		Key: q.account(), Value: fmt.Appendf(nil, `{"id":"c%d","amount":%d}`, id, amount),
		Timestamp: q.began.Add(time.Duration(id-200_000) * time.Millisecond),
		Headers: []kgo.RecordHeader{
			{Key: envelope.HeaderMessageID, Value: []byte(message)},
			{Key: envelope.HeaderCorrelationID, Value: fmt.Appendf(nil, "story-%d", id)},
			{Key: HeaderSchema, Value: []byte(strconv.Itoa(Schema))},
		},
	}, message, fmt.Sprint("c", id), amount, b})
	return &q.all[len(q.all)-1]
}

// copy adds the message that has asked for a capture first, once more.
func (q *requests) copy(id int) {
	r := q.all[q.first[id]]
	r.becomes = copied
	r.record = &kgo.Record{
		Key: q.account(), Value: fmt.Appendf(nil, ` {"amount":%d, "id":"c%d"}`, id, id), Headers: r.record.Headers, Timestamp: r.record.Timestamp,
	}
	q.all = append(q.all, r)
}

// forge adds a message under the id of the one that has asked for a capture first, with another
// content.
func (q *requests) forge(id int) {
	r := q.all[q.first[id]]
	r.becomes, r.amount = forged, -2
	r.record = &kgo.Record{
		Key: q.account(), Value: fmt.Appendf(nil, `{"id":"c%d","amount":-2}`, id), Headers: r.record.Headers, Timestamp: r.record.Timestamp,
	}
	q.all = append(q.all, r)
}

// account is the key of a message, which is nothing by which copies would come together.
func (q *requests) account() []byte { return fmt.Appendf(nil, "a%d", q.random.IntN(97)) }

// again adds the first n messages once more, when what was to become of them has become of them.
func (q *requests) again(n int) {
	for _, r := range q.all[:n] {
		if r.dies() == 0 || r.becomes == disputed {
			r.becomes = copied
		}
		r.record = &kgo.Record{Key: q.account(), Value: r.record.Value, Headers: r.record.Headers, Timestamp: r.record.Timestamp}
		q.all = append(q.all, r)
	}
}

func recordsOf(all []request) []*kgo.Record {
	records := make([]*kgo.Record, len(all))
	for i, r := range all {
		records[i] = r.record
	}
	return records
}

// apart counts the captures that are asked for in several partitions. The records must have been
// written.
func apart(all []request) int {
	partition, several := map[string]int32{}, map[string]bool{}
	for _, r := range all {
		if r.capture == "" || r.dies() == topology.Validation {
			continue
		}
		if p, ok := partition[r.capture]; ok && p != r.record.Partition {
			several[r.capture] = true
		}
		partition[r.capture] = r.record.Partition
	}
	return len(several)
}
