package pgsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Apply has the effect of records of one partition, in their order, in the transaction tx. It may
// be called by several goroutines at once. It must not keep records, and cannot commit or roll
// back.
type Apply func(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error

// Each returns an Apply that calls f for each record.
func Each(f func(ctx context.Context, tx pgx.Tx, record *kgo.Record) error) Apply {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error {
		for _, r := range records {
			if err := f(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// Start is where a topic is read first. The place is looked up once and stored, for all partitions.
// Partitions that the topic gets later are read from their beginning.
type Start int

// The places.
const (
	// Earliest is the oldest record that the partition has.
	Earliest Start = iota
	// Latest is the end of the committed records.
	Latest
)

// Config is what a sink is made of. Name, Topics, Pool, Client and Apply are required.
type Config struct {
	// Name is the key of the sink's offsets, and its consumer group: 1 to 200 bytes.
	Name string
	// Topics are read. They have to be there.
	Topics []string
	// Pool has connections for Parallel transactions, and one more.
	Pool *pgxpool.Pool
	// Client are options of the Kafka client: seed brokers, TLS, SASL, limits of fetches. Those
	// that say what is consumed and where from are the sink's, and come last.
	Client []kgo.Opt
	Apply  Apply

	// Start is for topics that the sink has not read yet.
	Start Start
	// BatchRecords is how many records a transaction has at most, 500 by default.
	BatchRecords int
	// Parallel is how many transactions are at work at most, 4 by default.
	Parallel int
	// Isolation is that of the transactions, READ COMMITTED by default.
	Isolation pgx.TxIsoLevel
	// IdleInTransaction is how long a transaction may be idle between two statements, a minute by
	// default. The server ends it then.
	IdleInTransaction time.Duration
	// Attempts is how often a record is tried that fails with class transient or overload, 10 by
	// default.
	Attempts int
	// DeadLetterTopic gets the records that are refused. Without it they go to the table
	// onceward.sink_quarantine.
	DeadLetterTopic string

	// Logger says what the sink retries, refuses and gives up, without a byte of a record. None by
	// default.
	Logger *slog.Logger
	// Metrics registers the sink's metrics, whose names begin with onceward_postgres_sink_. None by
	// default.
	Metrics prometheus.Registerer
}

// The limits of names, as the tables have them.
const nameBytesMax = 200

// withDefaults returns the configuration as it works, and all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" || len(c.Name) > nameBytesMax || !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0) {
		mistake("Name is valid UTF-8 of 1 to %d bytes without zero bytes, not %q", nameBytesMax, c.Name)
	}
	if len(c.Topics) == 0 || slices.Contains(c.Topics, "") {
		mistake("Topics has to name the topics, and names %q", c.Topics)
	}
	if slices.Contains(c.Topics, c.DeadLetterTopic) {
		mistake("DeadLetterTopic %q is one of the topics that are read", c.DeadLetterTopic)
	}
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is nil"))
	}
	if c.Apply == nil {
		errs = append(errs, errors.New("Apply is nil"))
	}
	if len(c.Client) == 0 {
		errs = append(errs, errors.New("Client has no options: kgo.SeedBrokers at least"))
	}
	if c.Start != Earliest && c.Start != Latest {
		mistake("Start is Earliest or Latest, not %d", c.Start)
	}
	number := func(name string, n *int, byDefault int) {
		if *n < 0 {
			mistake("%s is 1 or more, not %d", name, *n)
		}
		if *n == 0 {
			*n = byDefault
		}
	}
	number("BatchRecords", &c.BatchRecords, 500)
	number("Parallel", &c.Parallel, 4)
	number("Attempts", &c.Attempts, 10)
	if c.IdleInTransaction == 0 {
		c.IdleInTransaction = time.Minute
	}
	if c.IdleInTransaction < time.Millisecond {
		mistake("IdleInTransaction is 1ms or more, not %s", c.IdleInTransaction)
	}
	switch c.Isolation {
	case "":
		c.Isolation = pgx.ReadCommitted
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		mistake("Isolation is read committed, repeatable read or serializable, not %q", c.Isolation)
	}
	if c.Pool != nil && c.Pool.Config().MaxConns <= int32(min(c.Parallel, 1<<20)) {
		mistake("Pool has %d connections, which is not enough for %d transactions and one more: raise MaxConns or lower Parallel",
			c.Pool.Config().MaxConns, c.Parallel)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("sink", c.Name)
	return c, errors.Join(errs...)
}
