package virtual

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// markers are the ends of transactions that the coordinator has answered and not written yet. A
// real broker answers EndTxn once the decision is in its log, and writes the markers afterwards.
// Until then the transaction's records and offsets are not stable, and requests of the producer's
// next transaction get CONCURRENT_TRANSACTIONS. kfake does all of it at once.
type markers struct {
	k   *Kafka
	t   testing.TB
	cl  *kgo.Client
	adm *kadm.Client
	// delay says how long the markers of a commit are held back.
	delay func(transactionalID string) time.Duration
	work  sync.WaitGroup
	ended <-chan struct{}

	mu sync.Mutex // not held over requests and waits
	// byID and byProducer are the transactions whose markers are held back; completing are the ones
	// whose end is being sent, with their epochs.
	byID       map[string]bool
	byProducer map[int64]bool
	completing map[int64]int16
	// last is closed when the markers of the transaction that was held back last are written. kfake
	// lets the positions of the transaction that ends last win, where a real broker goes by the
	// order in its log; so transactions end in the order in which they were committed.
	last chan struct{}
}

// coordinator is the host of the requests that complete transactions.
const coordinator = "coordinator"

func newMarkers(t testing.TB, k *Kafka) *markers {
	// Work of a broker itself needs no network, and continues while no client reaches it.
	cl := k.Client(t, coordinator, kgo.Dialer(k.network.pipes.DialContext), kgo.RetryBackoffFn(func(int) time.Duration {
		return time.Millisecond
	}))
	m := &markers{
		k: k, cl: cl, adm: kadm.NewClient(cl), byID: map[string]bool{}, byProducer: map[int64]bool{}, completing: map[int64]int16{},
	}
	k.controls.add(kmsg.EndTxn, m.endTxn)
	k.controls.add(kmsg.InitProducerID, m.initProducerID)
	k.controls.add(kmsg.Produce, m.produce)
	k.controls.add(kmsg.TxnOffsetCommit, m.txnOffsetCommit)
	return m
}

// DelayMarkers holds back the markers of committed transactions for as long as delay says, from now
// until the test ends. Call it once. A delay of 0, and one that the transaction timeout would
// interrupt, is none.
func (k *Kafka) DelayMarkers(t testing.TB, delay func(transactionalID string) time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	m := k.markers
	m.mu.Lock()
	m.t, m.delay, m.ended = t, delay, ended
	m.mu.Unlock()
	t.Cleanup(func() { close(ended); m.work.Wait() })
}

// endTxn answers a commit and completes it later.
func (m *markers) endTxn(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	if m.k.CurrentNode() != m.k.CoordinatorFor(req.TransactionalID) {
		return nil, false // refused
	}
	m.mu.Lock()
	epoch, completing := m.completing[req.ProducerID]
	switch {
	case completing && req.Commit && req.ProducerEpoch == epoch:
		delete(m.completing, req.ProducerID)
		m.mu.Unlock()
		m.k.journal.end(req)
		return nil, false // our own
	case m.byID[req.TransactionalID]:
		m.mu.Unlock()
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, true
	}
	m.mu.Unlock()
	if m.k.journal.isOver(req.TransactionalID, req.ProducerID, req.ProducerEpoch) {
		return nil, false // refused, or answered as before
	}
	m.mu.Lock()
	var delay time.Duration
	if m.delay != nil && req.Commit {
		delay = m.delay(req.TransactionalID)
	}
	if delay <= 0 && (len(m.byID) == 0 || !req.Commit) {
		m.mu.Unlock()
		m.k.journal.end(req)
		return nil, false
	}
	before, done := m.last, make(chan struct{})
	m.byID[req.TransactionalID], m.byProducer[req.ProducerID], m.last = true, true, done
	m.mu.Unlock()
	var open bool
	var left time.Duration
	var err error
	m.k.SleepControl(func() { open, left, err = m.ongoing(req) })
	delay = min(delay, left/2)
	switch {
	case err != nil, open && before != nil && left < closeToTimeout:
		// The coordinator is not there yet, or the transaction would time out behind the ones
		// before it: the client asks again.
		m.release(done, before)
		m.forget(req)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, true // the answer tells the client
	case !open:
		m.release(done, before)
		m.forget(req)
		m.k.journal.end(req)
		return nil, false
	}
	m.k.network.trace.Logf(coordinator, "%s producer %d/%d: committed, markers follow in %s", req.TransactionalID,
		req.ProducerID, req.ProducerEpoch, delay)
	m.k.journal.answer(req)
	m.work.Go(func() {
		defer close(done)
		m.complete(req, delay, before)
	})
	resp.ProducerID, resp.ProducerEpoch = req.ProducerID, req.ProducerEpoch+1
	return resp, true
}

