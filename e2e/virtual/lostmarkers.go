package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// End is a transaction that its producer has asked to end.
type End struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	Commit          bool
}

// Loss says which markers of a transaction are written although others are lost. Those of offsets
// are lost.
type Loss func(topic string, partition int32) (written bool)

// LostMarkers are transactions that a coordinator has ended and whose markers it has lost: they
// hang.
//
// kfake ends a transaction in all its partitions at once. So to let a transaction hang, this type
// gives its transactional id another name in kfake, by changing the requests. kfake continues with
// the hanging transaction under the old name. The producer gets a new producer id with the answer
// to its EndTxn, as when its epochs run out.
//
// Coordinators and leaders answer as after a loss:
//   - The id is CompleteCommit or CompleteAbort, with the epoch after the transaction's, until it
//     is initialised or its producer writes again.
//   - No coordinator knows the producer id after that.
//   - The partitions hold the transaction open until they get a marker by WriteTxnMarkers. The
//     marker for the offsets has to come last, because it ends the rest too.
//
// kfake has no topics for offsets and for the states of transactional ids. __consumer_offsets and
// __transaction_state are created, and stay empty.
//
// While there is a LostMarkers, transactions of ids that are initialised do not time out.
type LostMarkers struct {
	c   *kfake.Cluster
	cl  *kgo.Client
	adm *kadm.Client

	lose func(End) Loss
	// shares says that what hangs in a partition ends with the next transaction there: see
	// ShareFate.
	shares atomic.Bool

	mu sync.Mutex // not held over requests
	// names are those of transactional ids in kfake, where they have another one.
	names map[string]string
	hung  map[int64]*hung // by producer id
	// groups are the groups whose offsets a producer has last added to a transaction.
	groups map[int64]string
	n      int
}

type topicPartition struct {
	topic     string
	partition int32
}

type hung struct {
	End
	name  string // in kfake
	at    time.Time
	group string // whose offsets hang, "" for none
	ended map[topicPartition]bool
	// open are the partitions of the transaction.
	open map[topicPartition]bool
	// shown says that the coordinator still names the producer id.
	shown bool
	// next is the producer id that its transactional id has got.
	next int64
}

// Kafka's own topics, with so many partitions here.
const (
	offsetsTopic       = "__consumer_offsets"
	transactionsTopic  = "__transaction_state"
	internalPartitions = 4
)

// inner is the topic by which a request of LostMarkers itself is known, which is not changed.
const inner = "virtual-inner"

// transactionTimeoutMax is the longest that kfake takes by default.
const transactionTimeoutMax = 15 * 60 * 1000

// LoseMarkers has the brokers lose markers. lose is called for each transaction that its producer
// ends; nil is none.
func (k *Kafka) LoseMarkers(t testing.TB, lose func(End) Loss) *LostMarkers {
	t.Helper()
	l, err := loseMarkers(k.controls, k.Client(t, "loser", kgo.Dialer(k.network.pipes.DialContext)), lose)
	if err != nil {
		t.Fatal(err)
	}
	k.lost = l
	return l
}

// LoseMarkers is [Kafka.LoseMarkers] for brokers that are not on a network, with a client of them.
func LoseMarkers(c *kfake.Cluster, cl *kgo.Client, lose func(End) Loss) (*LostMarkers, error) {
	return loseMarkers(newControls(c), cl, lose)
}

