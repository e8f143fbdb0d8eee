package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// Identity is what the broker knows a transaction by. With transaction.version 2 no two
// transactions share one.
type Identity struct {
	ProducerID int64
	Epoch      int16
}

// Producer is one transactional producer: a client, thrown away and made anew whenever its state is
// uncertain. It belongs to one goroutine.
type Producer struct {
	cfg     Config
	id      string
	timeout time.Duration
	cl      *kgo.Client
	touched touched
	// committing says that a commit was sent of the transaction that was begun last.
	committing bool

	mu struct {
		sync.Mutex
		err error // first failed record of the transaction
	}
}

// NewProducer describes a producer with that transactional id; Settle makes it usable. The
// transaction timeout is what the broker waits for before it aborts a transaction by itself.
func NewProducer(cfg Config, transactionalID string, transactionTimeout time.Duration) *Producer {
	return &Producer{cfg: cfg, id: transactionalID, timeout: transactionTimeout}
}

// TransactionalID returns the id that the producer was made with.
func (p *Producer) TransactionalID() string { return p.id }

// maxBufferedRecords lets a whole round be handed over without waiting for the network: Produce is
// cheap only while it does not block.
const maxBufferedRecords = 1 << 20

// Settle throws the client away, makes a new one with the same transactional id and initialises it.
// Once it returns nil, the previous transaction of that id is committed or aborted for good, and
// requests of it that arrive late are refused. It tries once; the caller repeats.
func (p *Producer) Settle(ctx context.Context) error {
	p.Close()
	cl, err := kgo.NewClient(append(p.cfg.options(),
		kgo.TransactionalID(p.id),
		kgo.TransactionTimeout(p.timeout),
		kgo.ProducerLinger(0), // a round is flushed as a whole; waiting could only add latency
		kgo.ProducerBatchCompression(p.cfg.Compression),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), // the graph has chosen the partition
		kgo.ProducerBatchMaxBytesFn(p.cfg.batchMaxBytes),
		kgo.StopProducerOnDataLossDetected(),
	)...)
	if err != nil {
		return fmt.Errorf("transactional producer %q: %w", p.id, err)
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return fmt.Errorf("initialising transactional id %q: %w", p.id, p.cfg.denied(err, attempt{transactionalID: p.id}))
	}
	p.cl = cl
	return nil
}

func (c Config) batchMaxBytes(topic string) int32 {
	if c.BatchMaxBytes != nil {
		if n := c.BatchMaxBytes(topic); n >= 512 {
			return min(n, 1<<30)
		}
	}
	return 1_000_012 // the client's own default
}

// Begin starts a transaction in the client (the broker learns of it with the first record) and
// returns its identity.
func (p *Producer) Begin(ctx context.Context) (Identity, error) {
	p.mu.Lock()
	p.mu.err = nil
	p.mu.Unlock()
	p.touched.reset()
	p.committing = false
	if p.cl == nil {
		return Identity{}, fmt.Errorf("transactional producer %q is not initialised", p.id)
	}
	brokenAwait(p)
	if err := p.cl.BeginTransaction(); err != nil {
		return Identity{}, fmt.Errorf("beginning a transaction of %q: %w", p.id, err)
	}
	return p.Identity(ctx)
}

// Identity returns what the broker knows the producer by now. The producer is settled.
func (p *Producer) Identity(ctx context.Context) (Identity, error) {
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return Identity{}, fmt.Errorf("producer id of %q: %w", p.id, err)
	}
	return Identity{id, epoch}, nil
}

// Produce hands a record over. promise is what Promise returned, or nil. Failures are remembered
// and returned by Flush.
func (p *Producer) Produce(ctx context.Context, r *Record, promise func(*Record, error)) {
	if promise == nil {
		promise = p.note
	}
	p.touched.add(r.Topic, r.Partition)
	p.cl.Produce(ctx, r, promise)
}

