package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/hangwatch"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Config is what a session needs of its process. It is the same for all sessions of a process but
// for Topology, Layout and Left.
type Config struct {
	// Topology has the topics that its sources by pattern read in this session.
	Topology *topology.Topology
	// Mode says why records are processed. Modes are those of commits with which the session goes
	// on, this one included.
	Mode  topology.Mode
	Modes []topology.Mode

	// The settings of package txn, by the same names.
	Workers                                                             int
	TransactionTimeout, SessionTimeout, CommitIntervalMax, OrderWaitMax time.Duration
	MaxFutureTimestamp                                                  time.Duration
	RoundBytesMax, QueueBytesMax, RestoreBytesMax                       int64
	// StandbyBytesPerSecond and StandbyDiskMax bound all copies of standbys; zero is no bound.
	StandbyBytesPerSecond, StandbyDiskMax int64
	FailFast, Remain, AcceptLostRows      bool
	// MetadataMax is the longest metadata text that goes into an offset commit.
	MetadataMax int
	// EmptyMax is how long a round that sends no record is held back, PurgeInterval how often
	// repartition topics are purged, MemberWatch how often the member id is compared while nothing
	// is committed.
	EmptyMax, PurgeInterval, MemberWatch time.Duration
	// Databases changes the options of the databases; nil changes nothing.
	Databases func(*pebblestore.Options)
	// Globals are the global tables of the process; nil if the topology has none.
	Globals *globaltable.Tables

	// The rest of the process, which outlives a session.

	Cluster     *broker.Cluster
	Broker      broker.Config
	Starts      *broker.Starts
	Directory   *state.Directory
	Shared      *pebblestore.Shared
	Budget      *worker.Budget
	Waits       *waits.Waits
	HangWatch   *hangwatch.Watch
	Self        *assign.Self
	Rebuilds    *opening.Rebuilds // nil in tests that ask for nothing
	Incarnation uint32
	Fingerprint [8]byte
	// Layout is how the topics are, as verified before this session.
	Layout topics.Layout
	// Left is what the session before has left.
	Left Left

	Logger     *slog.Logger
	Metrics    *metrics.Metrics
	Failpoints failpoint.Set

	// The session tells its process by these functions. None may block.

	// Joined is told the member id, also again.
	Joined func(member string)
	// Planned is told each plan of the group, before the callbacks that it leads to.
	Planned func(plan assign.Plan)
	// Over is told that this member has done its part of the plan: it has given up what moves to
	// others, or has left the group. Nil in tests that plan nothing.
	Over func()
	// Alert is told all that is wrong with topics now.
	Alert func(problems []topics.Problem)
	// Reconnecting is told why the membership ends if another one follows, Stopping that none does.
	Reconnecting func(why error)
	Stopping     func()
}

// Left is what a session leaves for the next one, and for the end of the process.
type Left struct {
	// Member is the id of the member that stays in the group; empty if none does.
	Member string
	// Nothing says that there is neither an open transaction nor a member that others have to wait
	// for.
	Nothing bool
}

// leaveWait is how long a stop tries to leave the group while its coordinator is away. The client
// tries again by itself.
const leaveWait = 10 * time.Second

// Leave takes the member out of the group that a session has left there, if the process ends
// instead of beginning another session.
func Leave(ctx context.Context, cfg Config, left Left) (Left, error) {
	if left.Member == "" || cfg.Remain {
		return left, nil
	}
	err := cfg.leaveGroup(ctx, left.Member)
	left.Nothing = err == nil
	return left, err
}

// leaveGroup takes a member of this instance out of the group, also after ctx has ended, and tells the others.
func (c *Config) leaveGroup(ctx context.Context, member string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
	defer cancel()
	left, err := c.Cluster.LeaveGroup(ctx, member, c.Directory.Instance())
	_ = c.Failpoints.Hit(ctx, failpoint.LeaveAfter)
	if left {
		c.planOver()
	}
	return err
}
