package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
)

// ErrFromSource says that a store has no changelog that it could be compared with: it is restored
// from its source topic (topology.RestoreFromTopic), whose records only the program can turn into
// rows.
var ErrFromSource = errors.New("the store is restored from its source topic, and has no changelog to compare it with")

// ErrChangelog says that a changelog does not have what the state was made of. It is gone, it is
// another one of that name, its beginning was deleted up to behind the position of the state, or it
// ends before the position. It wraps txn.ErrIntegrity.
var ErrChangelog = fmt.Errorf("%w: the changelog is not the one of this state", txn.ErrIntegrity)

// VerifyOptions are the options of Verify. The zero value verifies everything.
type VerifyOptions struct {
	// Task and Store leave out every other one, unless they are empty.
	Task, Store string
	// Topology is the one that ran last, for its global tables. Without it they are left out.
	Topology *topology.Topology
	// Scratch is a directory for what is read from a changelog: about as large as the store, one
	// store at a time. It is made and removed again; what a killed process left in it is removed as
	// well. Default is the state directory's path with ".verify" behind it.
	Scratch string
	// DifferencesMax is how many differences of a store are returned, the first by the order of the
	// keys. Default 10.
	DifferencesMax int
	// Progress is told the progress of reading a changelog, a few times a second at most and at its
	// end. Records that a running instance writes to the changelog meanwhile are read after that,
	// as another such reading of the same store.
	Progress func(Progress)
}

// Verification is the outcome for one store of one task.
type Verification struct {
	// Layout says what the rows of Store are.
	Layout state.Layout
	// At is what was verified.
	At
	Store, Changelog string
	// Position is up to where the changelog was read, Start where it begins. Of a global table
	// Position is the sum over the partitions of its topic, and Start is 0.
	Start, Position int64
	// Rows is the number of rows in the state.
	Rows int64
	// Differences counts the keys that differ, First has some of them.
	Differences int64
	First       []Difference
	// Unjudged counts the keys that differ in a way that cannot be judged. Either the changelog was
	// written past Position since, and compaction may have removed older records. Or only the state
	// has the row, and it is so old by the clock that the broker may have deleted or compacted its
	// record. The store goes by its stream time and still has it. Expired rows are not counted at
	// all: they are not read, and each side may have them or not.
	Unjudged int64
	// Unused says that the state names no position in the changelog: the topology that ran last
	// does not have the store, and what is left of it was not looked at.
	Unused bool
	// Skipped is why the store was left out, nil if it was not: there is no changelog to compare it
	// with. See ErrFromSource and VerifyOptions.Topology.
	Skipped error
	// Err is why the store could not be verified, nil if it was.
	Err error
}

// Equal reports whether the state is what the changelog says, and nothing of it is unknown. It is
// true for a store that is unused or left out.
func (v Verification) Equal() bool { return v.Err == nil && v.Differences == 0 && v.Unjudged == 0 }

// Kind says how a key differs.
type Kind string

// The kinds of difference.
const (
	// Missing: the changelog has the key, the state does not.
	Missing Kind = "missing"
	// Extra: the state has the key, the changelog does not.
	Extra Kind = "extra"
	// OtherValue: both have the key, with different values.
	OtherValue Kind = "value"
)

// Difference is one key that differs. A value that is not there is nil.
type Difference struct {
	Kind             Kind
	Key              []byte
	Local, Changelog []byte
}

// row is the value of whichever side has one.
func (d *Difference) row() []byte {
	if d.Local != nil {
		return d.Local
	}
	return d.Changelog
}