// Promise wraps a function that wants to see acknowledged records (their offset is set). It is
// called from the client's goroutine, in the order of each partition, and must be quick. One
// promise serves any number of records: wrapping each would cost an allocation per record.
func (p *Producer) Promise(acked func(*Record)) func(*Record, error) {
	return func(r *Record, err error) {
		if err != nil {
			p.note(r, err)
			return
		}
		acked(r)
	}
}

func (p *Producer) note(r *Record, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil {
		p.mu.err = &ProduceError{
			r.Topic, r.Partition, p.cfg.denied(err, attempt{operation: Write, topic: r.Topic, transactionalID: p.id}),
		}
	}
}

// Flush waits until every record is acknowledged, and checks that the producer is still the one
// that began: the client can initialise itself anew in the middle of a transaction and would then
// commit the second half of it only. After it Commit commits what was produced (awaitPartitions).
func (p *Producer) Flush(ctx context.Context, began Identity) (Outcome, error) {
	if err := p.cl.Flush(ctx); err != nil {
		return Lost, fmt.Errorf("flushing %q: %w", p.id, err)
	}
	p.mu.Lock()
	err := p.mu.err
	p.mu.Unlock()
	if err != nil {
		return Decide(Producing, err), err
	}
	now, err := p.Identity(ctx)
	if err != nil {
		return Lost, err
	}
	if now != began {
		return Lost, fmt.Errorf("producer %q changed its identity inside a transaction, from %d/%d to %d/%d",
			p.id, began.ProducerID, began.Epoch, now.ProducerID, now.Epoch)
	}
	if err := p.awaitPartitions(ctx); err != nil {
		return Lost, err
	}
	return Accepted, nil
}

// awaitPartitions waits until the client holds every partition that the transaction has produced
// to. When it loads a topic that records are waiting for, it sends them on and stores the
// partitions after that, in a goroutine that may stand still in between: then they are acknowledged
// before the partitions are stored. But it ends a transaction by what it finds among the partitions
// it holds. If nothing was added to them it aborts, though a commit was asked for, and returns no
// error.
func (p *Producer) awaitPartitions(ctx context.Context) error {
	pause := backoff.Backoff{Next: time.Millisecond, Max: 50 * time.Millisecond}
	for tp := range p.touched.all {
		for {
			// It is the only answer that tells: of a partition that is held, the leader is kept
			// while there is none.
			if leader, _, _ := p.cl.PartitionLeader(tp.topic, tp.partition); leader >= 0 {
				break
			}
			if err := pause.Wait(ctx); err != nil {
				return fmt.Errorf("flushing %q: the client does not hold %s[%d], to which it has produced: %w", p.id, tp.topic, tp.partition, err)
			}
		}
	}
	return nil
}

// Commit sends the commit, of a transaction that was flushed. Anything but success is InDoubt.
func (p *Producer) Commit(ctx context.Context) (Outcome, error) {
	if brokenCommit(p) {
		return Accepted, nil
	}
	p.committing = true
	if err := p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return Decide(Ending, err), fmt.Errorf("committing a transaction of %q: %w", p.id, err)
	}
	return Accepted, nil
}

// Committing reports whether a commit was sent of the transaction that was begun last.
func (p *Producer) Committing() bool { return p.committing }

// Abort drops what is still buffered and aborts. It may be called for a transaction that has sent
// nothing. Anything but success is Lost.
func (p *Producer) Abort(ctx context.Context) (Outcome, error) {
	if p.cl == nil {
		return Lost, fmt.Errorf("transactional producer %q is not initialised", p.id)
	}
	if err := p.cl.AbortBufferedRecords(ctx); err != nil {
		return Lost, fmt.Errorf("dropping the buffered records of %q: %w", p.id, err)
	}
	if err := p.cl.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return Lost, fmt.Errorf("aborting a transaction of %q: %w", p.id, err)
	}
	return Accepted, nil
}

// Close ends the client without waiting for the broker. An open transaction stays open until it is
// settled or times out.
func (p *Producer) Close() {
	if p.cl == nil {
		return
	}
	brokenAwait(p)
	p.cl.UnsafeAbortBufferedRecords() // may use sequence numbers twice, which is harmless where the client ends
	p.cl.Close()
	p.cl = nil
}
