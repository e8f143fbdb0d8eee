package produce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// Config is what a Sender needs. All fields but Compressor are required.
type Config struct {
	// Client carries the requests. The owner of the Sender closes it.
	Client          *kgo.Client
	TransactionalID string
	// Compressor compresses batches; nil leaves them as they are.
	Compressor *batch.Compressor
	// Pause returns the pause after so many failures in a row.
	Pause func(failures int) time.Duration
	// Unsent counts the bytes that wait for a request to their leader.
	Unsent *atomic.Int64
}

// Error is a batch that was not written.
type Error struct {
	batch.Destination
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("producing to %s[%d]: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// requestBytesMax bounds the batches of one request. A single batch may be larger.
const requestBytesMax = 16 << 20

// Sender sends the batches of one producer, a transaction after the other.
type Sender struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu sync.Mutex
	// changed is closed and replaced when something happens that Flush or Drop wait for.
	changed chan struct{}
	closed  bool
	id      batch.Identity
	failed  error
	// attempted says that a request of the transaction may have reached a broker.
	attempted bool
	// pending counts the batches that are not acknowledged, inFlight the requests.
	pending, inFlight int
	ids               map[string][16]byte // of topics
	lanes             map[batch.Destination]*lane
	active            []*lane // those with a queue
	next              int     // where in active the next request begins
	busy              map[int32]bool
	looking           bool
	timer             *time.Timer
	last              error // that something was sent again for
}

// lane is a partition.
type lane struct {
	batch.Destination
	// leader is -1 while it has to be looked up.
	leader, leaderEpoch int32
	sequence            int32 // of the first record of the queue
	end                 int64 // offset behind the last acknowledged record, -1 if it is not known
	queue               []*batch.Batch
	// sending says that the first of the queue is in flight, begun that it was.
	sending, begun bool
	active         bool
	// failures counts those in a row, unknown the answers in a row that do not know the partition,
	// and missed the lookups in a row that have not found it.
	failures, unknown, missed int
	notBefore                 time.Time
}

// shipment is a batch in a request.
type shipment struct {
	lane     *lane
	batch    *batch.Batch
	id       [16]byte
	sequence int32
}

// New returns a Sender.
func New(cfg Config) *Sender {
	s := &Sender{
		cfg: cfg, changed: make(chan struct{}), ids: map[string][16]byte{}, lanes: map[batch.Destination]*lane{}, busy: map[int32]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// ErrClosed ends the waits of a Sender that is closed.
var ErrClosed = fmt.Errorf("the sender is closed: %w", kgo.ErrClientClosed)

// Close ends all requests. The brokers may carry them out. The client is closed before or after.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.fail(ErrClosed)
	if s.timer != nil {
		s.timer.Stop()
	}
	s.notify()
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// Begin drops the transaction before and takes the identity of the next one. It fails if a request
// of the one before is in flight.
func (s *Sender) Begin(id batch.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.inFlight > 0:
		return errors.New("requests of the transaction before are in flight")
	}
	s.id, s.failed, s.attempted, s.pending, s.last = id, nil, false, 0, nil
	s.cfg.Unsent.Store(0)
	for _, l := range s.lanes {
		*l = lane{Destination: l.Destination, leader: l.leader, leaderEpoch: l.leaderEpoch, end: -1, queue: l.queue[:0]}
	}
	clear(s.active)
	s.active = s.active[:0]
	return nil
}

// Send takes batches, to be sent in their order. They belong to the Sender until they are
// acknowledged. It does not block.
func (s *Sender) Send(batches []*batch.Batch) {
	if len(batches) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return // answered by Flush
	}
	for _, b := range batches {
		l := s.lane(batch.Destination{Topic: b.Topic, Partition: b.Partition})
		l.queue = append(l.queue, b)
		if !l.active {
			l.active = true
			s.active = append(s.active, l)
		}
		s.pending++
		s.cfg.Unsent.Add(int64(b.Size()))
	}
	s.dispatch()
}

func (s *Sender) lane(at batch.Destination) *lane {
	l := s.lanes[at]
	if l == nil {
		l = &lane{Destination: at, leader: -1, leaderEpoch: -1, end: -1}
		s.lanes[at] = l
	}
	return l
}

// Attempted reports whether a request of the transaction may have reached a broker.
func (s *Sender) Attempted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempted
}

// End returns the offset behind the last record of the transaction that a partition has
// acknowledged, and false if it is not known.
func (s *Sender) End(at batch.Destination) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[at]
	if l == nil || l.end < 0 {
		return 0, false
	}
	return l.end, true
}

// Flush waits until every batch is acknowledged, or one has failed.
func (s *Sender) Flush(ctx context.Context) error {
	return s.wait(ctx, func() (bool, error) { return s.pending == 0, s.failed })
}

