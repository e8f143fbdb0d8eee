package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// Fetched is the answer to one raw fetch.
type Fetched struct {
	Records []*Record
	// Next is the offset to fetch from next. It moves past control records and aborted records,
	// which a position taken from the last record would not.
	Next             int64
	HighWatermark    int64
	LastStableOffset int64
	LogStart         int64
}

// Reader fetches one partition by raw requests, without a consumer session. It belongs to one
// goroutine.
type Reader struct {
	c         *Cluster
	topic     string
	topicID   [16]byte
	partition int32
	isolation kgo.IsolationLevel
	level     int8
	bytesMax  int32
	leader    int32
	decomp    kgo.Decompressor
}

// NewReader returns a reader of committed records, or of all of them. bytesMax bounds one answer (a
// larger single batch still comes whole).
func (c *Cluster) NewReader(topic string, topicID [16]byte, partition int32, committed bool, bytesMax int32) *Reader {
	r := &Reader{c: c, topic: topic, topicID: topicID, partition: partition, bytesMax: bytesMax, leader: -1,
		isolation: kgo.ReadUncommitted(), decomp: kgo.DefaultDecompressor()}
	if committed {
		r.isolation, r.level = kgo.ReadCommitted(), 1
	}
	return r
}

// ErrOffsetOutOfRange says that the log does not contain the offset asked for.
var ErrOffsetOutOfRange = kerr.OffsetOutOfRange

// Fetch asks for records from offset on and waits at most wait for some to appear. It retries while
// the leader moves, until ctx ends.
func (r *Reader) Fetch(ctx context.Context, offset int64, wait time.Duration) (Fetched, error) {
	var f Fetched
	err := r.retry(ctx, offset, func() (err error) {
		f, err = r.fetchOnce(ctx, offset, wait)
		return err
	})
	return f, err
}

// fetchPartition is Fetch without looking at the records.
func (r *Reader) fetchPartition(ctx context.Context, offset int64, wait time.Duration) (p *kmsg.FetchResponseTopicPartition, err error) {
	err = r.retry(ctx, offset, func() (err error) {
		if p, err = r.ask(ctx, offset, wait); err == nil {
			err = kerr.ErrorForCode(p.ErrorCode)
		}
		return err
	})
	return p, err
}

// retry repeats a fetch while the leader moves, until ctx ends.
func (r *Reader) retry(ctx context.Context, offset int64, fetch func() error) error {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		err := fetch()
		if err == nil {
			return nil
		}
		err = r.c.cfg.denied(err, attempt{operation: Read, topic: r.topic})
		if errors.Is(err, kerr.OffsetOutOfRange) || Permanent(err) || ctx.Err() != nil {
			return fmt.Errorf("fetching %s[%d] from offset %d: %w", r.topic, r.partition, offset, err)
		}
		r.leader = -1
		if ended := pause.Wait(ctx); ended != nil {
			return fmt.Errorf("fetching %s[%d] from offset %d: %w (last answer: %w)", r.topic, r.partition, offset, ended, err)
		}
	}
}

// answerMax is the bound of a whole answer: none, because each partition in it has its own. The
// embedded broker leaves the list of aborted transactions out of an answer that the bound of the
// whole has cut, so that what was aborted looks committed.
const answerMax = math.MaxInt32

func (r *Reader) fetchOnce(ctx context.Context, offset int64, wait time.Duration) (Fetched, error) {
	rp, err := r.ask(ctx, offset, wait)
	if err != nil {
		return Fetched{}, err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, IsolationLevel: r.isolation, Topic: r.topic, Partition: r.partition,
	}, rp, r.decomp, nil)
	if fp.Err != nil {
		return Fetched{}, fp.Err
	}
	return Fetched{Records: fp.Records, Next: next, HighWatermark: fp.HighWatermark, LastStableOffset: fp.LastStableOffset,
		LogStart: fp.LogStartOffset}, nil
}

// ask sends one request and returns the answer for the partition, whose own error code is the
// caller's.
func (r *Reader) ask(ctx context.Context, offset int64, wait time.Duration) (*kmsg.FetchResponseTopicPartition, error) {
	if r.leader < 0 {
		if err := r.findLeader(ctx); err != nil {
			return nil, err
		}
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, answerMax
	req.IsolationLevel, req.ReplicaID, req.SessionEpoch = r.level, -1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = r.topic, r.topicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = r.partition, offset, r.bytesMax, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := r.c.cl.Broker(int(r.leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer is not about the one partition that was asked for")
	}
	return &resp.Topics[0].Partitions[0], nil
}

func (r *Reader) findLeader(ctx context.Context) (err error) {
	r.leader, err = r.c.leader(ctx, r.topic, r.partition)
	return err
}

// leader asks who leads a partition. It returns -1 with every error.
func (c *Cluster) leader(ctx context.Context, topic string, partition int32) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return -1, err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return -1, err
		}
		for _, p := range t.Partitions {
			if p.Partition != partition {
				continue
			}
			if p.Leader < 0 {
				return -1, kerr.LeaderNotAvailable
			}
			return p.Leader, nil
		}
	}
	return -1, kerr.UnknownTopicOrPartition
}

// LogBounds returns the first offset and the high watermark of a partition (read uncommitted).
func (c *Cluster) LogBounds(ctx context.Context, topic string, partition int32) (start, highWatermark int64, err error) {
	starts, err := c.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("listing the start of %s: %w", topic, err)
	}
	ends, err := c.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("listing the end of %s: %w", topic, err)
	}
	s, ok := starts.Lookup(topic, partition)
	if !ok || s.Err != nil {
		return 0, 0, fmt.Errorf("listing the start of %s[%d]: %w", topic, partition, orMissing(s.Err))
	}
	e, ok := ends.Lookup(topic, partition)
	if !ok || e.Err != nil {
		return 0, 0, fmt.Errorf("listing the end of %s[%d]: %w", topic, partition, orMissing(e.Err))
	}
	return s.Offset, e.Offset, nil
}

// StableEnd returns the last stable offset of a partition: where a reader of committed records
// stands when it has read everything.
func (c *Cluster) StableEnd(ctx context.Context, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, 1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	for _, shard := range c.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return 0, fmt.Errorf("listing the stable end of %s[%d]: %w", topic, partition, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return 0, fmt.Errorf("listing the stable end of %s[%d]: %w", topic, partition, err)
				}
				return p.Offset, nil
			}
		}
	}
	return 0, fmt.Errorf("listing the stable end of %s[%d]: %w", topic, partition, kerr.UnknownTopicOrPartition)
}

func orMissing(err error) error {
	if err == nil {
		return kerr.UnknownTopicOrPartition
	}
	return err
}
