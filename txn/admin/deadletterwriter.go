package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// redriveTimeout is how long the transaction of a batch may stay open.
const redriveTimeout = 30 * time.Second

// ErrRedriveFenced says that another redrive, or edit, of the same topic has begun, or that a
// transaction took so long that the brokers have aborted it. Earlier commits stay.
var ErrRedriveFenced = errors.New("another redrive or edit of the topic has begun, or a transaction took longer than " +
	redriveTimeout.String() + "; earlier commits stay")

// letterWriter writes to a dead-letter topic beside the applications. It is a transactional
// producer whose id follows from the topic, so that there is never more than one. It belongs to one
// goroutine.
type letterWriter struct {
	producer *broker.Producer
	cluster  *broker.Cluster
	points   failpoint.Set
	// producers are the producer ids that the transactional id has had.
	producers map[int64]bool
	// looked are the partitions that hold no transaction of the producer open, since it was
	// initialised.
	looked map[Partition]bool
	// session is in all that it writes about dead letters, and in nothing else.
	session string
}

// newWriter returns a writer once everything is over that an earlier one has left open, and late
// requests of it are refused.
func (t *letterTopic) newWriter(ctx context.Context, d *DeadLetters, batchBytes func(topic string) int32) (*letterWriter, error) {
	cfg := d.client.cfg
	cfg.BatchMaxBytes = batchBytes
	producer := broker.NewProducer(cfg, d.topic+broker.IDSeparator+"redrive", redriveTimeout)
	w := &letterWriter{producer: producer, cluster: t.cluster, points: cfg.Failpoints, session: rand.Text(), producers: map[int64]bool{}}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *letterWriter) close() { w.producer.Close() }

func (w *letterWriter) settle(ctx context.Context) error {
	w.looked = map[Partition]bool{}
	w.producer.Close()
	w.note(ctx)
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: 2 * time.Second}
	for {
		attempt, cancel := context.WithTimeout(ctx, redriveTimeout)
		err := w.producer.Settle(attempt)
		cancel()
		if err == nil {
			err = w.settled(ctx)
		}
		if err == nil || broker.Permanent(err) || ctx.Err() != nil {
			return err
		}
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}

// noteMax bounds the question for the producer id.
const noteMax = 5 * time.Second

// note keeps the producer id that the transactional id has before it is initialised, which can give
// it another one. A transaction that hangs under the old one can still be committed, beside the
// same records that are written again. Without an answer the look goes without it.
func (w *letterWriter) note(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noteMax)
	defer cancel()
	now, err := w.cluster.Transactions(ctx, w.producer.TransactionalID())
	if tx, known := now[w.producer.TransactionalID()]; err == nil && known {
		w.producers[tx.ProducerID] = true
	}
}

// settled keeps the producer id with which the next transaction is written.
func (w *letterWriter) settled(ctx context.Context) error {
	identity, err := w.producer.Identity()
	if err != nil {
		return err
	}
	w.producers[identity.ProducerID] = true
	return w.points.Hit(ctx, failpoint.DeadLettersSettled)
}

// commitTries bounds how often a batch is tried that was aborted for reasons that pass.
const commitTries = 5

// written is what one transaction writes: records, and the marks that say of their dead letters
// that they are redriven.
type written struct{ records, marks []*broker.Record }

// commit writes in one transaction; done says that it is known to be committed, with an error or
// without.
//
// committed looks in the log for whether the transaction was committed. It is asked after every
// failed try, when none of its transactions can be open any more. A failed try does not prove that
// no other writer was there: it can have hung while another writer did all its work, and settling
// makes this writer the valid one again. So committed also has to refuse records that are not to be
// written any more.
func (w *letterWriter) commit(
	ctx context.Context, all written, committed func(context.Context) (bool, error), crash func(string) error,
) (done bool, err error) {
	for try := 1; ; try++ {
		err := w.try(ctx, all, crash)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, errCrash), ctx.Err() != nil, errors.Is(err, ErrRefused):
			return false, err
		case isFenced(err):
			// Settling would stop the other one in turn.
			return false, fmt.Errorf("%w: %w", ErrRedriveFenced, err)
		}
		if settled := w.settle(ctx); settled != nil {
			return false, errors.Join(err, settled)
		}
		if done, lookErr := committed(ctx); done || lookErr != nil {
			return done, lookErr
		}
		if try == commitTries || broker.Permanent(err) {
			return false, fmt.Errorf("nothing of this batch was written: %w", err)
		}
	}
}

