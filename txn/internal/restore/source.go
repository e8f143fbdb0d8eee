package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/topics"
)

// A table can be restored from the topic that it is read from (topology.RestoreFromTopic): the
// partition stands in for the changelog, and the committed offset of the input for its target. Two
// things are not as with a changelog. Others write the topic, and go on behind the commit. And if
// it is compacted, a value that the table has at the commit may be gone because of a newer one
// behind it. So a restore has to show that nothing is missing. It does so in one of two ways.
//
// By digest: positions contain a digest of the offsets that the store has taken of the partition,
// in the place of a stream time, and so does the commit. Two readings with the same digest have
// read the same records, whatever the configuration, clocks and compaction have done, and on
// whichever replica. This covers every restart that continues at its database, unless the log was
// compacted there, and every restore from a topic that is not compacted. A count of records would
// not be enough: replicas compact by themselves, and one that has fewer records of one key can have
// more of another.
//
// By age, for a store that is restored in full. Kafka's cleaner looks for newer values up to the
// first of these: the last stable offset, the active segment, the first segment with a timestamp
// younger than min.compaction.lag.ms. It removes records because of these values only. So no value
// at the commit or behind it has removed a record in two cases: nothing stable is there, or the
// batch at the commit is younger than the lag. In the second case its segment is younger too, and
// the cleaner has never been in it. The restore checks this after it has read everything, and the
// result holds for what was read.
//
// A key with several byte forms is several keys for the cleaner and one for the table. A deletion
// that is gone can have been of a value that is still there. So positions and commits also say that
// there was such a form, as they say what was taken.
//
// A record that the codecs refuse is a value for the cleaner and none for the table. So the last
// record of a key must not be one that is that old; otherwise the value before it cannot be known.
//
// The check holds for the timestamps of producers too, because the cleaner uses these; old ones are
// refused. Replicas clean by their own clocks: a fifth of the lag is left to differences between
// clocks.

// ageMargin of the compaction lag is how old the batch at the commit may be.
const ageMargin = 0.8

// fromSource restores a store from its source, and shows that nothing is missing.
func (x *changelog) fromSource(ctx context.Context) error {
	x.row, x.digest = x.FromSource.Reader(), x.Digest
	began := time.Now()
	if err := x.read(ctx); err != nil || task.SameRecords(x.digest, x.StreamTime) {
		return err
	}
	if !task.SameRecords(x.Digest, task.EmptyDigest(x.StreamTime)) || x.From > x.LogStart { // only the rest was read
		if err := x.beginAgain(); err != nil {
			return err
		}
		began = time.Now()
		if err := x.read(ctx); err != nil || task.SameRecords(x.digest, x.StreamTime) {
			return err
		}
	}
	return x.checkAge(ctx, began)
}

// read reads from From on to the target.
func (x *changelog) read(ctx context.Context) error {
	if x.From >= x.Target {
		return nil
	}
	return x.run(ctx)
}

// beginAgain empties the store of which some records that it has not taken are gone.
func (x *changelog) beginAgain() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.full = cmp.Or(x.full, Incomplete)
	x.log.Warn("a store is restored in full", "store", x.Store, "cause", Incomplete, "reason", fmt.Sprintf(
		"%s[%d] has not all records any more that were taken from %d to %d", x.Topic, x.req.Task.Partition, x.From, x.Target))
	base := x.db.Positions()
	next := base.Clone()
	next.SetChangelog(state.Changelog{Store: x.Store, TopicID: x.TopicID})
	if err := x.db.Remove(base, next, x.id, state.Range{}); err != nil {
		return fmt.Errorf("emptying store %s: %w", x.Store, &writeError{err})
	}
	x.From, x.Digest = x.LogStart, task.EmptyDigest(x.StreamTime)
	x.digest, x.hidden = x.Digest, hidden{}
	return nil
}

