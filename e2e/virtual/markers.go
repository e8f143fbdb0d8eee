package virtual

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// markers are the ends of transactions that the coordinator has answered and not written yet. A real broker answers EndTxn
// once the decision is in its log, and writes the markers afterwards; until then the transaction's records and offsets are
// not stable, and requests of the producer's next transaction get CONCURRENT_TRANSACTIONS. kfake does all of it at once.
type markers struct {
	k   *Kafka
	cl  *kgo.Client
	adm *kadm.Client
	// delay says how long the markers of a commit are held back.
	delay func(transactionalID string) time.Duration
	work  sync.WaitGroup
	ended <-chan struct{}

	mu sync.Mutex // not held over requests and waits
	// byID and byProducer are the transactions whose markers are held back; completing are the ones whose end is being sent.
	byID       map[string]bool
	byProducer map[int64]bool
	completing map[int64]bool
}

// coordinator is the host of the requests that complete transactions.
const coordinator = "coordinator"

func newMarkers(k *Kafka) *markers {
	m := &markers{k: k, byID: map[string]bool{}, byProducer: map[int64]bool{}, completing: map[int64]bool{}}
	k.ControlKey(int16(kmsg.EndTxn), m.endTxn)
	k.ControlKey(int16(kmsg.InitProducerID), m.initProducerID)
	k.ControlKey(int16(kmsg.Produce), m.produce)
	k.ControlKey(int16(kmsg.TxnOffsetCommit), m.txnOffsetCommit)
	return m
}

// DelayMarkers holds back the markers of committed transactions for as long as delay says, from now until the test ends. Call
// it once. A delay of 0, and one that the transaction timeout would interrupt, is none.
func (k *Kafka) DelayMarkers(t testing.TB, delay func(transactionalID string) time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	k.network.Host(coordinator).Steady()
	cl := k.Client(t, coordinator, kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	m := k.markers
	m.mu.Lock()
	m.delay, m.ended, m.cl, m.adm = delay, ended, cl, kadm.NewClient(cl)
	m.mu.Unlock()
	t.Cleanup(func() { close(ended); m.work.Wait() })
}

// endTxn answers a commit and completes it later.
func (m *markers) endTxn(kreq kmsg.Request) (kmsg.Response, error, bool) {
	m.k.KeepControl()
	req := kreq.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	m.mu.Lock()
	switch {
	case m.completing[req.ProducerID]:
		delete(m.completing, req.ProducerID)
		m.mu.Unlock()
		m.k.journal.end(req)
		return nil, nil, false // our own
	case m.byID[req.TransactionalID]:
		m.mu.Unlock()
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	}
	var delay time.Duration
	if m.delay != nil && req.Commit {
		delay = m.delay(req.TransactionalID)
	}
	if delay <= 0 {
		m.mu.Unlock()
		m.k.journal.end(req)
		return nil, nil, false
	}
	m.byID[req.TransactionalID], m.byProducer[req.ProducerID] = true, true
	m.mu.Unlock()
	held := false
	m.k.SleepControl(func() { held = m.ongoing(req, delay) })
	if !held {
		m.forget(req)
		m.k.journal.end(req)
		return nil, nil, false
	}
	m.k.network.trace.Logf(coordinator, "%s producer %d/%d: committed, markers follow in %s", req.TransactionalID,
		req.ProducerID, req.ProducerEpoch, delay)
	m.work.Go(func() { m.complete(req, delay) })
	resp.ProducerID, resp.ProducerEpoch = req.ProducerID, req.ProducerEpoch+1
	return resp, nil, true
}

// ongoing says whether the transaction that a commit names is open, and stays so until its markers are to be written.
func (m *markers) ongoing(req *kmsg.EndTxnRequest, delay time.Duration) bool {
	all, err := m.adm.DescribeTransactions(context.Background(), req.TransactionalID)
	if err != nil {
		return false
	}
	tx := all[req.TransactionalID]
	timeout := time.UnixMilli(tx.StartTimestamp).Add(time.Duration(tx.TimeoutMillis) * time.Millisecond)
	return tx.Err == nil && tx.State == "Ongoing" && tx.ProducerID == req.ProducerID && tx.ProducerEpoch == req.ProducerEpoch &&
		req.ProducerEpoch < 32_000 && time.Until(timeout) > delay+time.Second
}

// complete ends the transaction in earnest. Whatever happens to the connection, it is the coordinator's duty.
func (m *markers) complete(req *kmsg.EndTxnRequest, delay time.Duration) {
	defer m.forget(req)
	select {
	case <-time.After(delay):
	case <-m.ended:
		return
	}
	again := kmsg.NewPtrEndTxnRequest()
	again.TransactionalID, again.ProducerID, again.ProducerEpoch, again.Commit = req.TransactionalID, req.ProducerID, req.ProducerEpoch, true
	for {
		m.mu.Lock()
		m.completing[req.ProducerID] = true
		m.mu.Unlock()
		resp, err := m.cl.Request(context.Background(), again)
		if err == nil && resp.(*kmsg.EndTxnResponse).ErrorCode == 0 {
			m.k.network.trace.Logf(coordinator, "%s producer %d/%d: markers written", req.TransactionalID, req.ProducerID, req.ProducerEpoch)
			return
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

func (m *markers) initProducerID(kreq kmsg.Request) (kmsg.Response, error, bool) {
	m.k.KeepControl()
	req := kreq.(*kmsg.InitProducerIDRequest)
	if req.TransactionalID == nil || !m.pendingID(*req.TransactionalID) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = kerr.ConcurrentTransactions.Code, -1, -1
	return resp, nil, true
}

func (m *markers) produce(kreq kmsg.Request) (kmsg.Response, error, bool) {
	m.k.KeepControl()
	req := kreq.(*kmsg.ProduceRequest)
	if req.TransactionID == nil || !m.pendingID(*req.TransactionID) {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, kerr.ConcurrentTransactions.Code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, true
}

func (m *markers) txnOffsetCommit(kreq kmsg.Request) (kmsg.Response, error, bool) {
	m.k.KeepControl()
	req := kreq.(*kmsg.TxnOffsetCommitRequest)
	if !m.pendingProducer(req.ProducerID) {
		return nil, nil, false
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
	return resp, nil, true
}