// Verify compares state with a fresh replay of its changelogs up to the position that the state
// names, store by store, and returns one outcome for each. The memory that it needs does not depend
// on the size of the stores.
//
// A store in memory can be verified while its instance runs; see ErrInMemory. A global table is
// compared with its topic if the options have the topology. A store that is LostOnRestart has no
// changelog: it is left out, and its name in the options is an error.
//
// Of a running instance, each store is compared in one view; no view is held while most of its
// changelog is read. A store whose task is being restored cannot be verified.
//
// An error means that the cluster or the directory cannot be read; what goes wrong with one store
// is in its outcome. When ctx ends, that is the error.
func (c *Client) Verify(ctx context.Context, s *State, o VerifyOptions) (_ []Verification, err error) {
	if o.DifferencesMax <= 0 {
		o.DifferencesMax = 10
	}
	o.Scratch = cmp.Or(o.Scratch, s.path+".verify")
	tasks, err := s.Tasks(ctx, Names)
	if err != nil {
		return nil, err
	}
	scratch, err := newScratch(o.Scratch)
	if err != nil {
		return nil, fmt.Errorf("a directory to replay into: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.remove()) }()
	cluster, err := broker.Connect(ctx, c.cfg, s.identity.Application)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	if err := c.checkCluster(ctx, s); err != nil {
		return nil, err
	}
	v := &verifier{cluster: cluster, state: s, options: o, scratch: scratch}
	return v.tasks(ctx, tasks)
}

// verifier verifies one store after the other.
type verifier struct {
	cluster *broker.Cluster
	state   *State
	options VerifyOptions
	scratch *scratch
	topics  map[string]broker.TopicInfo
}

func (v *verifier) tasks(ctx context.Context, tasks []TaskState) ([]Verification, error) {
	var outcomes []Verification
	var changelogs []string
	for _, t := range tasks {
		if v.options.Task != "" && v.options.Task != t.Task.String() {
			continue
		}
		if t.Stores == nil && t.Stale != nil {
			outcomes = append(outcomes, Verification{At: t.At, Err: t.Stale})
		}
		for _, s := range t.Stores {
			if v.options.Store == "" && s.Changelog != "" || v.options.Store == s.Name {
				outcomes = append(outcomes, Verification{At: t.At, Store: s.Name, Layout: s.Layout, Changelog: s.Changelog})
				switch {
				case s.Changelog == "":
					outcomes[len(outcomes)-1].Err = ErrLostOnRestart
					continue
				case s.FromSource:
					o := &outcomes[len(outcomes)-1]
					o.Skipped = v.leftOut(o)
				case s.InMemory && !v.state.Running():
					outcomes[len(outcomes)-1].Err = ErrInMemory
				}
				changelogs = append(changelogs, s.Changelog)
			}
		}
	}
	slices.Sort(changelogs)
	var hidden []string
	var err error
	if v.topics, hidden, err = v.cluster.Topics(ctx, slices.Compact(changelogs)); err != nil {
		return nil, err
	}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Err != nil || o.Skipped != nil {
			continue
		}
		o.Err = v.store(ctx, o, slices.Contains(hidden, o.Changelog))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return outcomes, nil
}

// store verifies one store of one task into its outcome.
func (v *verifier) store(ctx context.Context, o *Verification, hidden bool) error {
	switch {
	case errors.Is(o.Stale, txn.ErrRestoring):
		return o.Stale // its positions are on their way, and say nothing of the changelog
	case o.GlobalTable() && !hidden:
		return v.global(ctx, o)
	}
	at, named := o.Positions.Changelog(o.Store)
	if !named {
		o.Unused = true
		return nil
	}
	o.Position = position(at)
	if hidden {
		return fmt.Errorf("reading %s is not allowed: grant Read on it, or verify as the application's principal", o.Changelog)
	}
	for try := 1; ; try++ {
		if err := v.attempt(ctx, o); !errors.Is(err, errOvertaken) || try == replaysMax {
			return err
		}
	}
}

// replaysMax is how often a replay is begun whose changelog deletes its beginning meanwhile.
const replaysMax = 5

// attempt replays the changelog of a store, and compares.
func (v *verifier) attempt(ctx context.Context, o *Verification) (err error) {
	at, _ := o.Positions.Changelog(o.Store)
	r := &replay{intake: intake{verifier: v, outcome: o}, topicID: at.TopicID, rows: position(at), later: position(at)}
	if err := r.check(ctx); err != nil {
		return err
	}
	if r.db, err = v.scratch.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.scratch.close(r.db)) }()
	r.log = newReading(v.cluster, o.Changelog, at.TopicID, o.Task.Partition)
	if err := r.read(ctx, o.Start, r.rows, r.addRow); err != nil {
		return err
	}
	scan, err := r.catchUp(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	r.before, r.gone = r.lostBefore(time.Now()), r.deletionsGone()
	return r.compare(scan)
}

// position is up to where a state contains its changelog. A restore can be past the last record
// that it has applied.
func position(c state.Changelog) int64 { return max(c.Applied, c.Scanned) }

// replay is one changelog, read into the scratch database.
type replay struct {
	intake
	topicID [16]byte
	log     *reading
	// rows is up to where records were made rows. later is up to where keys were noted that were
	// written past rows.
	rows, later int64
	stable      int64
	// before and gone are what lostBefore and deletionsGone say of the view that is compared.
	before int64
	gone   bool
}

// A high watermark below the position is believed only when it stays there: a new leader may not
// know its own yet.
const (
	watermarkReadings = 3
	watermarkPause    = time.Second
)

// check finds the bounds of the changelog, and whether it can be that of the state at all.
func (r *replay) check(ctx context.Context) error {
	o := r.outcome
	topic, found := r.topics[o.Changelog]
	switch {
	case !found:
		return fmt.Errorf("%w: %s does not exist", ErrChangelog, o.Changelog)
	case topic.ID != r.topicID:
		return fmt.Errorf("%w: %s has the topic id %x, the state was made with %x: it was deleted and recreated",
			ErrChangelog, o.Changelog, topic.ID, r.topicID)
	case o.Task.Partition >= topic.Partitions:
		return fmt.Errorf("%w: %s has %d partitions", ErrChangelog, o.Changelog, topic.Partitions)
	}
	for reading := 1; ; reading++ {
		start, end, err := r.cluster.LogBounds(ctx, o.Changelog, o.Task.Partition)
		if err != nil {
			return err
		}
		o.Start = start
		switch {
		case start > r.rows && !r.deletes():
			return fmt.Errorf("%w: %s[%d] begins at %d, the state is at %d: the records that it was made of were deleted",
				ErrChangelog, o.Changelog, o.Task.Partition, start, r.rows)
		case end >= r.rows:
			return nil
		case reading == watermarkReadings:
			return fmt.Errorf("%w: %s[%d] ends at %d, the state is at %d: records were lost",
				ErrChangelog, o.Changelog, o.Task.Partition, end, r.rows)
		}
		if err := backoff.Sleep(ctx, watermarkPause); err != nil {
			return err
		}
	}
}

// tailMax is how many offsets are read at most while a view is held: a running instance cannot give
// space free meanwhile. tailTries is how often the reading runs after an instance that writes
// faster.
const (
	tailMax   = 100_000
	tailTries = 5
)

// catchUp takes a view, once what is left to read up to it and behind it is little, and reads that.
// Without running, the first is taken.
func (r *replay) catchUp(ctx context.Context) (*Scan, error) {
	o := r.outcome
	for try := 1; ; try++ {
		scan, err := r.state.Scan(ctx, ScanRequest{Store: o.Store, Partition: o.Task.Partition, Stale: true})
		if err != nil {
			return nil, err
		}
		left, err := r.behind(ctx, scan)
		done := err == nil && (left <= tailMax || try == tailTries)
		if err == nil && !done {
			err = scan.Close() // nothing is held while much is read
		}
		if err == nil {
			err = r.advance(ctx)
		}
		switch {
		case err != nil:
			return nil, errors.Join(err, scan.Close())
		case done:
			return scan, nil
		}
	}
}

// behind takes over the position of a scan, and returns how much is to be read for it.
func (r *replay) behind(ctx context.Context, scan *Scan) (left int64, err error) {
	o := r.outcome
	if errors.Is(scan.Stale, txn.ErrRestoring) {
		return 0, scan.Stale
	}
	at, _ := scan.Positions.Changelog(o.Store)
	if at.TopicID != r.topicID || position(at) < r.rows {
		return 0, errors.New("the state was restored again meanwhile; verify it again")
	}
	o.At, o.Position = scan.At, position(at)
	if r.stable, err = r.cluster.StableEnd(ctx, o.Changelog, o.Task.Partition); err != nil {
		return 0, err
	}
	return o.Position - r.rows + max(r.stable-max(r.later, o.Position), 0), nil
}

// advance reads up to the position of the scan, and notes the keys behind it.
func (r *replay) advance(ctx context.Context) error {
	position := r.outcome.Position
	if err := r.read(ctx, r.rows, position, r.addRow); err != nil {
		return err
	}
	r.rows, r.later = position, max(r.later, position)
	if err := r.read(ctx, r.later, r.stable, r.noteLater); err != nil {
		return err
	}
	r.later = max(r.later, r.stable)
	return nil
}

// tombstoneMargin of its retention is how long a tombstone is relied on.
const tombstoneMargin = 0.8

// deletionsGone reports whether keys that were deleted past the position may have vanished from the
// changelog without a trace.
func (r *replay) deletionsGone() bool {
	o := r.outcome
	return r.stable > o.Position && tombstonesGone(r.topics[o.Changelog], o.Positions.WrittenAt)
}

// tombstonesGone reports whether tombstones that were written since a time, in milliseconds since
// the epoch, may be gone.
func tombstonesGone(t broker.TopicInfo, since int64) bool {
	millis, err := strconv.ParseInt(t.Settings["delete.retention.ms"].Value, 10, 64)
	if err != nil {
		millis = (24 * time.Hour).Milliseconds() // Kafka's default, where the setting may not be seen
	}
	return time.Since(time.UnixMilli(since)) > time.Duration(tombstoneMargin*float64(millis))*time.Millisecond
}
