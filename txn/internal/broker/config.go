package broker

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

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
// required. A write of such a client ends with its context, although the client cannot know then
// whether the broker has it. Otherwise a write whose reply was lost would wait for the brokers for
// as long as they are away, and the end of the process with it.
func (c Config) Options() []kgo.Opt {
	return append(c.options(), kgo.AllowIdempotentProduceCancellation())
}
