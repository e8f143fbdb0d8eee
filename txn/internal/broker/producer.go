package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/produce"
)

// Identity is what the broker knows a transaction by. With transaction.version 2 no two
// transactions share one.
type Identity = batch.Identity

// Producer is one transactional producer. Settle replaces its client and its sender whenever the
// state of the producer is uncertain. It belongs to one goroutine; only Unsent may be called from
// others.
type Producer struct {
	cfg     Config
	id      string
	timeout time.Duration
	cl      *kgo.Client
	sender  *produce.Sender
	// identity is that of the next transaction, or of the one that is open; usable is false from an
	// end without an answer on.
	identity Identity
	usable   bool
	touched  touched
	// committing says that a commit was sent of the transaction that was begun last.
	committing bool

	// own are the records of Add. refused is the first one that could not be added.
	own     *batch.Set
	refused *ProduceError
	taken   []*batch.Batch
	// held are the batches of Hold that were not sent yet.
	held []*batch.Batch
	// flushed says that every batch of the transaction is acknowledged.
	flushed bool
	unsent  atomic.Int64
}

// NewProducer describes a producer with that transactional id; Settle makes it usable. The
// transaction timeout is what the broker waits for before it aborts a transaction by itself.
func NewProducer(cfg Config, transactionalID string, transactionTimeout time.Duration) *Producer {
	p := &Producer{cfg: cfg, id: transactionalID, timeout: transactionTimeout}
	p.own = p.NewSet()
	return p
}

// TransactionalID returns the id that the producer was made with.
func (p *Producer) TransactionalID() string { return p.id }

// NewSet returns an empty set of batches for this producer.
func (p *Producer) NewSet() *batch.Set {
	return batch.NewSet(func(topic string) int { return int(p.cfg.batchMaxBytes(topic)) })
}

// Settle throws the client away, makes a new one with the same transactional id and initialises it.
// Once it returns nil, the previous transaction of that id is committed or aborted for good, and
// requests of it that arrive late are refused. It tries once; the caller repeats.
func (p *Producer) Settle(ctx context.Context) error {
	p.Close()
	compressor, err := batch.NewCompressor(p.cfg.Compression)
	if err != nil {
		return fmt.Errorf("transactional producer %q: %w", p.id, err)
	}
	cl, err := kgo.NewClient(append(p.cfg.options(), kgo.MinVersions(producerVersions()))...)
	if err != nil {
		return fmt.Errorf("transactional producer %q: %w", p.id, err)
	}
	identity, err := p.initialise(ctx, cl)
	if err != nil {
		cl.Close()
		return fmt.Errorf("initialising transactional id %q: %w", p.id, p.cfg.denied(err, attempt{transactionalID: p.id}))
	}
	p.cl, p.identity, p.usable = cl, identity, true
	p.sender = produce.New(produce.Config{Client: cl, TransactionalID: p.id, Compressor: compressor, Pause: retryPause, Unsent: &p.unsent})
	return nil
}

const (
	keyEndTxn = 26
	// endTxnVersion is the first version of EndTxn that begins a new epoch.
	endTxnVersion = 5
)

// producerVersions are the least with which transaction.version 2 works: the brokers add partitions
// to the transaction, and its end is the end of its epoch.
func producerVersions() *kversion.Versions {
	v := new(kversion.Versions)
	v.SetMaxKeyVersion(int16(kmsg.Produce), produce.VersionMin)
	v.SetMaxKeyVersion(keyEndTxn, endTxnVersion)
	return v
}

