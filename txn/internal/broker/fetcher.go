package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// Fetcher fetches committed records of many partitions with few requests: those that are asked for
// at a time are in one request to each leader. A broker works on one request of a connection at a
// time, so that a request for a partition that has nothing yet would otherwise hold up all others.
// It is safe for concurrent use.
type Fetcher struct {
	c      *Cluster
	ctx    context.Context
	cancel context.CancelFunc
	// working counts the goroutines, one for each broker that is asked at the moment.
	working sync.WaitGroup

	mu      sync.Mutex
	streams map[*Stream]struct{}
	waiting map[int32][]*ask // by broker; a key without asks says that its goroutine is at work
}

// Stream is one partition of a Fetcher, for one goroutine.
type Stream struct {
	f         *Fetcher
	topic     string
	topicID   [16]byte
	partition int32
	leader    int32 // -1 until it is known; of the fetcher's lock
}

// Answer is what a broker returned for one partition.
type Answer struct {
	// Next is the offset to fetch from next, if the answer is well formed.
	Next             int64
	HighWatermark    int64
	LastStableOffset int64

	offset int64
	p      kmsg.FetchResponseTopicPartition
}

// NewAnswer returns p, which was fetched from offset on, as an answer.
func NewAnswer(p kmsg.FetchResponseTopicPartition, offset int64) Answer {
	return Answer{Next: batch.Next(&p, offset), HighWatermark: p.HighWatermark, LastStableOffset: p.LastStableOffset, offset: offset, p: p}
}

// Decode hands over the committed records of the answer: see batch.Decoder.
func (a *Answer) Decode(d *batch.Decoder, each func(batch.Record) error) (next int64, err error) {
	return d.Decode(&a.p, a.offset, each)
}

// NewestAt returns the largest timestamp, in milliseconds since the epoch, of the batch that
// contains an offset, records that are not committed included; ok is false if the answer does not
// have it.
func (a *Answer) NewestAt(offset int64) (ms int64, ok bool) { return batch.NewestAt(&a.p, offset) }

// Bytes is the size of its batches, as the broker has sent them.
func (a *Answer) Bytes() int { return len(a.p.RecordBatches) }

// HasOldFormat reports whether the answer holds messages in a format from before Kafka 0.11, which
// cannot be decoded: Next is not behind them.
func (a *Answer) HasOldFormat() bool { return batch.HasOldFormat(&a.p) }

// ask is one partition of a request.
type ask struct {
	ctx      context.Context
	stream   *Stream
	offset   int64
	bytesMax int32
	reply    chan reply // of one
}

type reply struct {
	answer Answer
	err    error
}