func loseMarkers(cs *controls, cl *kgo.Client, lose func(End) Loss) (*LostMarkers, error) {
	c := cs.c
	for _, topic := range []string{offsetsTopic, transactionsTopic} {
		if c.TopicInfo(topic) == nil {
			if err := c.CreateTopic(topic, internalPartitions, nil); err != nil {
				return nil, err
			}
		}
	}
	l := &LostMarkers{
		c: c, cl: cl, adm: kadm.NewClient(cl), lose: lose, names: map[string]string{}, hung: map[int64]*hung{}, groups: map[int64]string{},
	}
	for _, of := range []struct {
		key kmsg.Key
		do  control
	}{
		{kmsg.EndTxn, l.endTxn}, {kmsg.InitProducerID, l.rename}, {kmsg.Produce, l.rename}, {kmsg.TxnOffsetCommit, l.rename},
		{kmsg.AddPartitionsToTxn, l.rename}, {kmsg.AddOffsetsToTxn, l.rename}, {kmsg.DescribeTransactions, l.describeTransactions},
		{kmsg.ListTransactions, l.listTransactions}, {kmsg.DescribeProducers, l.describeProducers}, {kmsg.WriteTxnMarkers, l.writeMarkers},
	} {
		cs.add(of.key, of.do)
	}
	return l, nil
}

// name returns what kfake calls a transactional id.
func (l *LostMarkers) name(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name, renamed := l.names[id]; renamed {
		return name
	}
	return id
}

// rename lets a request go to the transactional id's name in kfake.
func (l *LostMarkers) rename(kreq kmsg.Request) (kmsg.Response, bool) {
	var id *string
	switch req := kreq.(type) {
	case *kmsg.InitProducerIDRequest:
		if id = req.TransactionalID; id != nil {
			req.TransactionTimeoutMillis = transactionTimeoutMax
		}
	case *kmsg.ProduceRequest:
		id = req.TransactionID
	case *kmsg.TxnOffsetCommitRequest:
		id = &req.TransactionalID
		l.mu.Lock()
		l.groups[req.ProducerID] = req.Group
		l.mu.Unlock()
	case *kmsg.AddPartitionsToTxnRequest:
		id = &req.TransactionalID
	case *kmsg.AddOffsetsToTxnRequest:
		id = &req.TransactionalID
	}
	if id == nil {
		return nil, false
	}
	l.mu.Lock()
	for _, h := range l.hung {
		if h.TransactionalID == *id {
			h.shown = false
		}
	}
	l.mu.Unlock()
	*id = l.name(*id)
	return nil, false
}

// endTxn lets a transaction hang, or go on to its end.
func (l *LostMarkers) endTxn(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.EndTxnRequest)
	end := End{req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit}
	l.mu.Lock()
	_, ended := l.hung[end.ProducerID]
	l.mu.Unlock()
	if ended { // by writeMarkers
		return nil, false
	}
	name := l.name(req.TransactionalID)
	req.TransactionalID = name
	if l.c.CurrentNode() != l.c.CoordinatorFor(name) || l.lose == nil {
		return nil, false
	}
	written := l.lose(end)
	if written == nil {
		if l.shares.Load() {
			l.c.SleepControl(func() { l.share(end, name) })
		}
		return nil, false
	}
	var next *kmsg.InitProducerIDResponse
	var err error
	l.c.SleepControl(func() { next, err = l.leave(end, name, written) })
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	switch {
	case errors.Is(err, kerr.InvalidTxnState): // nothing is open
		return nil, false
	case err != nil:
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
	default:
		resp.ProducerID, resp.ProducerEpoch = next.ProducerID, next.ProducerEpoch
	}
	return resp, true
}

// ShareFate has a transaction that hangs end in a partition as the next transaction of its
// transactional id does that has written there, as in Kafka, where both have one producer id. A
// marker that cannot be written is left out.
func (l *LostMarkers) ShareFate() { l.shares.Store(true) }

