package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// Record is a consumed or produced record; an alias, so that the rest of the runtime needs no
// franz-go import and no copy.
type Record = kgo.Record

// RecordHeader is one header of a Record.
type RecordHeader = kgo.RecordHeader

// Cluster is one plain client: requests that belong to no group membership and to no transaction.
type Cluster struct {
	cfg   Config
	cl    *kgo.Client
	adm   *kadm.Client
	group string
}

// Connect makes a client and waits until a broker answers, at most until ctx ends. A refusal is not
// waited out: the error says at once who refused whom, and what to do.
func Connect(ctx context.Context, cfg Config, group string) (*Cluster, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("no broker address is configured: set at least one host:port")
	}
	cl, err := kgo.NewClient(cfg.Options()...)
	if err != nil {
		return nil, fmt.Errorf("broker client: %w", err)
	}
	if err := Await(ctx, cfg, cl); err != nil {
		cl.Close()
		return nil, err
	}
	return &Cluster{cfg: cfg, cl: cl, adm: kadm.NewClient(cl), group: group}, nil
}

// closedTries is how often a connection has to be closed without a word before that counts as a
// refusal: about two seconds, in which a broker that restarts ends to do so or refuses connections.
// silentTries is the same for silence. A try takes dialTimeout twice then, because the client dials
// again once a dial has timed out.
const (
	closedTries = 5
	silentTries = 4
)

// Await waits until a broker answers cl, a client with the options of cfg.
func Await(ctx context.Context, cfg Config, cl *kgo.Client) error {
	pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: time.Second}
	var last error
	tries := map[certainty]int{}
	for {
		err := cl.Ping(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		what, sure := cfg.Secure.refusal(last)
		tries[sure]++
		if tries[final] > 0 || tries[likely] >= closedTries || tries[silent] >= silentTries || ctx.Err() != nil {
			return fmt.Errorf("no broker answered at %s: %s: %w", strings.Join(cfg.Brokers, ", "), what, last)
		}
		if cfg.Logger != nil {
			cfg.Logger.Info("no broker has answered yet", "brokers", cfg.Brokers, "error", err, "again_in", pause.Next)
		}
		_ = pause.Wait(ctx) // the next try sees that ctx has ended, and says what the last answer was
	}
}

// Close ends the client.
func (c *Cluster) Close() { c.cl.Close() }

// Admin returns the administrative client of the same connection.
func (c *Cluster) Admin() *kadm.Client { return c.adm }

// transactionVersion is the feature that bumps the producer epoch with every transaction (KIP-890):
// a request of an old transaction that arrives late is then refused instead of joining the next
// one.
const transactionVersion = "transaction.version"

// ID returns the id of the cluster, which tells it from every other one.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	m, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("asking for the cluster's id: %w", err)
	}
	return m.Cluster, nil
}

// Brokers returns how many brokers the cluster has.
func (c *Cluster) Brokers(ctx context.Context) (int, error) {
	m, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for the brokers: %w", err)
	}
	return len(m.Brokers), nil
}

// RequireTransactionVersion2 returns an error unless every broker runs with transaction.version 2
// or newer.
func (c *Cluster) RequireTransactionVersion2(ctx context.Context) error {
	all, err := c.adm.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("asking the brokers for their versions: %w", err)
	}
	var found, failed error
	answered := 0
	all.Each(func(v kadm.BrokerApiVersions) {
		if v.Err != nil {
			failed = v.Err
			return
		}
		answered++
		level := int16(-1)
		if raw := v.Raw(); raw != nil {
			for _, f := range raw.FinalizedFeatures {
				if f.Name == transactionVersion {
					level = f.MaxVersionLevel
				}
			}
		}
		if level < 2 {
			found = fmt.Errorf("broker %d has %s %d, and 2 is required: use Kafka 4.0 or newer with that feature enabled "+
				"(kafka-features.sh upgrade --feature %s=2)", v.NodeID, transactionVersion, max(level, 0), transactionVersion)
		}
	})
	if answered == 0 {
		return fmt.Errorf("asking the brokers for their versions: %w", failed)
	}
	return found
}

// LeaveGroup takes a static member out of the group at once, so that others need not wait for its
// session to end. It names the member id too: a process that has taken the instance over meanwhile
// is not thrown out, and left is false.
func (c *Cluster) LeaveGroup(ctx context.Context, member, instance string) (left bool, err error) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = c.group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = brokenRemoval(c.cfg.Failpoints, member), kmsg.StringPtr(instance)
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, c.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) > 0 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedInstanceID) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("leaving group %q: %w", c.group, err)
	}
	return true, nil
}

// Fenced asks the group whether another process has taken the place of a static member. Nothing
// comes of the question otherwise: it is one more heartbeat.
func (c *Cluster) Fenced(ctx context.Context, member string, generation int32, instance string) (bool, error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, member, generation, kmsg.StringPtr(instance)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return false, fmt.Errorf("asking for the membership in group %q: %w", c.group, err)
	}
	return resp.ErrorCode == kerr.FencedInstanceID.Code, nil // any other answer is met, and judged, by the client of the group
}

// DeleteBefore deletes the records below an offset of each partition.
func (c *Cluster) DeleteBefore(ctx context.Context, offsets map[string]map[int32]int64) error {
	request := kadm.Offsets{}
	for topic, partitions := range offsets {
		for p, at := range partitions {
			request.AddOffset(topic, p, at, -1)
		}
	}
	responses, err := c.adm.DeleteRecords(ctx, request)
	if err == nil {
		err = responses.Error()
	}
	if err == nil {
		return nil
	}
	what := attempt{operation: Delete}
	for topic := range offsets {
		what.topic = topic // one of them; they belong to one application
	}
	return fmt.Errorf("deleting records: %w", c.cfg.denied(err, what))
}

// Write produces records of one topic outside of any transaction, at least one, and waits for their
// acknowledgements. After an error each of them may have been written or not.
func (c *Cluster) Write(ctx context.Context, records ...*Record) error {
	return c.cfg.denied(c.cl.ProduceSync(ctx, records...).FirstErr(), attempt{operation: Write, topic: records[0].Topic})
}