// closeToTimeout is the rest of a transaction's timeout with which it is not queued behind others.
const closeToTimeout = 2 * time.Second

// ongoing says whether the transaction that a commit names is open, and how much of its timeout is
// left.
func (m *markers) ongoing(req *kmsg.EndTxnRequest) (open bool, left time.Duration, err error) {
	all, err := m.adm.DescribeTransactions(context.Background(), req.TransactionalID)
	if err != nil {
		return false, 0, err
	}
	tx := all[req.TransactionalID]
	if errors.Is(tx.Err, kerr.NotCoordinator) {
		return false, 0, tx.Err
	}
	open = tx.Err == nil && tx.State == "Ongoing" && tx.ProducerID == req.ProducerID && tx.ProducerEpoch == req.ProducerEpoch &&
		req.ProducerEpoch < math.MaxInt16-1 // the next epoch would be that of another producer id
	timeout := time.UnixMilli(tx.StartTimestamp).Add(time.Duration(tx.TimeoutMillis) * time.Millisecond)
	return open, max(time.Until(timeout), 0), nil
}

// isOver reports whether the coordinator has another producer id or epoch for a transactional id.
// It reports false when the coordinator cannot be asked.
func (m *markers) isOver(transactionalID string, producerID int64, epoch int16) bool {
	if m.k.lost.follows(transactionalID, producerID) {
		return false
	}
	all, err := m.adm.DescribeTransactions(context.Background(), transactionalID)
	tx := all[transactionalID]
	return err == nil && tx.Err == nil && (tx.ProducerID != producerID || tx.ProducerEpoch > epoch)
}

// release lets the next transaction go on when the one before has ended: the one between them has
// nothing to wait for.
func (m *markers) release(done chan struct{}, before <-chan struct{}) {
	if before == nil {
		close(done)
		return
	}
	m.work.Go(func() {
		defer close(done)
		select {
		case <-before:
		case <-m.ended:
		}
	})
}

// complete really ends the transaction, once the one before it has ended. The coordinator must do
// so in spite of every fault of the connection.
func (m *markers) complete(req *kmsg.EndTxnRequest, delay time.Duration, before <-chan struct{}) {
	defer m.forget(req)
	select {
	case <-time.After(delay):
	case <-m.ended:
		return
	}
	if before != nil {
		select {
		case <-before:
		case <-m.ended:
			return
		}
	}
	again := kmsg.NewPtrEndTxnRequest()
	again.TransactionalID, again.ProducerID, again.ProducerEpoch, again.Commit = req.TransactionalID, req.ProducerID, req.ProducerEpoch, true
	for {
		m.mu.Lock()
		m.completing[req.ProducerID] = req.ProducerEpoch
		m.mu.Unlock()
		resp, err := again.RequestWith(context.Background(), m.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
			switch {
			case err == nil:
				m.k.network.trace.Logf(coordinator, "%s producer %d/%d: markers written", req.TransactionalID, req.ProducerID,
					req.ProducerEpoch)
				return
			case errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.ConcurrentTransactions): // it has moved, or the client's own request was faster
			default:
				m.t.Errorf("virtual: a transaction of %s was answered as committed, and its markers cannot be written: %v",
					req.TransactionalID, err)
				return
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-m.ended:
			return
		}
	}
}

func (m *markers) forget(req *kmsg.EndTxnRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, req.TransactionalID)
	delete(m.byProducer, req.ProducerID)
}

func (m *markers) pendingID(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id]
}

func (m *markers) pendingProducer(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byProducer[id]
}

func (m *markers) initProducerID(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.InitProducerIDRequest)
	if req.TransactionalID == nil || !m.pendingID(*req.TransactionalID) {
		return nil, false
	}
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = kerr.ConcurrentTransactions.Code, -1, -1
	return resp, true
}

func (m *markers) produce(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.ProduceRequest)
	if req.TransactionID == nil || !m.pendingID(*req.TransactionID) {
		return nil, false
	}
	return produceRefused(req, kerr.ConcurrentTransactions), true
}

func (m *markers) txnOffsetCommit(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.TxnOffsetCommitRequest)
	if !m.pendingProducer(req.ProducerID) {
		return nil, false
	}
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.ConcurrentTransactions.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, true
}