// checkAge stops the task unless what was read of the log from its beginning on is the table of the
// commit.
func (x *changelog) checkAge(ctx context.Context, began time.Time) error {
	p := x.req.Task.Partition
	start, _, err := x.r.Cluster.LogBounds(ctx, x.Topic, p)
	if err != nil {
		return err
	}
	if start > 0 {
		return x.notExact(fmt.Sprintf("its log begins at %d", start))
	}
	// As it is now: the session may have begun long before. A setting that was changed and changed
	// back in between is not seen.
	now, err := topics.Describe(ctx, x.r.Cluster, x.Topic)
	if err != nil {
		return err
	}
	if now.ID != x.TopicID {
		return x.notExact("it was deleted and created again")
	}
	if x.Compacted {
		now.CompactionLag = min(now.CompactionLag, x.CompactionLag)
	}
	x.Compacted, x.DeleteRetention, x.CompactionLag = now.Compacted, now.DeleteRetention, now.CompactionLag
	if !x.Compacted { // but another process must have removed them
		return x.notExact("it has not the records any more that the store has taken, although it is not compacted")
	}
	if task.HasOtherForms(x.StreamTime) && !brokenAge(x.r.Failpoints) {
		return x.notExact("it was compacted, and has had keys in other bytes than their codec writes, which compaction takes for other keys")
	}
	if took := time.Since(began); took > time.Duration(tombstoneMargin*float64(x.DeleteRetention)) {
		return x.notExact(fmt.Sprintf("reading it took %s, and it keeps deletions for %s (delete.retention.ms)", took.Round(time.Second),
			x.DeleteRetention))
	}
	old := func(timestamp int64) bool { return !x.young(time.Since(time.UnixMilli(timestamp))) }
	if n := x.hidden.count(old); n > 0 && !brokenAge(x.r.Failpoints) {
		return x.notExact(fmt.Sprintf("%d of its keys at least end with a record that its codecs do not take, for which compaction may have taken out "+
			"the value before", n))
	}
	why, err := x.compactedBehind(ctx)
	if err != nil || why == "" {
		return err
	}
	return x.notExact(why)
}

// compactedBehind says why compaction may have been at the target or behind it, nothing if it has
// not.
func (x *changelog) compactedBehind(ctx context.Context) (why string, err error) {
	p := x.req.Task.Partition
	s := x.r.stream(x.Changelog, p)
	defer s.Close()
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		stable, err := x.r.Cluster.StableEnd(ctx, x.Topic, p)
		if err != nil {
			return "", err
		}
		if stable <= x.Target || brokenAge(x.r.Failpoints) {
			return "", nil
		}
		a, err := s.Fetch(ctx, x.Target, probeBytes)
		if err != nil {
			return "", err
		}
		if a.Next > x.Target {
			newest, there := a.NewestAt(x.Target)
			age := time.Since(time.UnixMilli(newest))
			switch {
			case !there:
				return fmt.Sprintf("what followed offset %d was compacted", x.Target), nil
			case !x.young(age):
				return fmt.Sprintf("what follows offset %d is %s old and may have been compacted, which min.compaction.lag.ms holds off for %s",
					x.Target, age.Round(time.Second), x.CompactionLag), nil
			}
			return "", nil
		}
		if err := pause.Wait(ctx); err != nil { // a new leader does not know the last stable offset yet
			return "", err
		}
	}
}

// young reports whether a record or a batch of that age has never been compacted.
func (c Changelog) young(age time.Duration) bool {
	return age < time.Duration(ageMargin*float64(c.CompactionLag))
}

// ErrNotExact is the cause of a task's stop where a topic cannot give back a table.
var ErrNotExact = errors.New("the topic does not show that it still holds the table as of the committed offset")

func (x *changelog) notExact(why string) error {
	return &StopError{
		Task: x.req.Task, Cause: ErrNotExact,
		Reason:   fmt.Sprintf("store %s is restored from %s[%d], and %s", x.Store, x.Topic, x.req.Task.Partition, why),
		Recovery: recoveryActions(x.req.Task, "start the instance that has its database", fromInput),
	}
}

