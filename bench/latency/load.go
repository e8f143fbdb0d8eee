package latency

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Load is a producer and a reader at work.
type Load struct {
	Schedule Schedule
	Producer *Producer
	Reader   *Reader

	cancelProducer, cancelReader context.CancelFunc
	producer, reader             chan error
	// Each channel has one value, which the Once keeps.
	sent, stopped    sync.Once
	sentErr, readErr error
}

// StartLoad begins to send and to read. The load goes on until Stop, or until the producer or the
// reader fails, which Await tells.
func StartLoad(ctx context.Context, brokers []string, topics Topics, rate int) (*Load, error) {
	return StartLoadAt(ctx, brokers, topics, Schedule{Start: time.Now(), Rate: rate})
}

// StartLoadAt is [StartLoad] with a schedule. If it began in the past, all events that were due
// since are sent at once: they become state.
func StartLoadAt(ctx context.Context, brokers []string, topics Topics, s Schedule) (*Load, error) {
	l := &Load{Schedule: s, producer: make(chan error, 1), reader: make(chan error, 1)}
	var err error
	if l.Producer, err = NewProducer(brokers, topics, l.Schedule); err != nil {
		return nil, err
	}
	if l.Reader, err = NewReader(brokers, topics, l.Schedule); err != nil {
		l.Producer.Close()
		return nil, err
	}
	var sending, reading context.Context
	sending, l.cancelProducer = context.WithCancel(ctx)
	reading, l.cancelReader = context.WithCancel(ctx)
	go func() { l.producer <- l.Producer.Run(sending, 1<<62) }()
	go func() { l.reader <- l.Reader.Run(reading) }()
	return l, nil
}

// Await waits until n events are due, and for all of them to come.
func (l *Load) Await(ctx context.Context, n uint64) error {
	ctx, cancel := context.WithDeadline(ctx, l.Schedule.Due(n).Add(drainTimeout))
	defer cancel()
	return l.Reader.AwaitAll(ctx, n)
}

// StopSending ends the producer. It returns when all that was sent is acknowledged.
func (l *Load) StopSending() error {
	l.sent.Do(func() {
		l.cancelProducer()
		l.sentErr = <-l.producer
	})
	return l.sentErr
}

// Stop ends the producer, and then the reader. What the reader has noted stays.
func (l *Load) Stop() error {
	err := l.StopSending()
	l.stopped.Do(func() {
		l.cancelReader()
		l.readErr = <-l.reader
	})
	return errors.Join(err, l.readErr)
}

// Close is Stop and the end of both clients.
func (l *Load) Close() error {
	err := l.Stop()
	l.Producer.Close()
	l.Reader.Close()
	return err
}

func (l *Load) producerSummary() (Summary, time.Duration) {
	slices.Sort(l.Producer.acknowledged)
	return Summarize(l.Producer.acknowledged), l.Producer.lateMax
}