// share ends what hangs in the partitions of a transaction of the same id that is about to end.
func (l *LostMarkers) share(end End, name string) {
	ctx := context.Background()
	described, err := l.adm.DescribeTransactions(ctx, name)
	if err != nil || described[name].State != "Ongoing" {
		return
	}
	var markers []kmsg.WriteTxnMarkersRequestMarker
	l.mu.Lock()
	for _, h := range l.hung {
		if h.TransactionalID != end.TransactionalID {
			continue
		}
		marker := kmsg.NewWriteTxnMarkersRequestMarker()
		marker.ProducerID, marker.ProducerEpoch, marker.Committed = h.ProducerID, h.Epoch+1, end.Commit
		for topic, partitions := range described[name].Topics {
			rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			rt.Topic = topic
			for p := range partitions {
				if at := (topicPartition{topic, p}); h.open[at] && !h.ended[at] {
					rt.Partitions = append(rt.Partitions, p)
					h.ended[at] = true
				}
			}
			if len(rt.Partitions) > 0 {
				marker.Topics = append(marker.Topics, rt)
			}
		}
		if len(marker.Topics) > 0 {
			markers = append(markers, marker)
		}
	}
	l.mu.Unlock()
	for _, marker := range markers {
		_ = l.mark(ctx, marker)
	}
}

