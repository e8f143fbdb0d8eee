package comparison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// loopCommit is how long a transaction of the loop takes input: what Onceward and Kafka Streams
	// wait at most.
	loopCommit = 100 * time.Millisecond
	// loopPoll is how many records the loop takes at once.
	loopPoll = 10_000
	// loopTransaction is when a broker ends what a loop left open that is gone, as the others have
	// it.
	loopTransaction = 10 * time.Second
)

// loop copies records in transactions with franz-go's GroupTransactSession, as its documentation
// shows: poll, produce, and end every 100 ms. Its client has the defaults but for what exactly once
// and a fair comparison need: reading committed records, the same partitioner, no compression, and
// room for a transaction's records.
func (s settings) loop(ctx context.Context) (err error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(s.Brokers...), kgo.TransactionalID(s.Application), kgo.TransactionTimeout(loopTransaction),
		kgo.ConsumerGroup(s.Application), kgo.ConsumeTopics(s.In), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DefaultProduceTopic(s.Out), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(1<<20),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		err := copyOnce(ctx, session)
		if ctx.Err() != nil {
			return nil // told to end, it leaves its last transaction to the broker: there is no reader any more
		}
		if err != nil {
			return err
		}
	}
}

// copyOnce is one transaction.
func copyOnce(ctx context.Context, session *kgo.GroupTransactSession) error {
	fetches := session.PollRecords(ctx, loopPoll)
	if err := fetchError(fetches); err != nil {
		return err
	}
	if err := session.Begin(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	due, stop := context.WithTimeout(ctx, loopCommit)
	defer stop()
	for fetches.NumRecords() > 0 {
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}, failed.Promise())
		})
		if due.Err() != nil {
			break
		}
		fetches = session.PollRecords(due, loopPoll)
		if err := fetchError(fetches); err != nil && due.Err() == nil {
			return err
		}
	}
	produced := failed.Err()
	committed, err := session.End(ctx, produced == nil)
	if err != nil {
		return fmt.Errorf("ending a transaction: %w", err)
	}
	if !committed && produced != nil {
		return fmt.Errorf("producing: %w", produced)
	}
	return nil // what was not committed is fetched again
}

func fetchError(fetches kgo.Fetches) error {
	var errs []error
	fetches.EachError(func(topic string, partition int32, err error) {
		errs = append(errs, fmt.Errorf("reading %s[%d]: %w", topic, partition, err))
	})
	return errors.Join(errs...)
}