// addSourceRow copies the row that a record of the source makes, if it makes one.
func (f *filler) addSourceRow(key, value []byte, timestamp, offset int64) error {
	w, ok, err := f.row(key, value, timestamp)
	switch {
	case err != nil:
		// Its text may quote the record.
		return fmt.Errorf("store %s: the record at %s[%d] offset %d cannot be read: a %s error of its codecs", f.Store, f.Topic,
			f.req.Task.Partition, offset, topology.ClassOf(err))
	case !ok:
		if w.Key != nil {
			f.hidden.add(key, timestamp)
		}
		return nil
	}
	f.hidden.remove(key)
	if w.Delete {
		w.Value = nil
	}
	return f.put(w.Key, w.Value, offset)
}

// hidden are the keys in the topic whose last record makes no row, because the codecs refuse it,
// with the time of that record. If the record is old enough, compaction can have removed the one
// before it. hidden belongs to the goroutine of fill.
type hidden struct {
	keys map[string]int64
	// more has the oldest time of those that are too many to remember, if there are any.
	more    bool
	moreOld int64
}

// hiddenMax bounds the memory for what should be rare.
const hiddenMax = 10_000

func (h *hidden) add(key []byte, timestamp int64) {
	if _, known := h.keys[string(key)]; !known && len(h.keys) == hiddenMax {
		if !h.more || timestamp < h.moreOld {
			h.more, h.moreOld = true, timestamp
		}
		return
	}
	if h.keys == nil {
		h.keys = map[string]int64{}
	}
	h.keys[string(key)] = timestamp
}

// count returns how many there are at least that are old.
func (h *hidden) count(old func(timestamp int64) bool) (n int) {
	for _, timestamp := range h.keys {
		if old(timestamp) {
			n++
		}
	}
	if h.more && old(h.moreOld) {
		n++
	}
	return n
}

func (h *hidden) remove(key []byte) {
	if len(h.keys) > 0 {
		delete(h.keys, string(key))
	}
}

// checkSources stops a task of which a store is restored from its source and would not have begun
// at its beginning.
func (f Found) checkSources() error {
	for _, c := range f.Changelogs {
		if c.FromSource == nil {
			continue
		}
		if f.Rebuilding {
			return f.stop("a rebuild from input was interrupted", fromInputAgain)
		}
		if f.Commit == nil && f.anyCommitted() {
			return f.stop("the committed offsets carry no metadata of this application, so that it cannot be told which state of store "+
				c.Store+" belongs to them", fromInput)
		}
		if _, known := f.Commit.Target(c.Store); known {
			continue
		}
		if c.LogStart > 0 {
			return &StopError{
				Task: f.Task, Cause: ErrNotExact, Reason: fmt.Sprintf(
					"store %s would be restored from %s[%d], whose log begins at %d: what comes before cannot be told from what was processed",
					c.Store, c.Topic, f.Task.Partition, c.LogStart),
				Recovery: recoveryActions(f.Task, "copy the topic to a new one", "leave RestoreFromTopic out"),
			}
		}
		if c.Taken > 0 {
			return f.stop(fmt.Sprintf("store %s would be restored from %s[%d], of which the task has processed all up to %d without it",
				c.Store, c.Topic, f.Task.Partition, c.Taken), fromInput, "leave RestoreFromTopic out")
		}
	}
	return nil
}

// firstDigest returns the digest with which a store begins that is restored from its source, 0 for
// one that has a changelog.
func (f Found) firstDigest(c Changelog) int64 {
	if c.FromSource == nil {
		return 0
	}
	return task.FirstDigest(f.Now)
}

// taken returns up to where the task has taken an input.
func (f Found) taken(topic string) int64 {
	for _, in := range f.Inputs {
		switch {
		case in.Topic != topic:
		case in.Committed >= 0:
			return in.Committed
		default:
			return in.Start
		}
	}
	return 0
}
