package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetsTopic is Kafka's own topic of the committed offsets of all groups.
const OffsetsTopic = "__consumer_offsets"

// OpenTransaction is a transaction that the leader of a partition holds open.
type OpenTransaction struct {
	Topic      string
	Partition  int32
	ProducerID int64
	// Epoch is that of the producer's last batch in the partition. Records of an older epoch belong
	// to the transaction too if no marker has ended that one: the partition knows one open
	// transaction of a producer.
	Epoch int16
	// CoordinatorEpoch is that of the last marker of the producer in the partition, -1 if there was
	// none.
	CoordinatorEpoch int32
	// FirstOffset is that of the first record of the transaction.
	FirstOffset int64
	// LastRecord is the timestamp of the producer's last record in the partition. It is the clock
	// of the producer or of the broker, as the topic has it.
	LastRecord time.Time
}

// Same reports whether two looks at a partition have seen the same transaction.
func (t OpenTransaction) Same(other OpenTransaction) bool {
	return t.Topic == other.Topic && t.Partition == other.Partition && t.ProducerID == other.ProducerID && t.Epoch == other.Epoch &&
		t.FirstOffset == other.FirstOffset
}

// OpenTransactions asks the leaders of partitions which transactions they hold open, sorted by
// topic, partition and producer id. It takes the permission to read the topics. The error joins
// what failed, by topic; a PermissionError in it names the topic. What the other partitions hold is
// returned with the error.
func (c *Cluster) OpenTransactions(ctx context.Context, partitions map[string][]int32) ([]OpenTransaction, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	asked := map[topicPartition]bool{}
	for topic, ps := range partitions {
		if len(ps) == 0 {
			continue
		}
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, ps
		req.Topics = append(req.Topics, t)
		for _, p := range ps {
			asked[topicPartition{topic, p}] = true
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	var open []OpenTransaction
	failed := map[string]error{}
	for _, shard := range c.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.DescribeProducersRequest).Topics {
				failed[t.Topic] = shard.Err
				for _, p := range t.Partitions {
					delete(asked, topicPartition{t.Topic, p})
				}
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				delete(asked, topicPartition{t.Topic, p.Partition})
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failed[t.Topic] = c.cfg.denied(err, attempt{operation: Read, topic: t.Topic})
					continue
				}
				for _, a := range p.ActiveProducers {
					if a.CurrentTxnStartOffset < 0 {
						continue
					}
					open = append(open, OpenTransaction{
						Topic: t.Topic, Partition: p.Partition, ProducerID: a.ProducerID, Epoch: int16(a.ProducerEpoch),
						CoordinatorEpoch: a.CoordinatorEpoch, FirstOffset: a.CurrentTxnStartOffset, LastRecord: time.UnixMilli(a.LastTimestamp),
					})
				}
			}
		}
	}
	for at := range asked {
		failed[at.topic] = errors.New("a partition was asked for and not answered")
	}
	slices.SortFunc(open, compareOpen)
	var errs []error
	for topic, err := range failed {
		errs = append(errs, fmt.Errorf("describing the producers of %s: %w", topic, err))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return open, errors.Join(errs...)
}

func compareOpen(a, b OpenTransaction) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.ProducerID, b.ProducerID))
}

// Named is what a coordinator knows of a producer id.
type Named struct {
	TransactionalID string
	Transaction
}

