package virtual

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstPort is that of the first broker.
const firstPort = 9092

// Kafka are embedded brokers on a network. Its faults are those of package kfake and the ones here.
type Kafka struct {
	*kfake.Cluster
	network  *Network
	addrs    []string
	controls *controls
	markers  *markers
	journal  *journal
	lost     *LostMarkers // nil if none are lost
}

// NewKafka starts brokers on the network, which end with the test. Their names in rules of the
// network and in the trace are those that [Kafka.Brokers] returns.
func NewKafka(t testing.TB, n *Network, brokers int, opts ...kfake.Opt) *Kafka {
	t.Helper()
	ports := make([]int, brokers)
	k := &Kafka{network: n}
	for i := range ports {
		ports[i] = firstPort + i
		addr := fmt.Sprintf("localhost:%d", ports[i])
		k.addrs = append(k.addrs, addr)
		n.mu.Lock()
		n.names[addr] = fmt.Sprint("broker-", i)
		n.mu.Unlock()
	}
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(n.pipes.Listen),
		kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	k.Cluster, k.controls = c, newControls(c)
	t.Cleanup(c.Close)
	k.journal, k.markers = newJournal(k), newMarkers(t, k)
	newRejoins(k)
	newLeaves(k)
	return k
}

// Brokers returns the addresses to start from.
func (k *Kafka) Brokers() []string { return k.addrs }

// Client returns a client on a host of its own, closed at the end of the test. It pushes no
// metrics: they fill the trace.
func (k *Kafka) Client(t testing.TB, host string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(k.addrs...), kgo.Dialer(k.network.Host(host).Dial), kgo.ClientID(host), kgo.DisableClientMetrics(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// Admin is [Kafka.Client] for administration.
func (k *Kafka) Admin(t testing.TB, host string) *kadm.Client {
	t.Helper()
	return kadm.NewClient(k.Client(t, host))
}

// NeverTruncated has the brokers answer OffsetForLeaderEpoch as if every epoch reached to the end
// of the log. kfake truncates no log; but where all records of an old epoch were deleted, its own
// answer lets clients report data loss.
func (k *Kafka) NeverTruncated() {
	k.controls.add(kmsg.OffsetForLeaderEpoch, func(kreq kmsg.Request) (kmsg.Response, bool) {
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				if k.LeaderFor(t.Topic, p.Partition) != k.CurrentNode() {
					return nil, false
				}
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, math.MaxInt64
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, true
	})
}

// Stop makes a broker unreachable: its connections are reset and new ones refused. Its data stay,
// and so do the leaderships, as with a restart that no other broker takes over from. Start ends it.
func (k *Kafka) Stop(broker int) {
	k.network.trace.Logf(k.network.name(k.addrs[broker]), "stopped")
	k.network.setDown(k.addrs[broker], true)
}

// Start ends what Stop has begun.
func (k *Kafka) Start(broker int) {
	k.network.trace.Logf(k.network.name(k.addrs[broker]), "started")
	k.network.setDown(k.addrs[broker], false)
}

// MoveLeaders gives every partition another leader, chosen at random.
func (k *Kafka) MoveLeaders() {
	k.network.trace.Logf("brokers", "partition leaders moved")
	k.ShufflePartitionLeaders()
}

// MoveCoordinators gives every group and every transactional id another coordinator.
func (k *Kafka) MoveCoordinators() {
	k.network.trace.Logf("brokers", "coordinators moved")
	k.RehashCoordinators()
}

// OpenTransactions returns the transactional ids with a transaction that has not ended.
func OpenTransactions(ctx context.Context, adm *kadm.Client) ([]string, error) {
	listed, err := adm.ListTransactions(ctx, nil, []string{"Ongoing", "PrepareCommit", "PrepareAbort"})
	if err != nil {
		return nil, err
	}
	var open []string
	for id, tx := range listed {
		if tx.State == "Ongoing" || tx.State == "PrepareCommit" || tx.State == "PrepareAbort" {
			open = append(open, id)
		}
	}
	return open, nil
}