// leave has a transaction stay open under a name of its own, but for the markers that are written,
// and returns the id's next producer.
func (l *LostMarkers) leave(end End, name string, written Loss) (*kmsg.InitProducerIDResponse, error) {
	ctx := context.Background()
	described, err := l.adm.DescribeTransactions(ctx, name)
	if err != nil {
		return nil, err
	}
	tx := described[name]
	if tx.Err != nil || tx.State != "Ongoing" || tx.ProducerID != end.ProducerID || tx.ProducerEpoch != end.Epoch {
		return nil, kerr.InvalidTxnState
	}
	h := &hung{End: end, name: name, at: time.Now(), ended: map[topicPartition]bool{}, open: map[topicPartition]bool{}, shown: true}
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = end.ProducerID, end.Epoch+1, end.Commit
	for topic, partitions := range tx.Topics {
		rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		rt.Topic = topic
		for p := range partitions {
			h.open[topicPartition{topic, p}] = true
			if written(topic, p) {
				rt.Partitions = append(rt.Partitions, p)
				h.ended[topicPartition{topic, p}] = true
			}
		}
		if len(rt.Partitions) > 0 {
			marker.Topics = append(marker.Topics, rt)
		}
	}
	l.mu.Lock()
	l.n++
	next := fmt.Sprintf("%s#%d", end.TransactionalID, l.n)
	for i := 0; l.c.CoordinatorFor(next) != l.c.CoordinatorFor(end.TransactionalID); i++ {
		next = fmt.Sprintf("%s#%d-%d", end.TransactionalID, l.n, i)
	}
	h.group = l.groups[end.ProducerID]
	l.names[end.TransactionalID], l.hung[end.ProducerID] = next, h
	l.mu.Unlock()
	if len(marker.Topics) > 0 {
		if err := l.mark(ctx, marker); err != nil {
			return nil, err
		}
	}
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = &next, transactionTimeoutMax, -1, -1
	resp, err := init.RequestWith(ctx, l.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil {
		l.mu.Lock()
		h.next = resp.ProducerID
		l.mu.Unlock()
	}
	return resp, err
}

// mark writes markers, before any client knows that the transaction hangs.
func (l *LostMarkers) mark(ctx context.Context, marker kmsg.WriteTxnMarkersRequestMarker) error {
	byLeader := map[int32]*kmsg.WriteTxnMarkersRequest{}
	for _, t := range marker.Topics {
		for _, p := range t.Partitions {
			leader := l.c.LeaderFor(t.Topic, p)
			req := byLeader[leader]
			if req == nil {
				ours := kmsg.NewWriteTxnMarkersRequestMarker()
				ours.ProducerID = outside
				req = kmsg.NewPtrWriteTxnMarkersRequest()
				req.Markers = []kmsg.WriteTxnMarkersRequestMarker{marker, ours}
				req.Markers[0].Topics = nil
				byLeader[leader] = req
			}
			rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			rt.Topic, rt.Partitions = t.Topic, []int32{p}
			req.Markers[0].Topics = append(req.Markers[0].Topics, rt)
		}
	}
	for leader, req := range byLeader {
		resp, err := l.cl.Broker(int(leader)).Request(ctx, req)
		if err != nil {
			return err
		}
		for _, t := range resp.(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics {
			if err := kerr.ErrorForCode(t.Partitions[0].ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// follows reports whether a producer id is the next one of a transactional id, although the
// coordinator does not name it yet.
func (l *LostMarkers) follows(id string, producerID int64) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, h := l.shownAs(id)
	return h != nil && h.next == producerID
}

// shownAs returns the coordinator's answer for a transactional id whose last transaction hangs; the
// caller holds mu.
func (l *LostMarkers) shownAs(id string) (state string, h *hung) {
	for _, h := range l.hung {
		if h.TransactionalID == id && h.shown {
			if h.Commit {
				return "CompleteCommit", h
			}
			return "CompleteAbort", h
		}
	}
	return "", nil
}

func (l *LostMarkers) describeTransactions(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.DescribeTransactionsRequest)
	l.mu.Lock()
	names := map[string]string{}
	for _, id := range req.TransactionalIDs {
		if name, renamed := l.names[id]; renamed && l.c.CurrentNode() == l.c.CoordinatorFor(id) {
			names[id] = name
		}
	}
	l.mu.Unlock()
	if len(names) == 0 {
		return nil, false
	}
	ask := kmsg.NewPtrDescribeTransactionsRequest()
	for _, id := range req.TransactionalIDs {
		ask.TransactionalIDs = append(ask.TransactionalIDs, l.name(id))
	}
	resp := l.ask(ask).(*kmsg.DescribeTransactionsResponse)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range resp.TransactionStates {
		tx := &resp.TransactionStates[i]
		tx.TransactionalID = req.TransactionalIDs[i]
		if state, h := l.shownAs(tx.TransactionalID); h != nil {
			tx.State, tx.ProducerID, tx.ProducerEpoch, tx.StartTimestamp, tx.Topics = state, h.ProducerID, h.Epoch+1, -1, nil
		}
	}
	return resp, true
}

func (l *LostMarkers) listTransactions(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.ListTransactionsRequest)
	l.mu.Lock()
	none := len(l.hung) == 0
	l.mu.Unlock()
	if none || req.TransactionalIDPattern != nil {
		return nil, false
	}
	ask := kmsg.NewPtrListTransactionsRequest()
	ask.TransactionalIDPattern = kmsg.StringPtr(".*") // of LostMarkers itself
	resp := l.ask(ask).(*kmsg.ListTransactionsResponse)
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[string]string{}
	for id, name := range l.names {
		ids[name] = id
	}
	var listed []kmsg.ListTransactionsResponseTransactionState
	for _, tx := range resp.TransactionStates {
		if id, is := ids[tx.TransactionalID]; is {
			tx.TransactionalID = id
		} else if h := l.hung[tx.ProducerID]; h != nil && h.name == tx.TransactionalID {
			continue
		}
		if state, h := l.shownAs(tx.TransactionalID); h != nil {
			tx.ProducerID, tx.TransactionState = h.ProducerID, state
		}
		if (len(req.ProducerIDFilters) == 0 || slices.Contains(req.ProducerIDFilters, tx.ProducerID)) &&
			(len(req.StateFilters) == 0 || slices.Contains(req.StateFilters, tx.TransactionState)) {
			listed = append(listed, tx)
		}
	}
	resp.TransactionStates = listed
	return resp, true
}

func (l *LostMarkers) describeProducers(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.DescribeProducersRequest)
	l.mu.Lock()
	none := len(l.hung) == 0
	l.mu.Unlock()
	if none || slices.ContainsFunc(req.Topics, func(t kmsg.DescribeProducersRequestTopic) bool { return t.Topic == inner }) {
		return nil, false
	}
	ask := kmsg.NewPtrDescribeProducersRequest()
	mark := kmsg.NewDescribeProducersRequestTopic()
	mark.Topic, mark.Partitions = inner, []int32{0}
	ask.Topics = append(slices.Clone(req.Topics), mark)
	resp := l.ask(ask).(*kmsg.DescribeProducersResponse)
	l.mu.Lock()
	defer l.mu.Unlock()
	resp.Topics = slices.DeleteFunc(resp.Topics, func(t kmsg.DescribeProducersResponseTopic) bool { return t.Topic == inner })
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			at := topicPartition{t.Topic, p.Partition}
			p.ActiveProducers = slices.DeleteFunc(p.ActiveProducers, func(a kmsg.DescribeProducersResponseTopicPartitionActiveProducer) bool {
				h := l.hung[a.ProducerID]
				return h != nil && h.ended[at]
			})
			for _, h := range l.hung {
				if h.group == "" || h.ended[at] || t.Topic != offsetsTopic || p.ErrorCode != 0 || p.Partition != groupPartition(h.group) {
					continue
				}
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.CoordinatorEpoch, a.CurrentTxnStartOffset = h.ProducerID, int32(h.Epoch), -1, 0
				a.LastTimestamp = h.at.UnixMilli()
				p.ActiveProducers = append(p.ActiveProducers, a)
			}
		}
	}
	return resp, true
}

