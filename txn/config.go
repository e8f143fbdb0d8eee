package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/endpoint"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/purge"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
	"github.com/onceward/onceward/txn/security"
)

// Config is how an application runs. Brokers and StateDir are required; every other field has a
// default that fits.
type Config struct {
	// Brokers are host:port addresses to start from.
	Brokers []string
	// StateDir is the instance's own directory: databases, identity, lock and control socket. There
	// is no default, because state that vanishes with a temporary directory would be restored in
	// full at every start.
	StateDir string
	// Application overrides the topology's application id: group, internal topics and transactional
	// ids are named after it.
	Application string
	// Instance is the stable identity of this process among the application's instances. By default
	// one is made once and kept in the state directory.
	Instance string
	// Workers is the number of goroutines that compute. Default GOMAXPROCS.
	Workers int
	// CommitIntervalMax is the longest that a record waits for its round to be sealed, if the round
	// sends anything. Default 100 ms. Under light load rounds commit as soon as there is nothing
	// more to process, but at most once in the time that a commit takes. A round that would send
	// nothing is held back up to 10 s.
	CommitIntervalMax time.Duration
	// MarkersPerSecondMax is how many transaction markers the process may cause per second. Each
	// transaction leaves one in every partition that it touches. Near the limit, rounds commit less
	// often, down to every CommitIntervalMax and not beyond. A marker is about 165 bytes on disk,
	// and a compacted topic keeps it for delete.retention.ms. Lower the limit if disk is dearer
	// than a few milliseconds. Default 4,000; negative is no bound.
	MarkersPerSecondMax int
	// RoundBytesMax bounds a round's output, and separately its state writes, per worker. Default
	// 16 MiB.
	RoundBytesMax int64
	// QueueBytesMax bounds the records per input partition that are fetched and not committed; one
	// fetch of up to 1 MiB may come on top. All input partitions of the process share sixteen times
	// this size. When they have reached it, each partition keeps its share, at least 64 KiB;
	// together they hold twice the size at the worst. Default 4 MiB.
	QueueBytesMax int64
	// Compression is that of the batches that the application writes, of outputs, changelogs and
	// internal topics. Default Uncompressed, as that of Kafka's own producers: it pays where the
	// network or the disks are dearer than processor time.
	Compression Compression
	// OrderWaitMax is how long the records of one input of a task wait for those of another input
	// that is known to have more. With the wait, records are processed in the order of their
	// timestamps, or event times. Default 1 s; negative is no wait.
	OrderWaitMax time.Duration
	// MaxFutureTimestamp is how far ahead of this machine's clock the timestamp of a record may be,
	// of an input or an output. A record beyond the limit fails, because a single bad clock would
	// move stream time past all later records. Default 1 h; negative is no limit.
	MaxFutureTimestamp time.Duration
	// CacheBytes is the memory of all databases together. It is the block cache, and applied writes
	// that are not yet on disk are taken out of it. Default 256 MiB; at least 1 MiB.
	CacheBytes int64
	// RestoreBytesMax bounds the memory that the restores of all tasks together use for what they
	// read, apart from the databases' own. More makes fewer and larger tables, which saves
	// compactions. Default 64 MiB; at least 8 MiB.
	RestoreBytesMax int64
	// TransactionTimeout is what a broker waits for before it aborts a transaction of a process
	// that is gone. Default 10 s; at least 1 s, and at most what the brokers allow
	// (transaction.max.timeout.ms, 15 min).
	TransactionTimeout time.Duration
	// SessionTimeout is how long the group waits for a process that is gone. Default 45 s. A
	// restart with the same identity does not wait for it. Brokers allow from
	// group.min.session.timeout.ms (6 s) to group.max.session.timeout.ms (30 min).
	SessionTimeout time.Duration
	// ConnectTimeout bounds the wait for brokers and for the initialisation of producers at start.
	// Default 60 s.
	ConnectTimeout time.Duration
	// InternalReplicas and InternalMinInSync are the replication factor and the min.insync.replicas
	// of new changelogs, repartition topics and the rounds topic. Existing topics need at least
	// these values. By default both are the cluster's. A tool that creates topics for new parts of
	// a topology (RebuildFromInput of package txn/admin) takes the values of the rounds topic.
	InternalReplicas  int16
	InternalMinInSync int
	// AcceptLostRows opens tasks whose windows, sessions, series or ids would be restored from a
	// changelog that may have lost rows. Then aggregates begin again, records of a join meet none,
	// and ids are taken for new. By default such a task stops. It can only be where retention.ms of
	// the changelog is not -1; the default of the changelogs that Onceward creates is -1.
	AcceptLostRows bool
	// Remain keeps the membership when Run ends, for a restart of the same instance within the
	// session timeout. By default the instance leaves and others take its tasks at once.
	Remain bool
	// FailFast ends Run with the first task that stops. By default its neighbours go on, and Run
	// ends when every task that the instance has is stopped; an instance without any task stays.
	FailFast bool
	// Mode says why records are processed; every record that is written has it
	// ([topology.HeaderMode]). Default topology.Live. A replay (topology.Replay) needs an
	// application id of its own (Application), so that its state and group are not those of the
	// live application. No application runs in mode topology.Forensic.
	//
	// All instances of an application have the same mode. Every commit says it. An instance that
	// finds another mode than its own, at its start or when it opens a task, ends with an error.
	//
	// An instance accepts two kinds of tasks without a mode. One was never committed. The other was
	// committed by Reset or RebuildFromInput of package txn/admin when no commit was known and no
	// state was kept. State that Adopt keeps has the mode that the commits of the other tasks say,
	// or that the operator says.
	Mode topology.Mode
	// ModesBefore are earlier modes of the application whose state this one continues with: for
	// example, the application continues live after a backfill. Stop every instance before a mode
	// is changed. Partitions without a newer commit keep the old mode, so leave it in until every
	// partition has new records.
	ModesBefore []topology.Mode
	// Security is TLS and authentication; the zero value is neither.
	Security security.Config
	// Dialer replaces the way connections are made. TLS goes over its connections.
	Dialer func(ctx context.Context, network, host string) (net.Conn, error)
	// Standbys is how many warm copies of the state of each task other instances keep, as far as
	// there are other instances. One that takes over such a task reads the rest of its changelogs
	// only, and a task moves to an instance once that has a warm copy. Each copy takes the disk
	// space of the task's state, and for stores in memory the memory, and reads its changelogs. All
	// instances of an application should have the same number: the highest counts, and one with 0
	// keeps no copy. Default 0; at most 8.
	Standbys int
	// StandbyBytesPerSecondMax bounds what all copies that this process keeps read of changelogs,
	// in bytes of batches as they are on the wire. A copy that cannot keep up is not warm. Default 0
	// is no bound.
	StandbyBytesPerSecondMax int64
	// StandbyDiskMax bounds the disk space of the copies that this process has open, in bytes. Once
	// they take as much, copies that were not warm since the start of the process read no more and
	// count as failing. The others go on, so that the space grows with the state. Default 0 is no
	// bound.
	StandbyDiskMax int64
	// Rack names the place of the process that fails as a whole, such as an availability zone.
	// Copies are kept in another rack than their task where that is possible. By default the
	// instances are not told apart.
	Rack string
	// Peers is how the instances of the application watch each other, so that the partitions of one
	// that dies go on at once. By default they do so if the brokers are on loopback.
	Peers Peers
	// RepairTransactions writes the missing markers of hanging transactions of the application
	// while it runs, if evidence says how they ended (docs/hanging-transactions.md). It needs
	// ClusterAction on the cluster, and Read on all topics that the application writes. By default
	// they are reported, and an operator repairs them with `onceward transactions repair`.
	RepairTransactions bool
	// HTTP is the address of /metrics, /healthz, /readyz and /console/: host:port with a loopback host, or
	// unix:/path. By default they are not served. Other addresses are refused without HTTPExposed,
	// because there is no authentication: put a reverse proxy in front for other machines, or serve
	// [App.Handler] from a server of the program.
	HTTP string
	// HTTPExposed allows an HTTP address that other machines reach, as probes and Prometheus do in
	// a cluster of containers. All clients that reach it can read the metrics, with the names of
	// topics, tasks and nodes. They can also read the status of all instances of the application,
	// with the reasons of stopped tasks, and the settings without users and secrets. With
	// Console.DeadLetters they can list dead letters. The address serves no content of records and
	// no operation that changes anything: Console.Contents and Console.Actions are refused. They are
	// accepted if HTTP is a loopback address or a socket all the same.
	HTTPExposed bool
	// Console is what the console of HTTP and of [App.Handler] shows and does beside its defaults.
	Console Console
	// NoControl runs the instance without its control socket. [InstanceStatus], [ResumeTask],
	// [RebuildTasks] and package txn/admin then cannot ask it anything. It is for systems that
	// allow no Unix domain socket, and for tests in a bubble of testing/synctest: a goroutine that
	// waits on a socket stops the bubble's clock.
	NoControl bool
	// Logger receives the logs of the runtime, of the Kafka clients and of the databases. Default
	// slog.Default.
	Logger *slog.Logger

	// metadataMax is lowered by tests.
	metadataMax int
	// emptyMax is how long a round that sends no record is held back, purgeInterval how often
	// repartition topics are purged. A build with failpoints lowers them.
	emptyMax, purgeInterval time.Duration
	// memberWatch is how often the member id is compared while nothing is committed.
	memberWatch time.Duration
	// databases changes the options of the databases, for tests.
	databases func(*pebblestore.Options)
	// peerNetwork replaces TCP between instances, for tests.
	peerNetwork struct {
		listen func() (net.Listener, error)
		dial   func(ctx context.Context, network, address string) (net.Conn, error)
	}
	// failpoints are set by tests, in builds with the tag onceward_failpoints.
	failpoints failpoint.Set
}

