package operations_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/security"
)

// unverified has brokers take transactional records for a partition of which the coordinator was
// never told. That is how a transaction is made to hang: it is open in the partition, and the
// coordinator ends it without a marker there, as if the marker were lost.
const unverified = "transaction.partition.verification.enable"

// hangingScene is an application with transactions in its topics, of its own and of others, that
// hang.
type hangingScene struct {
	*cluster.Cluster
	t           *testing.T
	app         string
	in, out     string
	top         *topology.Topology
	old         *kgo.Client // speaks versions of requests that do not tell the coordinator
	coordinated map[string]*kgo.Client
}

const outPartitions = 3

func newHangingScene(t *testing.T, c *cluster.Cluster) *hangingScene {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 11)
	versions.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	s := &hangingScene{
		Cluster: c, t: t, app: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"), old: c.Client(t, kgo.MaxVersions(versions)),
		coordinated: map[string]*kgo.Client{},
	}
	c.CreateTopics(t, 1, s.in)
	c.CreateTopics(t, outPartitions, s.out)
	b := topology.NewBuilder("hanging")
	in := topology.From(b, topology.Topic(s.in, schemas.String(), schemas.String()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic(s.out, schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err == nil {
		top, err = top.WithApplication(s.app)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.top = top
	return s
}

// own is a transactional id of the application.
func (s *hangingScene) own(turn int) string { return fmt.Sprintf("%s~instance~0~%d", s.app, turn) }

func (s *hangingScene) client(id string) *kgo.Client {
	s.t.Helper()
	if cl := s.coordinated[id]; cl != nil {
		return cl
	}
	cl := s.Client(s.t, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(time.Minute))
	s.coordinated[id] = cl
	return cl
}

// ending is what becomes of a transaction.
type ending struct {
	commit bool
	// known are partitions of the output that the coordinator knows, lost those that it does not.
	// Each gets one record with the value. The changelog gets one too if it is lost.
	known, lost []int32
	changelog   bool
	// offset is committed for the input, and its marker lost; 0 is none.
	offset int64
}

// hang runs a transaction of the id and ends it. It returns its name.
func (s *hangingScene) hang(id, value string, e ending) string {
	s.t.Helper()
	ctx, cl := s.t.Context(), s.client(id)
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	producerID, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range e.known {
		r := &kgo.Record{Topic: s.out, Partition: p, Key: []byte("k"), Value: []byte(value)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range e.lost {
		s.produceUntold(id, s.out, p, producerID, epoch, value)
	}
	if e.changelog {
		s.produceUntold(id, s.app+"-counts-changelog", 0, producerID, epoch, value)
	}
	if e.offset > 0 {
		s.commitUntold(id, producerID, epoch, e.offset)
	}
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(e.commit)); err != nil {
		s.t.Fatal(err)
	}
	if err := s.WaitEnded(ctx, id); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%d/%d", producerID, epoch)
}

// produceUntold writes a record of a transaction that the coordinator does not learn of. It is the
// producer's first with that epoch in the partition.
func (s *hangingScene) produceUntold(id, topic string, partition int32, producerID int64, epoch int16, value string) {
	s.t.Helper()
	record := kmsg.Record{Key: []byte("k"), Value: []byte(value)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // without the length itself, which is one byte
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x10, FirstTimestamp: now, MaxTimestamp: now, ProducerID: producerID,
		ProducerEpoch: epoch, NumRecords: 1, Records: record.AppendTo(nil),
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, b.AppendTo(nil)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := s.request(req).(*kmsg.ProduceResponse)
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		s.t.Fatalf("producing to %s[%d] untold: %v", topic, partition, err)
	}
}

// commitUntold adds an offset to a transaction without telling the coordinator of the transaction.
func (s *hangingScene) commitUntold(id string, producerID int64, epoch int16, at int64) {
	s.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, s.app, producerID, epoch, -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = s.in
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch, rp.Metadata = at, -1, kmsg.StringPtr("")
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for {
		resp := s.request(req).(*kmsg.TxnOffsetCommitResponse)
		err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		switch {
		case err == nil:
			return
		case !kerr.IsRetriable(err) || s.t.Context().Err() != nil:
			s.t.Fatalf("committing an offset untold: %v", err)
		}
		find := kmsg.NewPtrFindCoordinatorRequest() // which creates the topic of the offsets
		find.CoordinatorKey, find.CoordinatorKeys = s.app, []string{s.app}
		if _, err := find.RequestWith(s.t.Context(), s.old); err != nil {
			s.t.Fatal(err)
		}
	}
}

// request sends to the one broker that there is.
func (s *hangingScene) request(req kmsg.Request) kmsg.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), instance.Patience)
	defer cancel()
	m, err := kadm.NewClient(s.old).BrokerMetadata(ctx) // without it the client knows no broker by its id
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.old.Broker(int(m.Controller)).Request(ctx, req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// operator returns the application as an operator has it.
func (s *hangingScene) operator(brokers []string, sec security.Config) *admin.Application {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), instance.Patience)
	defer cancel()
	c, err := admin.ConnectWith(ctx, admin.Config{Brokers: brokers, Security: sec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c.Application(s.top)
}

// visible returns the sorted values that readers of committed records can see in a topic now.
func (s *hangingScene) visible(topic string) []string {
	s.t.Helper()
	records, err := s.ReadStable(s.t.Context(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	var values []string
	for _, r := range slices.Concat(records...) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

// stable returns the committed offset of the input, and whether it is stable.
func (s *hangingScene) stable() (int64, bool) {
	s.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = s.app
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = s.in, []int32{0}
	group.Topics = append(group.Topics, topic)
	req.Groups = append(req.Groups, group)
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 8) // names topics
	resp, err := req.RequestWith(s.t.Context(), s.Client(s.t, kgo.MaxVersions(versions)))
	if err != nil {
		s.t.Fatal(err)
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	err = kerr.ErrorForCode(p.ErrorCode)
	if err != nil && !errors.Is(err, kerr.UnstableOffsetCommit) {
		s.t.Fatal(err)
	}
	return p.Offset, err == nil
}