// initialise ends the transaction before and returns the identity of the next one.
func (p *Producer) initialise(ctx context.Context, cl *kgo.Client) (identity Identity, err error) {
	err = untilMarked(ctx, func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &p.id, int32(p.timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		identity = Identity{ProducerID: resp.ProducerID, Epoch: resp.ProducerEpoch}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return identity, err
}

// untilMarked repeats a request to the coordinator while that writes the markers of a transaction.
// The client repeats what is about the coordinator itself.
func untilMarked(ctx context.Context, request func() error) error {
	pause := backoff.Backoff{Next: endRetryFirst, Max: endRetryMax}
	for {
		err := request()
		if !errors.Is(err, kerr.ConcurrentTransactions) || pause.Wait(ctx) != nil {
			return err
		}
	}
}

// batchMost leaves room for the rest of a request in what brokers take by default
// (socket.request.max.bytes).
const batchMost = 100<<20 - 4096

func (c Config) batchMaxBytes(topic string) int32 {
	if c.BatchMaxBytes != nil {
		if n := c.BatchMaxBytes(topic); n >= 512 {
			return min(n, batchMost)
		}
	}
	return 1_000_012 // the client's own default
}

// Begin starts a transaction (the broker learns of it with the first record) and returns its
// identity.
func (p *Producer) Begin() (Identity, error) {
	p.refused, p.held = nil, nil
	p.touched.reset()
	p.committing = false
	if p.flushed {
		p.own.Reset()
	} else {
		p.own = p.NewSet() // batches of the old one may be read still
	}
	p.flushed = false
	if p.cl == nil {
		return Identity{}, fmt.Errorf("transactional producer %q is not initialised", p.id)
	}
	brokenAwait(p)
	if !p.usable {
		return Identity{}, fmt.Errorf("the last transaction of %q has not ended", p.id)
	}
	if err := p.sender.Begin(p.identity); err != nil {
		return Identity{}, fmt.Errorf("beginning a transaction of %q: %w", p.id, err)
	}
	return p.identity, nil
}

// Identity returns what the broker knows the producer by now. The producer is settled.
func (p *Producer) Identity() (Identity, error) {
	if p.cl == nil {
		return Identity{}, fmt.Errorf("transactional producer %q is not initialised", p.id)
	}
	return p.identity, nil
}

// Send hands batches over, which a set of NewSet has made. The set may be reset once Flush has
// accepted them. Failures are returned by Flush.
func (p *Producer) Send(batches []*batch.Batch) {
	p.flushed = false
	for _, b := range batches {
		p.touched.add(b.Topic, b.Partition)
	}
	p.sender.Send(batches)
}

// Hold is Send with the records that are added next, at the latest with Flush: the brokers get one
// request for both.
func (p *Producer) Hold(batches []*batch.Batch) {
	p.flushed = false
	p.held = append(p.held, batches...)
}

// ahead is how much Add keeps before it is sent.
const ahead = 256 << 10

// Add adds a record, which the next Flush sends at the latest. Failures are returned by Flush. The
// place tells the record's offset once it is flushed, until the next transaction begins.
func (p *Producer) Add(topic string, partition int32, timestamp int64, key, value []byte, headers []RecordHeader) batch.Place {
	p.flushed = false
	at, err := batch.Add(p.own, topic, partition, timestamp, key, value, headers)
	if err != nil {
		p.refuse(Unfit(topic, partition, err))
		return at
	}
	if p.own.Ready() >= ahead {
		p.sendOwn(false)
	}
	return at
}

// Unfit is the error for a record that a set has not taken.
func Unfit(topic string, partition int32, err error) *ProduceError {
	if errors.Is(err, batch.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", kerr.MessageTooLarge, err)
	}
	return &ProduceError{topic, partition, err}
}

func (p *Producer) refuse(err *ProduceError) {
	if p.refused == nil {
		p.refused = err
	}
}

func (p *Producer) sendOwn(all bool) {
	p.taken = p.own.Take(all, append(p.taken[:0], p.held...))
	p.held = nil
	p.Send(p.taken)
	clear(p.taken)
}

// End returns the offset behind the last record of the transaction in a partition; false if it is
// not known. The transaction is flushed.
func (p *Producer) End(topic string, partition int32) (int64, bool) {
	return p.sender.End(batch.Destination{Topic: topic, Partition: partition})
}

// Unsent returns how many bytes wait for a request to their leader. It may be called from any
// goroutine.
func (p *Producer) Unsent() int64 { return p.unsent.Load() }

// Flush waits until every record is acknowledged, under the identity that began.
func (p *Producer) Flush(ctx context.Context, began Identity) (Outcome, error) {
	if p.refused != nil {
		return Decide(Producing, p.refused), p.refused
	}
	p.sendOwn(true)
	if err := p.sender.Flush(ctx); err != nil {
		if failed, ok := errors.AsType[*produce.Error](err); ok {
			p.refuse(&ProduceError{
				failed.Topic, failed.Partition,
				p.cfg.denied(failed.Err, attempt{operation: Write, topic: failed.Topic, transactionalID: p.id}),
			})
			return Decide(Producing, p.refused), p.refused
		}
		return Lost, fmt.Errorf("flushing %q: %w", p.id, err)
	}
	if p.identity != began {
		return Lost, fmt.Errorf("producer %q has the identity %d/%d, and the transaction began as %d/%d",
			p.id, p.identity.ProducerID, p.identity.Epoch, began.ProducerID, began.Epoch)
	}
	p.flushed = true
	return Accepted, nil
}

// Commit sends the commit, of a transaction that was flushed. Anything but success is InDoubt.
func (p *Producer) Commit(ctx context.Context) (Outcome, error) {
	if brokenCommit(p) {
		return Accepted, nil
	}
	p.committing = true
	if err := p.end(ctx, true); err != nil {
		return Decide(Ending, err), fmt.Errorf("committing a transaction of %q: %w", p.id, err)
	}
	return Accepted, nil
}

// Committing reports whether a commit was sent of the transaction that was begun last.
func (p *Producer) Committing() bool { return p.committing }

// Abort drops what was not sent and aborts. It may be called for a transaction that has sent
// nothing. Anything but success is Lost.
func (p *Producer) Abort(ctx context.Context) (Outcome, error) {
	if p.cl == nil {
		return Lost, fmt.Errorf("transactional producer %q is not initialised", p.id)
	}
	if err := p.sender.Drop(ctx); err != nil {
		return Lost, fmt.Errorf("waiting for the requests of %q: %w", p.id, err)
	}
	if !p.sender.Attempted() {
		return Accepted, nil // no broker knows the transaction, and the next one goes on with its identity
	}
	if err := p.end(ctx, false); err != nil {
		return Lost, fmt.Errorf("aborting a transaction of %q: %w", p.id, err)
	}
	return Accepted, nil
}

// end ends the transaction and takes the identity of the next one. Without an answer the producer
// is not usable.
func (p *Producer) end(ctx context.Context, commit bool) error {
	p.usable = false
	next, err := endTransaction(ctx, p.cl, p.id, p.identity, commit)
	if err != nil {
		return err
	}
	p.took(next)
	return nil
}

// took takes the identity that the end of a transaction was answered with. A broker that names none
// has ended the transaction all the same, and Settle gets the next identity.
func (p *Producer) took(next Identity) {
	p.usable = next.ProducerID >= 0 && next != p.identity
	if p.usable {
		p.identity = next
	}
}

// endTransaction ends a transaction and returns the identity of the next one.
func endTransaction(ctx context.Context, cl *kgo.Client, id string, began Identity, commit bool) (next Identity, err error) {
	err = untilMarked(ctx, func() error {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, began.ProducerID, began.Epoch, commit
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		next = Identity{ProducerID: resp.ProducerID, Epoch: resp.ProducerEpoch}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return next, err
}

// Close ends the client without waiting for the broker. An open transaction stays open until it is
// settled or times out.
func (p *Producer) Close() {
	if p.cl == nil {
		return
	}
	brokenAwait(p)
	p.cl.Close()
	p.sender.Close()
	p.cl, p.usable, p.flushed = nil, false, false
}
