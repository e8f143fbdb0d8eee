package pgsink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// pollRecordsMax bounds what one poll hands to the queues.
	pollRecordsMax = 5000
	// fetchWait is how long a broker waits for records before it answers a fetch, unless
	// Config.Client says otherwise.
	fetchWait = 200 * time.Millisecond
)

// session is one membership in the group: from the join to the first failure that needs another
// one.
type session struct {
	sink   *Sink
	client *kgo.Client // there when ready is closed: the client calls back before it is returned
	ready  chan struct{}
	ctx    context.Context
	end    context.CancelCauseFunc // the first cause counts

	mu      sync.Mutex
	workers map[partition]*worker
}

// session joins the group, and applies what it is assigned until the context ends or something
// fails.
func (s *Sink) session(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	e := &session{sink: s, ctx: ctx, end: end, ready: make(chan struct{}), workers: map[partition]*worker{}}
	options := append([]kgo.Opt{
		// A partition that was paused is fetched again when the fetch that is on its way has ended.
		kgo.FetchMaxWait(fetchWait),
	}, s.config.Client...)
	client, err := kgo.NewClient(append(options,
		kgo.ConsumerGroup(s.config.Name),
		kgo.ConsumeTopics(s.config.Topics...),
		kgo.FetchIsolationLevel(e.sink.isolation),
		kgo.KeepControlRecords(), // which move the offset, and are not handed to Apply
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// Between a poll and the queues nothing is revoked: what is polled belongs to the worker
		// that gets it.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(e.assigned),
		kgo.OnPartitionsRevoked(e.revoked),
		kgo.OnPartitionsLost(e.lost),
		kgo.AdjustFetchOffsetsFn(e.offsets),
	)...)
	if err != nil {
		return fmt.Errorf("the Kafka client: %w", err)
	}
	e.client = client
	close(e.ready)
	var measuring sync.WaitGroup
	measuring.Go(e.measure)
	for ctx.Err() == nil {
		e.poll()
	}
	e.abandon()
	measuring.Wait()
	client.CloseAllowingRebalance()
	return context.Cause(ctx)
}

// poll hands records to their workers.
func (e *session) poll() {
	defer e.client.AllowRebalance()
	fetches := e.client.PollRecords(e.ctx, pollRecordsMax)
	if e.ctx.Err() != nil {
		return
	}
	fetches.EachError(func(topic string, n int32, err error) {
		var loss *kgo.ErrDataLoss
		var answer *kerr.Error
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			e.end(fmt.Errorf("topic %s, partition %d: the next record to apply is not there any more: it was deleted before it was read, or the log "+
				"was cut. SetOffset makes the sink go on elsewhere: %w", topic, n, err))
		case errors.As(err, &loss):
			e.end(fmt.Errorf("topic %s, partition %d: the log was cut: records from offset %d on were applied and are not there any more. "+
				"SetOffset makes the sink go on: %w", topic, n, loss.ResetTo, err))
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			e.end(fmt.Errorf("join the group: %w", err))
		case errors.As(err, new(*kgo.ErrGroupSession)):
			e.sink.config.Logger.Warn("the membership in the group has ended; the client joins again", "error", err)
		case errors.Is(err, kerr.UnknownTopicID): // the claim finds whether there is another topic of the name
			e.end(&brokerError{"fetch topic " + topic, err})
		case errors.As(err, &answer) && !answer.Retriable:
			e.end(fmt.Errorf("fetch topic %s, partition %d: %w", topic, n, err))
		default: // the network
			e.sink.config.Logger.Warn("a fetch has failed and is tried again", "topic", topic, "partition", n, "error", err)
		}
	})
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		if w := e.worker(partition{f.Topic, f.Partition}); w != nil {
			w.push(f.Records, f.LastStableOffset)
		}
	})
}

func (e *session) worker(p partition) *worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workers[p]
}

// assigned claims the partitions and starts their workers. The client fetches nothing of them
// before it returns.
func (e *session) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	<-e.ready
	if err := e.claim(added); err != nil {
		e.end(err)
	}
}