// ConfigError is a setting that cannot be used. Nothing was changed.
type ConfigError struct {
	Field, Reason string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("configuration: %s: %s", e.Field, e.Reason) }

// rackMax bounds the join data, which the group's coordinator keeps in one record.
const rackMax = 255

// standbyRateMin is the least rate of copies: a changelog is read in answers of up to 1 MiB.
const standbyRateMin = 64 << 10

// emptyMaxFailpoints replaces [worker.EmptyMaxDefault] in an application with failpoints, so that a
// round that sends no record reaches them soon.
const emptyMaxFailpoints = time.Second

func (c Config) withDefaults() Config {
	set(&c.Workers, runtime.GOMAXPROCS(0))
	set(&c.CommitIntervalMax, 100*time.Millisecond)
	set(&c.MarkersPerSecondMax, 4000)
	set(&c.RoundBytesMax, 16<<20)
	set(&c.QueueBytesMax, 4<<20)
	set(&c.Compression, Uncompressed)
	set(&c.OrderWaitMax, task.OrderWaitDefault)
	set(&c.CacheBytes, 256<<20)
	set(&c.RestoreBytesMax, 64<<20)
	set(&c.TransactionTimeout, 10*time.Second)
	set(&c.SessionTimeout, 45*time.Second)
	set(&c.ConnectTimeout, 60*time.Second)
	set(&c.metadataMax, task.MetadataMax)
	if c.failpoints.Armed() {
		set(&c.emptyMax, emptyMaxFailpoints)
		set(&c.purgeInterval, purge.IntervalFailpoints)
	}
	set(&c.emptyMax, worker.EmptyMaxDefault)
	set(&c.purgeInterval, purge.Interval)
	set(&c.memberWatch, session.MemberWatch)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	wrong := func(field, reason string) { errs = append(errs, &ConfigError{field, reason}) }
	if len(c.Brokers) == 0 {
		wrong("Brokers", "set at least one host:port")
	}
	for _, b := range c.Brokers {
		if !isHostPort(b) {
			wrong("Brokers", fmt.Sprintf("%q is not host:port", b))
		}
	}
	if c.StateDir == "" {
		wrong("StateDir", "set the directory for the instance's state")
	}
	for _, id := range [][2]string{{"Application", c.Application}, {"Instance", c.Instance}} {
		if strings.Contains(id[1], broker.IDSeparator) {
			wrong(id[0], fmt.Sprintf("%q contains %s, which separates the parts of transactional ids", id[1], broker.IDSeparator))
		}
	}
	if err := state.CheckInstance(c.Instance); c.Instance != "" && err != nil && !strings.Contains(c.Instance, broker.IDSeparator) {
		wrong("Instance", err.Error())
	}
	if c.Workers < 1 || c.Workers > 256 {
		wrong("Workers", fmt.Sprintf("%d is not between 1 and 256", c.Workers))
	}
	switch {
	case c.TransactionTimeout < time.Second:
		wrong("TransactionTimeout", fmt.Sprintf("%s is below 1s", c.TransactionTimeout))
	case c.CommitIntervalMax < time.Millisecond || c.CommitIntervalMax > c.TransactionTimeout/2:
		wrong("CommitIntervalMax", fmt.Sprintf("%s is not between 1ms and half of the transaction timeout of %s",
			c.CommitIntervalMax, c.TransactionTimeout))
	}
	if c.Console.Actions && c.Console.DeadLetters == nil {
		wrong("Console", "Actions redrives dead letters, and there is no access to them: set DeadLetters")
	}
	if c.HTTP != "" {
		address, err := endpoint.Parse(c.HTTP, c.HTTPExposed)
		if address.Exposed && (c.Console.Actions || c.Console.Contents) {
			wrong("Console", "every client that reaches an exposed HTTP address could act, or read records: serve App.Handler from a "+
				"server that controls the access, or leave out Contents and Actions")
		}
		if err != nil {
			wrong("HTTP", err.Error())
		}
	}
	c.validatePeers(wrong)
	if c.SessionTimeout < 0 {
		wrong("SessionTimeout", fmt.Sprintf("%s is negative", c.SessionTimeout))
	}
	if c.ConnectTimeout < 0 {
		wrong("ConnectTimeout", fmt.Sprintf("%s is negative", c.ConnectTimeout))
	}
	if c.CacheBytes < pebblestore.BudgetMin {
		wrong("CacheBytes", fmt.Sprintf("%d bytes is less than %d MiB", c.CacheBytes, pebblestore.BudgetMin>>20))
	}
	if c.RestoreBytesMax < restore.BytesMin {
		wrong("RestoreBytesMax", fmt.Sprintf("%d bytes is less than %d MiB", c.RestoreBytesMax, restore.BytesMin>>20))
	}
	if c.Standbys < 0 || c.Standbys > assign.StandbysMax {
		wrong("Standbys", fmt.Sprintf("%d is not between 0 and %d", c.Standbys, assign.StandbysMax))
	}
	if n := c.StandbyBytesPerSecondMax; n < 0 || n > 0 && n < standbyRateMin {
		wrong("StandbyBytesPerSecondMax", fmt.Sprintf("%d bytes a second are less than %d KiB; 0 is no bound", n, standbyRateMin>>10))
	}
	if c.StandbyDiskMax < 0 {
		wrong("StandbyDiskMax", fmt.Sprintf("%d bytes is negative; 0 is no bound", c.StandbyDiskMax))
	}
	if len(c.Rack) > rackMax {
		wrong("Rack", fmt.Sprintf("%d bytes are more than %d", len(c.Rack), rackMax))
	}
	if c.RoundBytesMax < 64<<10 {
		wrong("RoundBytesMax", "less than 64 KiB")
	}
	if c.QueueBytesMax < 64<<10 {
		wrong("QueueBytesMax", "less than 64 KiB")
	}
	if _, ok := broker.Compression(string(c.Compression)); !ok {
		wrong("Compression", fmt.Sprintf("%q is not none, gzip, snappy, lz4 or zstd", string(c.Compression)))
	}
	if c.InternalReplicas < 0 || c.InternalMinInSync < 0 {
		wrong("InternalReplicas", "a number of replicas is not negative")
	}
	if c.InternalReplicas > 0 && c.InternalMinInSync > int(c.InternalReplicas) {
		wrong("InternalMinInSync", fmt.Sprintf("%d is more than the %d replicas, so nothing could be written",
			c.InternalMinInSync, c.InternalReplicas))
	}
	if err := c.failpoints.Check(); err != nil {
		wrong("WithFailpoints", err.Error())
	}
	return errors.Join(append(errs, securityErrors(c.Security.Validate()))...)
}

// refused names the setting that the brokers refuse. Only the brokers know their limits, and they
// tell them only by a refusal.
func (c Config) refused(err error) error {
	switch {
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("the brokers refuse the session timeout of %s; set one between their group.min.session.timeout.ms (6 s by "+
			"default) and group.max.session.timeout.ms (30 min): %w", c.SessionTimeout, err)
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return fmt.Errorf("the brokers refuse the transaction timeout of %s; set one up to their transaction.max.timeout.ms (15 min by "+
			"default): %w", c.TransactionTimeout, err)
	}
	return err
}

// isHostPort reports whether the address has the form of a broker's address.
func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "" && n > 0
}

// securityErrors returns the mistakes of package security as those of a Config.
func securityErrors(err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if mistake, ok := errors.AsType[*security.Error](err); ok {
			err = &ConfigError{"Security." + mistake.Field, mistake.Reason}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
