// Package admin has what an operator reads and does from outside of an application:
//   - its open transactions, the progress of its group, and the content of its topics ([Client]),
//   - the state of an instance on this machine ([OpenState]),
//   - whether that state is what its changelogs say ([Client.Verify]),
//   - the recovery actions for a stopped application ([Application]).
//
// It joins no group and takes part in no transaction of the application.
//
// A Client is safe for concurrent use.
//
// # Recovery actions
//
// State and committed offsets must name each other. If they do not, a task stops instead of
// guessing, because a guess applies input twice or leaves it out. An operator knows what the
// cluster does not, and says it by one of the actions of [Application]:
//
//	action                what is said                                                state       offsets
//	AcceptSkip            they were moved forward on purpose                          stays       as committed
//	Adopt                 the state, all that the changelogs hold, belongs to them    stays       as committed
//	AdoptFromRounds       they have expired                                           stays       those of the last clean stop
//	Reset                 they are to be moved                                        stays       as wanted, not back
//	RebuildFromInput      the state is not worth keeping                              emptied     log start, or as wanted
//	RebuildFromChangelog  a database is not what its changelogs hold                  rebuilt     stay
//
// A task with a table that is restored from its topic (topology.RestoreFromTopic) keeps its
// offsets: AcceptSkip, Adopt and Reset are refused for it, and RebuildFromInput begins at the start
// of that topic. [Client.Verify] has nothing to compare such a store with.
//
// Every action looks at all tasks first. If one task refuses it, the action is refused as a whole,
// by a [Refusal] of one line. Then nothing was changed, except that RebuildFromInput may have
// created empty internal topics, as a start would. Tasks that need nothing are left alone, so that
// an action can be repeated.
//
// All but the last need the group to be empty. They initialise every transactional id of the
// application, so that none of its transactions can be pending. They commit offsets and metadata by
// one request from outside of the group, which brokers accept only while the group is empty. A
// runtime never sends such a request.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/security"
)

// Config is how to reach a cluster.
type Config struct {
	// Brokers are host:port addresses to start from.
	Brokers []string
	// Security is TLS and authentication; the zero value is neither.
	Security security.Config
	// Dialer replaces the way connections are made. TLS goes over its connections.
	Dialer func(ctx context.Context, network, host string) (net.Conn, error)
	// Logger receives the client's logs. By default there are none.
	Logger *slog.Logger
}

// Client is a connection to a cluster.
type Client struct {
	cfg broker.Config
	cl  *kgo.Client
	adm *kadm.Client
}

// Connect returns a client of an open cluster once a broker has answered.
func Connect(ctx context.Context, brokers ...string) (*Client, error) {
	return ConnectWith(ctx, Config{Brokers: brokers})
}

// ConnectWith returns a client once a broker has answered, which it waits for until ctx ends. A
// broker that refuses the client is not waited for. Mistakes in the settings are
// [*security.Error]s.
func ConnectWith(ctx context.Context, cfg Config) (*Client, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	secure, err := broker.NewSecure(cfg.Security, log)
	if err != nil {
		return nil, err
	}
	points := failpoint.From(ctx)
	if err := points.Check(); err != nil {
		return nil, err
	}
	c := &Client{cfg: broker.Config{
		Brokers: cfg.Brokers, ClientID: "onceward-admin", Dialer: cfg.Dialer, Secure: secure, Logger: log, Failpoints: points,
	}}
	if c.cl, err = kgo.NewClient(c.cfg.Options()...); err != nil {
		return nil, fmt.Errorf("admin client: %w", err)
	}
	if err := broker.Await(ctx, c.cfg, c.cl); err != nil {
		c.cl.Close()
		return nil, err
	}
	c.adm = kadm.NewClient(c.cl)
	return c, nil
}

// Close ends the client.
func (c *Client) Close() { c.cl.Close() }

// CreateTopic creates a topic with the cluster's default replication. One that exists is an error.
func (c *Client) CreateTopic(ctx context.Context, name string, partitions int32) error {
	resp, err := c.adm.CreateTopic(ctx, partitions, -1, nil, name)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	return nil
}

