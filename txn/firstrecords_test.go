package txn_test

import (
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// The topology of these tests has a repartition topic, and is replaced by one that has none.
const leftTopic = "counting-words-repartition"

var (
	leftBefore = countsMoved(schemas.String(), replacedCounts)
	leftAfter  = countsIn("count", topology.KeyValueStore("totals", schemas.String(), schemas.Int64()))
)

// feedOne writes records of one key to in, whose partition of the repartition topic it returns.
func (r *replaced) feedOne() int32 {
	r.t.Helper()
	for range 8 {
		r.input = append(r.input, r.put("in", []byte("k0"), []byte("1"), r.began))
	}
	return graph.PartitionOf([]byte("k0"), replacedPartitions)
}

// refuses expects that plan and start refuse the topology that has replaced the other one, with
// that reason.
func (r *replaced) refuses(reason string) {
	r.t.Helper()
	plan := r.plan(nil, leftAfter)
	if !slices.ContainsFunc(plan.Findings, func(f admin.Finding) bool {
		return f.Judgement == admin.Refused && f.Name == leftTopic && strings.Contains(f.What, reason)
	}) {
		r.t.Errorf("the plan is %+v, want that it refuses because %s", plan, reason)
	}
	r.feedOne()
	if err := r.life(leftAfter, len(r.input), nil); err == nil || !strings.Contains(err.Error(), reason) {
		r.t.Errorf("it ends with %v, want that it is refused because %s", err, reason)
	}
}

// TestFirstRecordsOfAPartition: records wait in a partition of a repartition topic that no task has
// processed yet, so that it has no commit. A partition from which records were deleted had a
// commit, which has expired.
func TestFirstRecordsOfAPartition(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		other := 1 - r.feedOne()
		r.lives(leftBefore, len(r.input), nil)
		first := &kgo.Record{Topic: leftTopic, Partition: other, Key: []byte("other"), Value: []byte("1"), Timestamp: r.began}
		r.produce(t, first)
		if o, _ := r.offsetsOf(t, leftTopic).Lookup(leftTopic, other); o.At >= 0 {
			t.Fatalf("the partition has a commit, at %d", o.At)
		}
		r.refuses("1 records wait in the repartition topic " + leftTopic)
		r.produce(t, &kgo.Record{Topic: leftTopic, Partition: other, Key: []byte("other"), Value: []byte("1"), Timestamp: r.began})
		if err := r.DeleteRecords(leftTopic, other, 1); err != nil {
			t.Fatal(err)
		}
		r.lives(leftAfter, len(r.input), nil)
	})
}

// TestManyRecordsWait: it is refused as soon as it is known that many records wait, however many
// there are.
func TestManyRecordsWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		p := r.feedOne()
		r.lives(leftBefore, len(r.input), nil)
		const records = 3000
		source := rand.NewChaCha8([32]byte{}) // what cannot be compressed, so that it takes many answers
		var many []*kgo.Record
		for range records {
			value := make([]byte, 8<<10)
			_, _ = source.Read(value)
			many = append(many, &kgo.Record{Topic: leftTopic, Partition: p, Key: []byte("k0"), Value: value, Timestamp: r.began})
		}
		r.produce(t, many...)
		r.feedOne()
		err := r.life(leftAfter, len(r.input), nil)
		if err == nil || !strings.Contains(err.Error(), "records or more wait in the repartition topic "+leftTopic) {
			t.Fatalf("it ends with %v", err)
		}
		_, text, _ := strings.Cut(err.Error(), "not started: ")
		text, _, _ = strings.Cut(text, " ")
		if n, err := strconv.Atoi(text); err != nil || n >= records {
			t.Errorf("%s records were counted", text)
		}
	})
}

// TestWhatWaitsCannotBeRead: a topic that the topology does not read any more may be described and
// not read. That is refused, as records can wait in it, and says what to do; the plan says the
// same, and does not fail.
func TestWhatWaitsCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		p := r.feedOne()
		r.lives(leftBefore, len(r.input), nil)
		r.produce(t, &kgo.Record{Topic: leftTopic, Partition: p, Key: []byte("k0"), Value: []byte("1"), Timestamp: r.began})
		r.unreadable(leftTopic)
		r.refuses("cannot tell whether records wait in the repartition topic " + leftTopic)
		ran := r.topology(leftBefore).Description()
		if plan := r.plan(&ran, leftAfter); !planFinds(plan, admin.Refused, "source "+leftTopic+": is gone: a repartition topic: an unknown number") {
			t.Errorf("with what ran the plan is %+v", plan)
		}
		if err := r.life(leftAfter, len(r.input), nil); err == nil || !strings.Contains(err.Error(), "allow the application to read that topic") {
			t.Errorf("it ends with %v, want what to do", err)
		}
		gone := kadm.TopicsSet{}
		gone.Add(leftTopic, 0, 1)
		if _, err := r.adm.DeleteOffsets(t.Context(), "counting", gone); err != nil {
			t.Fatal(err)
		}
		r.lives(leftAfter, len(r.input), nil)
	})
}

// unreadable takes away the permission to read a topic, and leaves that to describe it.
func (r *replaced) unreadable(topic string) {
	r.t.Helper()
	host, text, err := net.SplitHostPort(r.ListenAddrs()[0])
	if err != nil {
		r.t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.t.Fatal(err)
	}
	info := r.TopicInfo(topic)
	r.ControlKey(keyMetadata, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if !req.IncludeTopicAuthorizedOperations || len(req.Topics) != 1 || req.Topics[0].Topic == nil || *req.Topics[0].Topic != topic {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = r.CurrentNode(), host, int32(port)
		resp.Brokers = append(resp.Brokers, broker)
		described := kmsg.NewMetadataResponseTopic()
		described.Topic, described.TopicID = kmsg.StringPtr(topic), info.TopicID
		described.AuthorizedOperations = 1 << kmsg.ACLOperationDescribe
		for p := range int32(replacedPartitions) {
			partition := kmsg.NewMetadataResponseTopicPartition()
			partition.Partition, partition.Leader, partition.Replicas, partition.ISR = p, r.CurrentNode(), []int32{r.CurrentNode()}, []int32{r.CurrentNode()}
			described.Partitions = append(described.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, described)
		return resp, nil, true
	})
	r.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		r.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) != 1 || req.Topics[0].TopicID != info.TopicID {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		refused := kmsg.NewFetchResponseTopic()
		refused.TopicID = info.TopicID
		for _, asked := range req.Topics[0].Partitions {
			partition := kmsg.NewFetchResponseTopicPartition()
			partition.Partition, partition.ErrorCode = asked.Partition, kerr.TopicAuthorizationFailed.Code
			refused.Partitions = append(refused.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, refused)
		return resp, nil, true
	})
}