// errDropped is the failure of a transaction that was dropped before it had another.
var errDropped = errors.New("the transaction was dropped")

// Drop sends nothing more of the transaction, and waits until no request is in flight.
func (s *Sender) Drop(ctx context.Context) error {
	s.mu.Lock()
	s.fail(errDropped)
	s.mu.Unlock()
	return s.wait(ctx, func() (bool, error) { return s.inFlight == 0, nil })
}

// wait waits until is says that it is over, or returns an error. It is called under the lock.
func (s *Sender) wait(ctx context.Context, is func() (bool, error)) error {
	for {
		s.mu.Lock()
		over, err := is()
		changed, last := s.changed, s.last
		s.mu.Unlock()
		if over || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("%w (last answer: %v)", ctx.Err(), last) //nolint:errorlint // nobody judges by the last answer
			}
			return ctx.Err()
		}
	}
}

func (s *Sender) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// fail ends the transaction and drops the batches. A request may read the memory of batches in
// flight, so nothing is released.
func (s *Sender) fail(err error) {
	if s.failed != nil {
		return
	}
	s.failed = err
	for _, l := range s.active {
		clear(l.queue)
		l.queue, l.active = l.queue[:0], false
	}
	clear(s.active)
	s.active = s.active[:0]
	s.pending = 0
	s.cfg.Unsent.Store(0)
	s.notify()
}

// dispatch begins every request that can begin.
func (s *Sender) dispatch() {
	if s.closed || s.failed != nil {
		return
	}
	s.compact()
	now, wake, lost := time.Now(), time.Time{}, false
	requests := map[int32][]shipment{}
	bytes := map[int32]int{}
	for i := range s.active {
		l := s.active[(s.next+i)%len(s.active)]
		switch {
		case l.sending:
			continue
		case now.Before(l.notBefore):
			if wake.IsZero() || l.notBefore.Before(wake) {
				wake = l.notBefore
			}
			lost = lost || l.leader < 0
			continue
		case l.leader < 0:
			lost = true
			continue
		case s.busy[l.leader]:
			continue
		}
		b := l.queue[0]
		if n := bytes[l.leader]; n > 0 && n+b.Size() > requestBytesMax {
			continue
		}
		bytes[l.leader] += b.Size()
		requests[l.leader] = append(requests[l.leader], shipment{l, b, s.ids[l.Topic], l.sequence})
	}
	s.next++
	for node, sent := range requests {
		for _, one := range sent {
			one.lane.sending = true
			if !one.lane.begun {
				one.lane.begun = true
				s.cfg.Unsent.Add(-int64(one.batch.Size()))
			}
		}
		s.busy[node], s.attempted = true, true
		s.inFlight++
		id := s.id
		s.work.Go(func() { s.request(node, id, sent) })
	}
	if lost && !s.looking {
		s.looking = true
		s.work.Go(s.look)
	}
	if !wake.IsZero() {
		s.wakeAt(wake.Sub(now))
	}
}

// compact takes the lanes without a queue out of active.
func (s *Sender) compact() {
	kept := s.active[:0]
	for _, l := range s.active {
		if len(l.queue) > 0 {
			kept = append(kept, l)
		} else {
			l.active = false
		}
	}
	clear(s.active[len(kept):])
	s.active = kept
}

func (s *Sender) wakeAt(after time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(after, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dispatch()
		})
		return
	}
	s.timer.Reset(after)
}

// request sends one request and takes its answer.
func (s *Sender) request(node int32, id batch.Identity, sent []shipment) {
	for _, one := range sent {
		one.batch.Seal(id, one.sequence, s.cfg.Compressor)
	}
	answer, err := s.cfg.Client.Broker(int(node)).Request(s.ctx, newRequest(s.cfg.TransactionalID, sent))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	s.busy[node] = false
	for _, one := range sent {
		one.lane.sending = false
	}
	if s.failed == nil {
		s.answered(sent, answer, err)
	}
	s.dispatch()
	s.notify()
}

// acknowledged ends the first batch of a queue. base is -1 if its offset is not known.
func (s *Sender) acknowledged(l *lane, b *batch.Batch, base int64) {
	b.SetBase(base)
	l.end = -1
	if base >= 0 {
		l.end = base + int64(b.Count())
	}
	l.sequence = advance(l.sequence, b.Count())
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.begun, l.failures, l.unknown, l.missed, l.notBefore = false, 0, 0, 0, time.Time{}
	b.Release()
	s.pending--
}

// advance returns the sequence number behind n records. It begins again at 0 behind the largest
// one.
func advance(sequence, n int32) int32 {
	if sequence > math.MaxInt32-n {
		return n - (math.MaxInt32 - sequence) - 1
	}
	return sequence + n
}