// NamedProducers asks all coordinators for the transactional ids that have these producer ids now,
// whatever their state. A producer id is missing where no coordinator knows it, because its
// transactional id has got another one or has expired, and where this process lacks the permission
// to describe the transactional id: brokers do not tell the two apart. It is also missing while its
// coordinator is away, see CoordinatorsLed. A broker that does not answer, or is loading
// transactions, is an error; what the others know is returned with it.
func (c *Cluster) NamedProducers(ctx context.Context, producerIDs ...int64) (map[int64]Named, error) {
	if len(producerIDs) == 0 {
		return nil, nil // none would stand for all
	}
	listed, failed := c.adm.ListTransactions(ctx, producerIDs, nil)
	if failed != nil {
		failed = fmt.Errorf("listing transactions: %w", failed)
	}
	var ids []string
	for id, t := range listed {
		if slices.Contains(producerIDs, t.ProducerID) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	described, err := c.Transactions(ctx, ids...)
	failed = errors.Join(failed, err)
	out := map[int64]Named{}
	for id, t := range described {
		if slices.Contains(producerIDs, t.ProducerID) { // or it was changed since it was listed
			out[t.ProducerID] = Named{TransactionalID: id, Transaction: t}
		}
	}
	return out, failed
}

// TransactionsTopic is Kafka's own topic of the states of all transactional ids. The leaders of its
// partitions are their coordinators.
const TransactionsTopic = "__transaction_state"

// CoordinatorsLed reports whether there is a coordinator for every transactional id. It is false
// too if this process may not describe Kafka's topic of transactions.
func (c *Cluster) CoordinatorsLed(ctx context.Context) (bool, error) {
	found, _, err := c.TopicMetadata(ctx, []string{TransactionsTopic})
	if err != nil {
		return false, err
	}
	return found[TransactionsTopic].Led, nil
}

// TakesResentMarkers reports whether a leader may end a transaction by a marker of the transaction
// before it, which was sent again. Such a marker carries the epoch of the records that it ends.
// Brokers that know the transaction version of a marker (Kafka 4.2) refuse it. It is true too if a
// broker does not answer.
func (c *Cluster) TakesResentMarkers(ctx context.Context) (bool, error) {
	all, err := c.adm.ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("asking the brokers for their versions: %w", err)
	}
	takes := false
	all.Each(func(v kadm.BrokerApiVersions) {
		newest, known := v.KeyMaxVersion(int16(kmsg.WriteTxnMarkers))
		takes = takes || v.Err != nil || !known || newest < markerTransactionVersion
	})
	return takes, nil
}

// markerTransactionVersion is the version of WriteTxnMarkers with which a marker says its
// transaction version (KIP-1228).
const markerTransactionVersion = 2

// OffsetsPartition returns the partition of OffsetsTopic that holds the group's offsets.
func (c *Cluster) OffsetsPartition(ctx context.Context) (int32, error) {
	found, hidden, err := c.TopicMetadata(ctx, []string{OffsetsTopic})
	if err != nil {
		return 0, err
	}
	t, there := found[OffsetsTopic]
	switch {
	case len(hidden) > 0:
		return 0, fmt.Errorf("asking for topic %s: %w", OffsetsTopic,
			c.cfg.denied(kerr.TopicAuthorizationFailed, attempt{operation: Read, topic: OffsetsTopic}))
	case !there || t.Partitions == 0:
		return 0, fmt.Errorf("asking for topic %s: %w", OffsetsTopic, kerr.UnknownTopicOrPartition)
	}
	return offsetsPartition(c.group, t.Partitions), nil
}

// offsetsPartition is how group coordinators are placed: by the absolute value of the hash code of
// a Java string, 0 for the smallest.
func offsetsPartition(group string, partitions int32) int32 {
	hash := int32(0)
	for _, unit := range utf16.Encode([]rune(group)) {
		hash = 31*hash + int32(unit)
	}
	switch {
	case hash == math.MinInt32:
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % partitions
}

// WriteMarker ends an open transaction in its partition, with the epochs of t: the leader refuses
// the marker if the producer has a newer epoch there. It takes ClusterAction on the cluster. The
// transaction stays open in other partitions. After an error the marker may have been written or
// not.
func (c *Cluster) WriteMarker(ctx context.Context, t OpenTransaction, commit bool) error {
	what := fmt.Sprintf("writing a marker for producer id %d epoch %d to %s[%d]", t.ProducerID, t.Epoch, t.Topic, t.Partition)
	responses, err := c.adm.WriteTxnMarkers(ctx, kadm.TxnMarkers{
		ProducerID: t.ProducerID, ProducerEpoch: t.Epoch, Commit: commit, CoordinatorEpoch: t.CoordinatorEpoch,
		Topics: kadm.TopicsSet{t.Topic: {t.Partition: {}}},
	})
	if auth, ok := errors.AsType[*kadm.AuthError](err); ok {
		err = auth.Err
	}
	if err == nil {
		answer, ok := responses[t.ProducerID].Topics[t.Topic].Partitions[t.Partition]
		if !ok {
			return fmt.Errorf("%s: the partition was not answered", what)
		}
		err = answer.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, c.cfg.denied(err, attempt{cluster: ClusterAction}))
	}
	return nil
}
