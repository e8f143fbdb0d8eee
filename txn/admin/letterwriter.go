package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
)

// redriveTimeout is how long the transaction of a batch may stay open.
const redriveTimeout = 30 * time.Second

// ErrRedriveFenced says that another redrive, or edit, of the same topic has begun, or that a transaction took so long that the
// brokers have aborted it. What was committed before stays.
var ErrRedriveFenced = errors.New("another redrive or edit of the topic has begun, or a transaction took longer than " +
	redriveTimeout.String() + "; what was committed stays")

// letterWriter is the one who writes to a dead-letter topic beside the applications: a transactional producer whose id follows
// from the topic, so that there is never more than one. It belongs to one goroutine.
type letterWriter struct {
	producer *broker.Producer
	points   failpoint.Set
	// session is in all that it writes about letters, and in nothing else.
	session string
}

// newWriter returns a writer once everything is over that an earlier one has left open, and late requests of it are refused.
func (t *letterTopic) newWriter(ctx context.Context, d *DeadLetters, batchBytes func(topic string) int32) (*letterWriter, error) {
	cfg := d.client.cfg
	cfg.BatchMaxBytes = batchBytes
	producer := broker.NewProducer(cfg, d.topic+broker.IDSeparator+"redrive", redriveTimeout)
	w := &letterWriter{producer: producer, points: cfg.Failpoints, session: rand.Text()}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *letterWriter) close() { w.producer.Close() }

func (w *letterWriter) settle(ctx context.Context) error {
	pause := backoff.Backoff{Next: 50 * time.Millisecond, Max: 2 * time.Second}
	for {
		attempt, cancel := context.WithTimeout(ctx, redriveTimeout)
		err := w.producer.Settle(attempt)
		cancel()
		if err == nil {
			err = w.points.Hit(ctx, failpoint.LettersSettled)
		}
		if err == nil || broker.Permanent(err) || ctx.Err() != nil {
			return err
		}
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}

// commitTries bounds how often a batch is tried that was aborted for reasons that pass.
const commitTries = 5

// written is what one transaction writes: records, and the marks that say of their letters that they are redriven.
type written struct{ records, marks []*broker.Record }

// commit writes in one transaction; done says that it is known to be committed, with an error or without.
//
// committed looks in the log for whether it took place. It is asked after every try that failed, when nothing of it can be open any
// more. A try that failed is no proof that nobody else was there: it can have hung while another writer did all its work, and
// settling makes this one the valid one again. So committed also has to refuse records that are not to be written any more.
func (w *letterWriter) commit(
	ctx context.Context, all written, committed func(context.Context) (bool, error), crash func(string) error,
) (done bool, err error) {
	for try := 1; ; try++ {
		err := w.try(ctx, all, crash)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, errCrash), ctx.Err() != nil:
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

// The points at which a test of this package can end a commit. The points of package failpoint are at the same places, for tests that kill
// the process.
const (
	crashBegun    = "begun"
	crashRecords  = "records"
	crashFlushed  = "flushed"
	crashAnswered = "answered"
)

func (w *letterWriter) try(ctx context.Context, all written, crash func(string) error) error {
	ctx, cancel := context.WithTimeout(ctx, redriveTimeout)
	defer cancel()
	for _, one := range brokenMarks(w.points, all) {
		if err := w.transaction(ctx, one, crash); err != nil {
			return err
		}
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
	began, err := w.producer.Begin(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(w.points.Hit(ctx, failpoint.LettersBegun), hit(crashBegun)); err != nil {
		return err
	}
	w.produce(ctx, all.records)
	if crash != nil || w.points.Armed() { // a test can end it between the two; otherwise one flush is enough
		if _, err := w.producer.Flush(ctx, began); err != nil {
			return err
		}
		if err := errors.Join(w.points.Hit(ctx, failpoint.LettersRecords), hit(crashRecords)); err != nil {
			return err
		}
	}
	w.produce(ctx, all.marks)
	if _, err := w.producer.Flush(ctx, began); err != nil {
		return err
	}
	if err := errors.Join(w.points.Hit(ctx, failpoint.LettersMarks), hit(crashFlushed)); err != nil {
		return err
	}
	if _, err := w.producer.Commit(ctx); err != nil {
		return err
	}
	return errors.Join(w.points.Hit(ctx, failpoint.LettersEnded), hit(crashAnswered))
}

func (w *letterWriter) produce(ctx context.Context, records []*broker.Record) {
	for _, r := range records {
		own := *r // the client sets offset and context of what it is given, and the batch may be tried again
		w.producer.Produce(ctx, &own, nil)
	}
}

// isFenced reports whether another producer with the transactional id has been initialised.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}