// NewFetcher returns a fetcher. Close it.
func (c *Cluster) NewFetcher() *Fetcher {
	f := &Fetcher{c: c, streams: map[*Stream]struct{}{}, waiting: map[int32][]*ask{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close ends the requests that are under way, whose callers get an error, and returns when they
// have ended.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.working.Wait()
}

// Open adds a partition. Close the stream.
func (f *Fetcher) Open(topic string, topicID [16]byte, partition int32) *Stream {
	s := &Stream{f: f, topic: topic, topicID: topicID, partition: partition, leader: -1}
	f.mu.Lock()
	f.streams[s] = struct{}{}
	f.mu.Unlock()
	return s
}

// Close takes the partition out.
func (s *Stream) Close() {
	s.f.mu.Lock()
	delete(s.f.streams, s)
	s.f.mu.Unlock()
}

// Fetch asks for committed records from offset on, at most bytesMax of them (a larger single batch
// comes whole). It waits a little for some to appear; an answer whose Next is offset has none. It
// retries while the leader moves, until ctx ends.
func (s *Stream) Fetch(ctx context.Context, offset int64, bytesMax int32) (Answer, error) {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		a, err := s.fetchOnce(ctx, offset, bytesMax)
		if err == nil {
			return a, nil
		}
		err = s.f.c.cfg.denied(err, attempt{operation: Read, topic: s.topic})
		if errors.Is(err, kerr.OffsetOutOfRange) || Permanent(err) || ctx.Err() != nil || s.f.ctx.Err() != nil {
			return Answer{}, fmt.Errorf("fetching %s[%d] from offset %d: %w", s.topic, s.partition, offset, err)
		}
		s.setLeader(-1)
		if ended := pause.Wait(ctx); ended != nil {
			return Answer{}, fmt.Errorf("fetching %s[%d] from offset %d: %w (last answer: %w)", s.topic, s.partition, offset, ended, err)
		}
	}
}

// setLeader notes who has the partition, and returns who had it.
func (s *Stream) setLeader(leader int32) int32 {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	before := s.leader
	s.leader = leader
	return before
}

func (s *Stream) fetchOnce(ctx context.Context, offset int64, bytesMax int32) (Answer, error) {
	s.f.mu.Lock()
	known := s.leader >= 0
	s.f.mu.Unlock()
	if !known {
		leader, err := s.f.c.leader(ctx, s.topic, s.partition)
		if err != nil {
			return Answer{}, err
		}
		s.setLeader(leader)
	}
	a := &ask{ctx: ctx, stream: s, offset: offset, bytesMax: bytesMax, reply: make(chan reply, 1)}
	if err := s.f.add(a); err != nil {
		return Answer{}, err
	}
	select {
	case r := <-a.reply:
		return r.answer, r.err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// add hands an ask to the goroutine of its broker, which it starts if there is none.
func (f *Fetcher) add(a *ask) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return f.ctx.Err()
	}
	leader := a.stream.leader
	asks, working := f.waiting[leader]
	f.waiting[leader] = append(asks, a)
	if !working {
		f.working.Go(func() { f.work(leader) })
	}
	return nil
}

// fetchWaitShort is how long a broker waits for records while there are streams that it was not
// asked for: the next request may be theirs.
const (
	fetchWaitShort = 20 * time.Millisecond
	fetchWaitLong  = 250 * time.Millisecond
)

// work asks one broker until there is nothing to ask.
func (f *Fetcher) work(leader int32) {
	for {
		asks, wait := f.next(leader)
		if len(asks) == 0 {
			return
		}
		f.request(leader, asks, wait)
	}
}

// next takes what is to be asked at a time, and says how long the broker may wait. With nothing to
// ask the goroutine is over.
func (f *Fetcher) next(leader int32) (asks []*ask, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var later []*ask
	type key struct {
		topic     string
		partition int32
	}
	taken := map[key]bool{}
	for _, a := range f.waiting[leader] {
		k := key{a.stream.topic, a.stream.partition}
		switch {
		case a.ctx.Err() != nil: // no receiver is left
		case taken[k]: // a task that is given up and another one that is opened for the same partition
			later = append(later, a)
		default:
			taken[k] = true
			asks = append(asks, a)
		}
	}
	if len(asks) == 0 {
		delete(f.waiting, leader)
		return nil, 0
	}
	f.waiting[leader] = later
	idle := 0
	for s := range f.streams {
		if s.leader == leader || s.leader < 0 {
			idle++
		}
	}
	if idle > len(asks) {
		return asks, fetchWaitShort
	}
	return asks, fetchWaitLong
}

// request sends one request and hands out the answers.
func (f *Fetcher) request(leader int32, asks []*ask, wait time.Duration) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes = int32(wait.Milliseconds()), 1
	req.IsolationLevel, req.ReplicaID, req.SessionEpoch, req.MaxBytes = 1, -1, -1, answerMax
	for _, a := range asks {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = a.stream.topic, a.stream.topicID
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = a.stream.partition, a.offset, a.bytesMax, -1
		i := 0
		for i < len(req.Topics) && req.Topics[i].Topic != t.Topic {
			i++
		}
		if i == len(req.Topics) {
			req.Topics = append(req.Topics, t)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	kresp, err := f.c.cl.Broker(int(leader)).Request(f.ctx, req)
	var resp *kmsg.FetchResponse
	if err == nil {
		resp = kresp.(*kmsg.FetchResponse)
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	for _, a := range asks {
		r := reply{err: err}
		if err == nil {
			r.answer, r.err = a.find(resp)
		}
		a.reply <- r
	}
}

var errNotAnswered = errors.New("the answer is not about the partition that was asked for")

// find returns what a response says of the partition.
func (a *ask) find(resp *kmsg.FetchResponse) (Answer, error) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic != a.stream.topic && (t.Topic != "" || t.TopicID != a.stream.topicID) { // newer versions have no names
			continue
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.Partition != a.stream.partition {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return Answer{}, err
			}
			return NewAnswer(*p, a.offset), nil
		}
	}
	return Answer{}, errNotAnswered
}
