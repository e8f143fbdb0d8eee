package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/failpoint"
)

// Record is a consumed or produced record; an alias, so that the rest of the runtime needs no
// franz-go import and no copy.
type Record = kgo.Record

// RecordHeader is one header of a Record.
type RecordHeader = kgo.RecordHeader

// Config is how to reach the cluster.
type Config struct {
	// Brokers are host:port addresses to start from.
	Brokers []string
	// ClientID names the process to the brokers.
	ClientID string
	// Dialer replaces the default one, when set. TLS goes over its connections.
	Dialer func(ctx context.Context, network, host string) (net.Conn, error)
	// Secure is TLS and authentication; nil is neither.
	Secure *Secure
	// Logger receives the clients' own logs, and alerts.
	Logger *slog.Logger
	// RequestTimeout is how long a reply is waited for, on top of what the request itself lets the
	// broker take. The default is the client's.
	RequestTimeout time.Duration
	// BatchMaxBytes returns a topic's max.message.bytes, 0 when it is not known.
	BatchMaxBytes func(topic string) int32
	// Compression is that of what producers write; the zero value is none.
	Compression kgo.CompressionCodec
	// GroupMayBeAbsent takes the answer that there is no such group for one: it has no offsets. It
	// is for tools. A member's group exists, and a broker can answer so while the first commit ever
	// of a group is pending.
	GroupMayBeAbsent bool
	// Failpoints has what negative controls break; the zero value is nothing.
	Failpoints failpoint.Set
}

const (
	keyOffsetFetch     = 9
	keyTxnOffsetCommit = 28
)

// versions are those of requests.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(keyTxnOffsetCommit, 5) // version 6 takes topic ids instead of names
	v.SetMaxKeyVersion(keyOffsetFetch, 8)     // the first version with several groups; later ones take topic ids
	return v
}

// options are what every client of the process has in common.
func (c Config) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.RequestTimeoutOverhead(cmp.Or(c.RequestTimeout, requestTimeoutMax)),
		kgo.RetryBackoffFn(retryPause),
		kgo.RequestRetries(math.MaxInt32), // the client's bound on the time of all tries is what ends them
		kgo.DialTimeout(dialTimeout),
		kgo.MaxVersions(versions()),
		// The default of 5 s would hold up the first produce to a topic that was created a moment
		// ago.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.MaxDecompressBatchBytes(256 << 20),
		kgo.DisableClientMetrics(), // a subscription of the cluster's for every client of every worker
	}
	opts = append(opts, c.Secure.options(c.Dialer)...)
	return append(opts, kgo.WithLogger(kgoLogger{c.Logger}))
}

// Every client pauses for at least retryFirst and at most retryMax before it repeats a request, and
// before it asks again for the leaders of partitions. A broker that dies has successors after some
// seconds, and they are found within the last pause.
const (
	retryFirst = 100 * time.Millisecond
	retryMax   = 500 * time.Millisecond
)

// retryPause returns the pause after so many failures in a row: twice as long each time, less up to
// a fifth, so that clients do not ask in step.
func retryPause(failures int) time.Duration {
	d := retryMax
	if failures < 4 {
		d = min(retryFirst<<max(failures-1, 0), retryMax)
	}
	return d - rand.N(d/5)
}

// requestTimeoutMax is the client's own default.
const requestTimeoutMax = 10 * time.Second

// RequestTimeoutFor returns how long to wait for a reply under a transaction timeout. A round in
// doubt is resolved by two requests, one after the other, and either may be lost: the client has to
// give up on both within twice the transaction timeout.
func RequestTimeoutFor(transactionTimeout time.Duration) time.Duration {
	return min(transactionTimeout/2, requestTimeoutMax)
}

// Options are those of every client of the process that writes outside of transactions. Logger is
// required. What such a client writes ends with its context, though the client cannot know then
// whether the broker has it. Without that a write whose reply was lost would wait for the brokers
// for as long as they are away, and the end of the process with it.
func (c Config) Options() []kgo.Opt {
	return append(c.options(), kgo.AllowIdempotentProduceCancellation())
}

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