// errCrash is what tests have a crash point return.
var errCrash = errors.New("killed")

// The points at which a test of this package can end a commit. The points of package failpoint are
// at the same places, for tests that kill the process.
const (
	crashBegun    = "begun"
	crashRecords  = "records"
	crashFlushed  = "flushed"
	crashAnswered = "answered"
)

func (w *letterWriter) try(ctx context.Context, all written, crash func(string) error) error {
	ctx, cancel := context.WithTimeout(ctx, redriveTimeout)
	defer cancel()
	if err := w.look(ctx, slices.Concat(all.records, all.marks)); err != nil {
		return err
	}
	for _, one := range brokenMarks(w.points, all) {
		if err := w.transaction(ctx, one, crash); err != nil {
			return err
		}
	}
	return nil
}

// look asks the partitions that records go to whether they hold an older transaction of the
// producer open. The next transaction would decide how that one ends (protocol rule 13.7).
// Partitions that may not be read are not looked at.
func (w *letterWriter) look(ctx context.Context, records []*broker.Record) error {
	ask := map[string][]int32{}
	for _, r := range records {
		if p := (Partition{r.Topic, r.Partition}); !w.looked[p] {
			w.looked[p] = true
			ask[r.Topic] = append(ask[r.Topic], r.Partition)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	open, err := w.cluster.OpenTransactions(ctx, ask)
	for _, t := range open {
		if w.producers[t.ProducerID] {
			id := transactionID(t.ProducerID, t.Epoch)
			return refuse("transaction %s of an earlier redrive or edit hangs in %s[%d]; the next one would decide how it ends: "+
				"repair it first (onceward transactions show %s)", id, t.Topic, t.Partition, id)
		}
	}
	if err != nil && !hanging.OnlyDenied(err) {
		return err // the next try settles, and looks at all again
	}
	return nil
}

func (w *letterWriter) transaction(ctx context.Context, all written, crash func(string) error) error {
	hit := func(point string) error {
		if crash == nil {
			return nil
		}
		return crash(point)
	}
	began, err := w.producer.Begin()
	if err != nil {
		return err
	}
	if err := errors.Join(w.points.Hit(ctx, failpoint.DeadLettersBegun), hit(crashBegun)); err != nil {
		return err
	}
	w.add(all.records)
	if crash != nil || w.points.Armed() { // a test can end it between the two; otherwise one flush is enough
		if _, err := w.producer.Flush(ctx, began); err != nil {
			return err
		}
		if err := errors.Join(w.points.Hit(ctx, failpoint.DeadLettersRecords), hit(crashRecords)); err != nil {
			return err
		}
	}
	w.add(all.marks)
	if _, err := w.producer.Flush(ctx, began); err != nil {
		return err
	}
	if err := errors.Join(w.points.Hit(ctx, failpoint.DeadLettersMarks), hit(crashFlushed)); err != nil {
		return err
	}
	if _, err := w.producer.Commit(ctx); err != nil {
		return err
	}
	return errors.Join(w.points.Hit(ctx, failpoint.DeadLettersEnded), hit(crashAnswered))
}

func (w *letterWriter) add(records []*broker.Record) {
	for _, r := range records {
		at := r.Timestamp
		if at.IsZero() {
			at = time.Now()
		}
		w.producer.Add(r.Topic, r.Partition, at.UnixMilli(), r.Key, r.Value, r.Headers)
	}
}

// isFenced reports whether another producer with the transactional id has been initialised.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}