// groupPartition is the partition of a group's offsets, as Kafka has it.
func groupPartition(group string) int32 {
	hash := int32(0)
	for _, b := range []byte(group) { // tests name groups in ASCII
		hash = 31*hash + int32(b)
	}
	return max(hash, -hash) % internalPartitions
}

// outside is the producer of a marker by which a request of LostMarkers itself is known. It is for
// no partition.
const outside = -1

// writeMarkers takes note of the markers that end what hangs. That of the offsets ends the
// transaction in kfake.
func (l *LostMarkers) writeMarkers(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.WriteTxnMarkersRequest)
	ours := func(m kmsg.WriteTxnMarkersRequestMarker) bool { return m.ProducerID == outside }
	l.mu.Lock()
	none := len(l.hung) == 0
	l.mu.Unlock()
	if none || slices.ContainsFunc(req.Markers, ours) {
		return nil, false
	}
	ask := kmsg.NewPtrWriteTxnMarkersRequest()
	mark := kmsg.NewWriteTxnMarkersRequestMarker()
	mark.ProducerID = outside
	ask.Markers = append(slices.Clone(req.Markers), mark)
	resp := l.ask(ask).(*kmsg.WriteTxnMarkersResponse)
	if len(resp.Markers) == 0 {
		return resp, true
	}
	resp.Markers = resp.Markers[:len(req.Markers)]
	var over []End
	l.mu.Lock()
	for i, m := range resp.Markers {
		h := l.hung[m.ProducerID]
		if h == nil {
			continue
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					continue
				}
				h.ended[topicPartition{t.Topic, p.Partition}] = true
				if t.Topic == offsetsTopic && h.group != "" {
					h.group = ""
					over = append(over, End{h.name, h.ProducerID, h.Epoch, req.Markers[i].Committed})
				}
			}
		}
	}
	l.mu.Unlock()
	for _, e := range over {
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = e.TransactionalID, e.ProducerID, e.Epoch, e.Commit
		l.c.SleepControl(func() { _, _ = end.RequestWith(context.Background(), l.cl) }) // the offsets stay unstable where it fails, which shows
	}
	return resp, true
}

// ask sends a request to the broker that has it in hand.
func (l *LostMarkers) ask(req kmsg.Request) (resp kmsg.Response) {
	node := l.c.CurrentNode()
	l.c.SleepControl(func() {
		var err error
		if resp, err = l.cl.Broker(int(node)).Request(context.Background(), req); err != nil {
			resp = req.ResponseKind()
		}
	})
	return resp
}