// Offset is the stable committed offset of one partition.
type Offset struct {
	Topic     string
	Partition int32
	// At is the committed offset, -1 when there is none.
	At          int64
	LeaderEpoch int32
	Metadata    string
}

// StableOffsets returns the committed offsets of exactly the partitions that are named, once every
// one of them is stable. Asking for partitions by name is what makes it an oracle: an answer for
// "all partitions" leaves out those whose first commit is still pending. It retries until ctx ends,
// and calls waiting, if it is not nil, whenever a transaction may be what it waits for.
func (c *Cluster) StableOffsets(ctx context.Context, partitions map[string][]int32, waiting func(context.Context)) ([]Offset, error) {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		offsets, pending, err := c.stableOffsetsOnce(ctx, partitions)
		if err == nil && len(pending) == 0 {
			return offsets, nil
		}
		if c.cfg.GroupMayBeAbsent && errors.Is(err, kerr.GroupIDNotFound) {
			return noOffsets(partitions), nil
		}
		if err == nil {
			err = kerr.UnstableOffsetCommit
		}
		err = c.cfg.denied(err, attempt{group: c.group})
		if Permanent(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("reading the stable offsets of group %q: %w", c.group, err)
		}
		if waiting != nil && (errors.Is(err, kerr.UnstableOffsetCommit) || errors.Is(err, kerr.GroupIDNotFound)) {
			waiting(ctx)
		}
		if ended := pause.Wait(ctx); ended != nil {
			return nil, fmt.Errorf("reading the stable offsets of group %q: %w (last answer: %w)", c.group, ended, err)
		}
	}
}

// noOffsets are the offsets of a group that does not exist.
func noOffsets(partitions map[string][]int32) (out []Offset) {
	for topic, ps := range partitions {
		for _, p := range ps {
			out = append(out, Offset{Topic: topic, Partition: p, At: -1, LeaderEpoch: -1})
		}
	}
	return out
}

// stableOffsetsOnce asks once. Partitions whose offsets are not stable are in pending and not in
// stable; every other one that is named is in stable, or there is an error.
func (c *Cluster) stableOffsetsOnce(ctx context.Context, partitions map[string][]int32) (stable []Offset, pending []topicPartition, err error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = c.group
	asked := 0
	for topic, ps := range partitions {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, ps
		group.Topics = append(group.Topics, t)
		asked += len(ps)
	}
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				switch err := kerr.ErrorForCode(p.ErrorCode); {
				case errors.Is(err, kerr.UnstableOffsetCommit):
					pending = append(pending, topicPartition{t.Topic, p.Partition})
					continue
				case err != nil:
					return nil, nil, c.cfg.denied(err, attempt{operation: Read, topic: t.Topic})
				}
				o := Offset{Topic: t.Topic, Partition: p.Partition, At: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				stable = append(stable, o)
			}
		}
	}
	if got := len(stable) + len(pending); got != asked {
		return nil, nil, fmt.Errorf("%d partitions were asked for and %d answered", asked, got)
	}
	return stable, pending, nil
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

// Write produces one record outside of any transaction and waits for its acknowledgement. After an
// error it may have been written or not.
func (c *Cluster) Write(ctx context.Context, r *Record) error {
	return c.cfg.denied(c.cl.ProduceSync(ctx, r).FirstErr(), attempt{operation: Write, topic: r.Topic})
}

// kgoLogger hands the clients' logs to slog. They carry no record bytes.
type kgoLogger struct{ l *slog.Logger }

func (k kgoLogger) Level() kgo.LogLevel {
	ctx := context.Background()
	switch {
	case k.l.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelDebug
	case k.l.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	default:
		return kgo.LogLevelError
	}
}

func (k kgoLogger) Log(level kgo.LogLevel, msg string, kv ...any) {
	l := slog.LevelDebug
	switch level {
	case kgo.LogLevelError:
		l = slog.LevelError
	case kgo.LogLevelWarn:
		l = slog.LevelWarn
	case kgo.LogLevelInfo, kgo.LogLevelDebug, kgo.LogLevelNone: // the client's "info" is a developer's detail
	}
	k.l.Log(context.Background(), l, msg, kv...)
}
