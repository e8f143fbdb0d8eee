package pgoutbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config is what an outbox is made of. Name and Pool are required, and Client for [Outbox.Run].
type Config struct {
	// Name is the key of the outbox's entries: 1 to 200 bytes.
	Name string
	Pool *pgxpool.Pool
	// Client are options of the Kafka client: seed brokers, TLS, SASL, batches. Those that the
	// order needs are the relay's, and come last.
	Client []kgo.Opt

	// BatchRecords is how many entries a transaction of the relay publishes at most, 500 by
	// default. It also ends at 16 MiB. A quarter is for entries that have failed before, if there
	// are any.
	BatchRecords int
	// Poll is how often a relay looks for entries without a notification, 1 s by default.
	Poll time.Duration
	// DeliveryTimeout is how long a record is tried before it has failed, 20 s by default. A record
	// has failed earlier if others of its batch were taken, and no answer has come for 2 s.
	DeliveryTimeout time.Duration
	// IdleInTransaction is how long the transaction of a relay may wait for the brokers, a minute
	// by default. The server ends it then. It is longer than DeliveryTimeout by more than 10 s.
	IdleInTransaction time.Duration
	// RetryMin and RetryMax bound the pause before an entry is tried again, which doubles with each
	// attempt. 100 ms and a minute by default.
	RetryMin, RetryMax time.Duration
	// Retention is how long published entries are kept, a day by default. Relays remove older ones
	// every minute.
	Retention time.Duration

	// Logger says what is retried and given up, without a byte of a record. None by default.
	Logger *slog.Logger
	// Metrics registers the outbox's metrics, whose names begin with onceward_postgres_outbox_.
	// None by default.
	Metrics prometheus.Registerer
}

const (
	// batchTimeMax is after what time a batch begins to publish nothing further.
	batchTimeMax = 5 * time.Second
	// straggleMax is how long the answers of a batch of which some records were taken can be quiet.
	// Then the others are given up. It is more than a partition needs that works.
	straggleMax = 2 * time.Second
	// batchBytesMax bounds the records of a batch together, which are in memory.
	batchBytesMax = 16 << 20
)

// withDefaults returns the configuration as it works, and all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" || !storable(c.Name, nameBytesMax) {
		mistake("Name is valid UTF-8 of 1 to %d bytes without zero bytes, not %q", nameBytesMax, c.Name)
	}
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is nil"))
	}
	if c.BatchRecords < 0 {
		mistake("BatchRecords is 1 or more, not %d", c.BatchRecords)
	}
	if c.BatchRecords == 0 {
		c.BatchRecords = 500
	}
	duration := func(name string, d *time.Duration, least, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
		if *d < least {
			mistake("%s is %s or more, not %s", name, least, *d)
		}
	}
	duration("Poll", &c.Poll, time.Millisecond, time.Second)
	duration("DeliveryTimeout", &c.DeliveryTimeout, time.Second, 20*time.Second)
	duration("IdleInTransaction", &c.IdleInTransaction, time.Second, max(time.Minute, c.DeliveryTimeout+3*batchTimeMax))
	duration("RetryMin", &c.RetryMin, time.Millisecond, 100*time.Millisecond)
	duration("RetryMax", &c.RetryMax, time.Millisecond, max(c.RetryMin, time.Minute))
	duration("Retention", &c.Retention, time.Second, 24*time.Hour)
	if c.RetryMax < c.RetryMin {
		mistake("RetryMax %s is less than RetryMin %s", c.RetryMax, c.RetryMin)
	}
	if c.IdleInTransaction <= c.DeliveryTimeout+2*batchTimeMax {
		mistake("IdleInTransaction %s is not longer than DeliveryTimeout %s by more than %s: the server would end transactions that wait for the brokers",
			c.IdleInTransaction, c.DeliveryTimeout, 2*batchTimeMax)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("outbox", c.Name)
	return c, errors.Join(errs...)
}
