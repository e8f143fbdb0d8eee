package drill_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/topology"
)

// request is one record, and what has to become of it.
type request struct {
	record *kgo.Record
	// dies is the class of the dead letter, 0 if the request is in order.
	dies topology.Class
}

// requestsFor returns n requests, a fifth of them twice, a hundredth once more with another amount, and between them five
// in a thousand that are none.
func requestsFor(n int) (all []request) {
	random := rand.New(rand.NewPCG(1, 2))
	add := func(id int, value string, dies topology.Class) *kgo.Record {
		r := record(id, len(all), value)
		all = append(all, request{r, dies})
		return r
	}
	for i := range n {
		add(i, fmt.Sprintf(`{"id":"c%d","amount":%d}`, i, i), 0)
		before := random.IntN(i + 1)
		switch p := random.IntN(1000); {
		case p < 200: // a duplicate, spelled in another way
			add(before, fmt.Sprintf(` {"amount":%d, "id":"c%d"}`, before, before), 0)
		case p < 210:
			add(before, fmt.Sprintf(`{"id":"c%d","amount":-1}`, before), topology.Conflict)
		case p == 210:
			add(i, `{"amount":1}`, topology.Validation)
		case p == 211:
			add(i, `{"amount":`, topology.Poison)
		case p < 215: // no message id, no correlation id, no schema version
			r := add(i, fmt.Sprintf(`{"id":"x%d","amount":1}`, i), topology.Validation)
			r.Headers[p-212].Value = nil
		}
	}
	return all
}

// record is a message about a capture. Its key is that of an account: copies of a request are in one partition.
func record(id, message int, value string) *kgo.Record {
	return &kgo.Record{Key: fmt.Appendf(nil, "a%d", id%97), Value: []byte(value), Headers: []kgo.RecordHeader{
		{Key: envelope.HeaderMessageID, Value: fmt.Appendf(nil, "m%d", message)},
		{Key: envelope.HeaderCorrelationID, Value: fmt.Appendf(nil, "story-%d", id)},
		{Key: headerSchema, Value: []byte(strconv.Itoa(schema))},
	}}
}

// fates counts the requests by what has to become of them.
func fates(all []request) map[topology.Class]int {
	counts := map[topology.Class]int{}
	for _, r := range all {
		counts[r.dies]++
	}
	return counts
}

// again returns the same messages once more.
func again(all []request) []request {
	copies := make([]request, len(all))
	for i, r := range all {
		copies[i] = request{&kgo.Record{Key: r.record.Key, Value: r.record.Value, Headers: r.record.Headers}, r.dies}
	}
	return copies
}

func recordsOf(all []request) []*kgo.Record {
	records := make([]*kgo.Record, len(all))
	for i, r := range all {
		records[i] = r.record
	}
	return records
}
