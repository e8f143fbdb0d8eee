package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	fetchBytes   = 8 << 20
	fetchWaitMax = 500 // milliseconds
	// answerBytes is more than the one partition can bring: where the embedded broker ends an
	// answer for its size in the middle of a partition, it leaves out which of its transactions
	// were aborted.
	answerBytes = 2 * fetchBytes
)

// ReadAll returns the committed records of a topic that were written before the call, by partition,
// in offset order.
//
// Nothing is missing from a result: ReadAll takes the high watermarks and waits for the
// transactions below them to end before it reads. Without the wait, a commit whose markers are
// still being written, or one that lies behind somebody else's open transaction, would look like a
// loss. If a transaction stays open until ctx ends, or 45 s, the error names it. A compacted topic
// has what compaction has left.
//
// It follows the offsets of the raw fetch and not of the records, so it ends at logs that end in
// markers, aborted records or offsets that compaction has emptied. Topics are read into memory
// whole.
func (c *Cluster) ReadAll(ctx context.Context, topic string) ([][]*kgo.Record, error) {
	ends, err := c.EndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := c.settle(ctx, topic, ends); err != nil {
		return nil, err
	}
	return c.readTo(ctx, topic, ends)
}

// ReadStable returns what a reader of committed records can see of a topic now, as
// [Cluster.ReadAll] does. It waits for no transaction: what is behind one that is open is left out,
// committed or not.
func (c *Cluster) ReadStable(ctx context.Context, topic string) ([][]*kgo.Record, error) {
	ends, err := c.StableOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	return c.readTo(ctx, topic, ends)
}

// readTo reads from the start of each partition to an end that is not above the last stable offset.
func (c *Cluster) readTo(ctx context.Context, topic string, ends []int64) ([][]*kgo.Record, error) {
	starts, err := listOffsets(ctx, topic, "start", c.admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	records := make([][]*kgo.Record, len(ends))
	for p, end := range ends {
		r := reader{cluster: c, topic: topic, partition: int32(p), next: starts[p], end: end}
		if records[p], err = r.readAll(ctx); err != nil {
			return nil, fmt.Errorf("cluster: read %s-%d: %w", topic, p, err)
		}
	}
	return records, nil
}

// reader reads one partition up to end, which is not above the last stable offset.
type reader struct {
	cluster   *Cluster
	topic     string
	partition int32
	next      int64 // offset to fetch next
	end       int64
	leader    *kgo.Broker // nil until located
	topicID   [16]byte
}

func (r *reader) readAll(ctx context.Context) ([]*kgo.Record, error) {
	var records []*kgo.Record
	for r.next < r.end {
		// Everything below end is readable, so a fetch that brings nothing is a fault, and a
		// passing one at most. The bound is on each step, not on the topic.
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		err := await(ctx, func(ctx context.Context) (string, error) {
			step, err := r.fetch(ctx)
			records = append(records, step...)
			if err != nil {
				r.leader = nil // it may have moved
				return retryReason(err)
			}
			return "", nil
		})
		cancel()
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// fetch reads once and moves next. It returns an error if it got nowhere.
func (r *reader) fetch(ctx context.Context) ([]*kgo.Record, error) {
	if err := r.locate(ctx); err != nil {
		return nil, err
	}
	kresp, err := r.leader.RetriableRequest(ctx, r.request())
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer to a fetch of one partition is not one partition")
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset:         r.next,
		IsolationLevel: kgo.ReadCommitted(),
		Topic:          r.topic,
		Partition:      r.partition,
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return nil, got.Err
	}
	if next <= r.next {
		return nil, fmt.Errorf("no progress at offset %d of %d: %w", r.next, r.end, kerr.OffsetNotAvailable)
	}
	r.next = next
	records := got.Records
	for len(records) > 0 && records[len(records)-1].Offset >= r.end { // written since
		records = records[:len(records)-1]
	}
	return records, nil
}

func (r *reader) request() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis = fetchWaitMax
	req.MinBytes = 1
	req.MaxBytes = answerBytes
	req.IsolationLevel = 1 // read_committed
	req.SessionEpoch = -1  // no fetch session
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.topic, r.topicID // newer versions take the id, older ones the name
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition = r.partition
	partition.CurrentLeaderEpoch = -1
	partition.FetchOffset = r.next
	partition.PartitionMaxBytes = fetchBytes
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

// locate finds the partition's leader unless it is known.
func (r *reader) locate(ctx context.Context) error {
	if r.leader != nil {
		return nil
	}
	md, err := r.cluster.admin.Metadata(ctx, r.topic)
	if err == nil {
		err = md.Topics.Error()
	}
	if err != nil {
		return err
	}
	detail := md.Topics[r.topic]
	p, ok := detail.Partitions[r.partition]
	if !ok || p.Leader < 0 {
		return kerr.LeaderNotAvailable
	}
	r.topicID = detail.ID
	r.leader = r.cluster.client.Broker(int(p.Leader))
	return nil
}