func (e *session) claim(added map[string][]int32) error {
	if len(added) == 0 {
		return nil
	}
	admin := kadm.NewClient(e.client)
	topics := make([]string, 0, len(added))
	for t := range added {
		topics = append(topics, t)
	}
	known, err := admin.ListTopics(e.ctx, topics...)
	if err != nil {
		return &brokerError{"ask for topics", err}
	}
	for topic, partitions := range added {
		detail := known[topic]
		if detail.Err != nil {
			return &brokerError{"ask for topic " + topic, detail.Err}
		}
		if detail.ID == (kadm.TopicID{}) {
			return fmt.Errorf("topic %s: the broker says no id of it, and the sink needs one: Kafka has them since 2.8", topic)
		}
		if err := e.introduce(admin, topic, detail); err != nil {
			return err
		}
		for _, n := range partitions {
			p := partition{topic, n}
			at, err := e.sink.claim(e.ctx, p, detail.ID)
			if err != nil {
				return err
			}
			e.start(newWorker(e, p, detail.ID, at))
		}
	}
	return nil
}

// introduce stores where a topic begins, or those of its partitions that are new.
func (e *session) introduce(admin *kadm.Client, topic string, detail kadm.TopicDetail) error {
	unknown, _, err := e.sink.unknown(e.ctx, e.sink.config.Pool, topic, len(detail.Partitions))
	if err != nil || len(unknown) == 0 {
		return err
	}
	earliest, err := listed(e.ctx, topic, admin.ListStartOffsets)
	begin := earliest
	if err == nil && e.sink.config.Start == Latest {
		begin, err = listed(e.ctx, topic, admin.ListCommittedOffsets)
	}
	if err != nil {
		return err
	}
	return e.sink.introduce(e.ctx, topic, detail.ID, earliest, begin)
}

// listed returns an offset of each partition of a topic.
func listed(ctx context.Context, topic string, list func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
	answer, err := list(ctx, topic)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		return nil, &brokerError{"ask for the offsets of topic " + topic, err}
	}
	offsets := map[int32]int64{}
	for n, o := range answer[topic] {
		offsets[n] = o.Offset
	}
	return offsets, nil
}

// start puts a worker to work.
func (e *session) start(w *worker) {
	e.mu.Lock()
	e.workers[w.partition] = w
	e.mu.Unlock()
	e.client.ResumeFetchPartitions(w.asMap()) // an earlier worker may have left it paused
	go w.run()
	e.sink.config.Logger.Info("partition assigned", "topic", w.topic, "partition", w.n, "next", w.next, "generation", w.generation)
}

// offsets says where the client begins to fetch: where the table of offsets says.
func (e *session) offsets(_ context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range fetched {
		for n := range partitions {
			w := e.worker(partition{topic, n})
			if w == nil {
				return nil, fmt.Errorf("topic %s, partition %d: the sink does not own it", topic, n) // the session is about to end
			}
			behind, epoch := w.received()
			partitions[n] = kgo.NewOffset().At(behind).WithEpoch(epoch)
		}
	}
	return fetched, nil
}

// revoked lets batches that are at work end, and gives the partitions back.
func (e *session) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	e.release(lost, (*worker).finish)
}

// lost gives up what is at work: another instance may have the partitions already.
func (e *session) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	e.release(lost, (*worker).abort)
}

// abandon gives up everything at the end of the session.
func (e *session) abandon() {
	e.mu.Lock()
	all := map[string][]int32{}
	for p := range e.workers {
		all[p.topic] = append(all[p.topic], p.n)
	}
	e.mu.Unlock()
	e.release(all, (*worker).abort)
}

// release stops the workers of partitions, all at once, and waits for them.
func (e *session) release(partitions map[string][]int32, stop func(w *worker)) {
	var stopped []*worker
	e.mu.Lock()
	for topic, all := range partitions {
		for _, n := range all {
			if w := e.workers[partition{topic, n}]; w != nil {
				delete(e.workers, w.partition)
				stopped = append(stopped, w)
			}
		}
	}
	e.mu.Unlock()
	for _, w := range stopped {
		stop(w)
	}
	for _, w := range stopped {
		<-w.done
		e.sink.metrics.drop(w)
	}
}