// OpenTransactions returns the transactional ids of the application whose transaction is open at
// the broker right now, sorted.
func (c *Client) OpenTransactions(ctx context.Context, application string) ([]string, error) {
	listed, err := c.adm.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return nil, fmt.Errorf("listing transactions: %w", err)
	}
	var open []string
	for id, t := range listed {
		if strings.HasPrefix(id, broker.TransactionalPrefix(application)) && t.State == "Ongoing" {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return open, nil
}

// Progress sums what the application's group has committed in a topic, and what the topic holds. It
// does not wait for pending offsets: a partition whose commit is pending counts with its last
// stable one. A topic that does not exist is an error; an application without a group has committed
// nothing.
func (c *Client) Progress(ctx context.Context, application, topic string) (committed, end int64, err error) {
	ends, err := c.adm.ListEndOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return 0, 0, fmt.Errorf("listing the end of %s: %w", topic, err)
	}
	starts, err := c.adm.ListStartOffsets(ctx, topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return 0, 0, fmt.Errorf("listing the start of %s: %w", topic, err)
	}
	//nolint:forbidigo // progress for people: nothing is decided by it
	offsets, err := c.adm.FetchOffsets(ctx, application)
	if err = cmp.Or(err, offsets.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, 0, fmt.Errorf("reading the offsets of %s: %w", application, err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(o.Topic, o.Partition)
		end += o.Offset - start.Offset
		if at, ok := offsets.Lookup(o.Topic, o.Partition); ok && at.At > start.Offset {
			committed += at.At - start.Offset
		}
	})
	return committed, end, nil
}

// Record is a committed record as it is stored.
type Record struct {
	Partition int32
	Offset    int64
	Timestamp time.Time
	// Appended says that Timestamp is when the broker has written the record, and not what the
	// producer has set.
	Appended   bool
	Key, Value []byte
	// Headers are in their order; a name can occur more than once.
	Headers []Header
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Contents is what a topic holds up to its last stable offsets as of the call.
type Contents struct {
	// Records are those of every partition in order, partition by partition.
	Records []Record
	// Aborted is the number of abort markers: one for every aborted transaction and partition that
	// it had written to.
	Aborted int
	// AbortedTransactions are the producer ids and epochs (in this order) of the abort markers.
	AbortedTransactions map[[2]int64]bool
}

// Read returns the committed contents of a topic, all of it in memory.
func (c *Client) Read(ctx context.Context, topic string) (Contents, error) {
	stable, err := c.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return Contents{}, fmt.Errorf("listing the stable end of %s: %w", topic, err)
	}
	starts, err := c.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return Contents{}, fmt.Errorf("listing the start of %s: %w", topic, err)
	}
	left := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	var listErr error
	stable.Each(func(o kadm.ListedOffset) {
		start, ok := starts.Lookup(topic, o.Partition)
		if o.Err != nil || !ok || start.Err != nil {
			listErr = fmt.Errorf("listing the bounds of %s[%d]: %w", topic, o.Partition, errors.Join(o.Err, start.Err))
			return
		}
		if start.Offset < o.Offset {
			left[o.Partition] = o.Offset
			from[o.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	if listErr != nil {
		return Contents{}, listErr
	}
	return c.readTo(ctx, topic, from, left)
}

func (c *Client) readTo(ctx context.Context, topic string, from map[int32]kgo.Offset, left map[int32]int64) (Contents, error) {
	out := Contents{AbortedTransactions: map[[2]int64]bool{}}
	if len(left) == 0 {
		return out, nil
	}
	cl, err := kgo.NewClient(append(c.cfg.Options(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return Contents{}, fmt.Errorf("reading %s: %w", topic, err)
	}
	defer cl.Close()
	parts := map[int32][]Record{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return Contents{}, fmt.Errorf("reading %s: %w", topic, err)
		}
		var failed error
		fetches.EachError(func(t string, p int32, err error) { failed = fmt.Errorf("reading %s[%d]: %w", t, p, err) })
		if failed != nil {
			return Contents{}, failed
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, wanted := left[r.Partition]
			if !wanted {
				return
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
			if r.Offset < end {
				out.add(parts, r)
			}
		})
	}
	ids := make([]int32, 0, len(parts))
	for p := range parts {
		ids = append(ids, p)
	}
	slices.Sort(ids)
	for _, p := range ids {
		out.Records = append(out.Records, parts[p]...)
	}
	return out, nil
}

// controlAbort is the type in the key of an abort marker: a version and a type, both 16 bits.
const controlAbort = 0

func (out *Contents) add(parts map[int32][]Record, r *kgo.Record) {
	if r.Attrs.IsControl() {
		if len(r.Key) >= 4 && r.Key[2] == 0 && r.Key[3] == controlAbort {
			out.Aborted++
			out.AbortedTransactions[[2]int64{r.ProducerID, int64(r.ProducerEpoch)}] = true
		}
		return
	}
	parts[r.Partition] = append(parts[r.Partition], recordOf(r))
}

func recordOf(r *kgo.Record) Record {
	rec := Record{
		Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Appended: r.Attrs.TimestampType() == 1,
		Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, Header{h.Key, h.Value})
	}
	return rec
}
