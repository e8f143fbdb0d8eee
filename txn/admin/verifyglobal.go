package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/control"
)

// The reasons why a store is left out.
var (
	errNoTopology = errors.New("it is read from its topic, whose records only the program can turn into rows: give the pipeline, " +
		"or use the command of the program")
	errOtherTopology = errors.New("it is read from its topic, and the given pipeline is not the one that ran last, whose rows can be others")
	errNotRead       = errors.New("nothing of its topic was read yet")
)

// errReadAgain says that a global table is not gone on with: its rows are those of another log.
var errReadAgain = errors.New("the next start reads the table again")

// GlobalTable reports whether the store is that of a global table, which is compared with its
// topic.
func (v Verification) GlobalTable() bool {
	return strings.HasPrefix(v.Task.Subtopology, control.GlobalPrefix)
}

// leftOut returns why a store without a changelog is not verified, nil if it is a global table that
// is.
func (v *verifier) leftOut(o *Verification) error {
	t := v.options.Topology
	switch {
	case !o.GlobalTable():
		return ErrFromSource
	case t == nil:
		return errNoTopology
	case t.Fingerprint() != v.state.Identity().Fingerprint:
		return errOtherTopology
	}
	return nil
}

// global compares a global table with its topic.
func (v *verifier) global(ctx context.Context, o *Verification) (err error) {
	at, named := o.Positions.Changelog(o.Store)
	if !named {
		o.Skipped = errNotRead
		return nil
	}
	tables := v.options.Topology.GlobalTables()
	i := slices.IndexFunc(tables, func(s graph.StoreInfo) bool { return s.Name == o.Store })
	if i < 0 || tables[i].RestoredFrom != o.Changelog {
		o.Skipped = errOtherTopology
		return nil
	}
	g := &globalReplay{intake: intake{verifier: v, outcome: o}, topic: v.topics[o.Changelog], row: tables[i].FromSource.Reader()}
	if err := g.begin(ctx, at.TopicID); err != nil {
		return err
	}
	if g.db, err = v.scratch.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.scratch.close(g.db)) }()
	if err := g.readTo(ctx, o.Positions, g.addRow); err != nil {
		return err
	}
	scan, err := g.catchUp(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	if err := g.readLater(ctx); err != nil {
		return err
	}
	return g.compare(scan)
}

// globalReplay is a topic, read into the scratch database. The partitions are kept apart: which of
// them a table has read last is not known, so that a key in several of them can have the row of
// any.
type globalReplay struct {
	intake
	topic broker.TopicInfo
	row   graph.RowReader
	logs  []*reading
	// start is where each partition begins, and at up to where it was read.
	start, at []int64
	// trimmed says that a partition has lost its beginning, and gone that deletions behind the
	// position may have vanished.
	trimmed, gone bool
}

// The stores of the scratch database beside laterID and one for each partition: all keys, and those
// of records that make no row.
var (
	keysID    = state.IDOf("keys")
	skippedID = state.IDOf("skipped")
)

// partitionID is the store of a partition: a byte that says whether there is a row, and the row.
func partitionID(p int) state.StoreID { return state.IDOf("partition-" + strconv.Itoa(p)) }

const (
	deletedRow byte = iota
	presentRow
)

// begin looks whether the log can be that of the table.
func (g *globalReplay) begin(ctx context.Context, id [16]byte) error {
	o := g.outcome
	switch {
	case g.topic.Name == "":
		return fmt.Errorf("topic %s does not exist", o.Changelog)
	case g.topic.ID != id:
		return fmt.Errorf("topic %s was deleted and created again: %w", o.Changelog, errReadAgain)
	}
	for p := range g.topic.Partitions {
		start, end, err := g.cluster.LogBounds(ctx, o.Changelog, p)
		if err != nil {
			return err
		}
		in, known := o.Positions.Input(o.Changelog, p)
		if known && (in.Offset < start || in.Offset > end) {
			return fmt.Errorf("%s[%d] has the offsets %d to %d, and the table is at %d: %w", o.Changelog, p, start, end, in.Offset, errReadAgain)
		}
		g.trimmed = g.trimmed || start > 0
		g.start, g.at = append(g.start, start), append(g.at, start)
		g.logs = append(g.logs, newReading(g.cluster, o.Changelog, id, p))
	}
	policy, known := g.topic.Settings["cleanup.policy"]
	g.trimmed = g.trimmed || !known || strings.Contains(policy.Value, "delete")
	return nil
}

// readTo reads each partition up to its position.
func (g *globalReplay) readTo(ctx context.Context, to state.Positions, take func(p int, rec *broker.Record) error) error {
	g.progress.Expect(time.Now(), g.left(to))
	for p := range g.logs {
		in, _ := to.Input(g.outcome.Changelog, int32(p))
		if err := g.read(ctx, p, in.Offset, take); err != nil {
			return err
		}
	}
	return g.pending.apply(g.db)
}

// left is how many offsets there are up to the positions.
func (g *globalReplay) left(to state.Positions) (n int64) {
	for p := range g.logs {
		in, _ := to.Input(g.outcome.Changelog, int32(p))
		n += max(in.Offset-g.at[p], 0)
	}
	return n
}

// read reads a partition up to an offset.
func (g *globalReplay) read(ctx context.Context, p int, to int64, take func(p int, rec *broker.Record) error) error {
	err := g.readLog(ctx, g.logs[p], g.at[p], to, func(rec *broker.Record) error { return take(p, rec) })
	if errors.Is(err, broker.ErrOffsetOutOfRange) {
		return fmt.Errorf("%s[%d] has lost its beginning while it was read; verify again: %w", g.outcome.Changelog, p, err)
	}
	g.at[p] = max(g.at[p], to)
	return err
}

// keyed makes the row of a record. The key is nil if no row depends on the record.
func (g *globalReplay) keyed(p int, rec *broker.Record) (w state.Write, made bool, err error) {
	w, made, err = g.row(rec.Key, rec.Value, rec.Timestamp.UnixMilli())
	if err != nil { // its text may quote the record
		return w, false, fmt.Errorf("the record at offset %d of %s[%d] cannot be read: an error of its codecs that is not about the record",
			rec.Offset, g.outcome.Changelog, p)
	}
	w.Key = bytes.Clone(w.Key)
	return w, made, nil
}

// addRow takes the row of a record.
func (g *globalReplay) addRow(p int, rec *broker.Record) error {
	w, made, err := g.keyed(p, rec)
	switch {
	case err != nil || w.Key == nil:
		return err
	case !made:
		g.put(skippedID, w.Key, nil)
		return nil
	case w.Delete:
		g.put(partitionID(p), w.Key, []byte{deletedRow})
	default:
		g.put(partitionID(p), w.Key, append([]byte{presentRow}, w.Value...))
	}
	g.put(keysID, w.Key, nil)
	return nil
}

// noteLater notes the key of a record behind the position.
func (g *globalReplay) noteLater(p int, rec *broker.Record) error {
	w, _, err := g.keyed(p, rec)
	if err == nil && w.Key != nil {
		g.put(laterID, w.Key, nil)
	}
	return err
}

func (g *globalReplay) put(store state.StoreID, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	g.pending.put(state.Write{Store: store, Key: key, Value: value})
}

// catchUp takes a view, once what is left to read up to it is little, and reads that.
func (g *globalReplay) catchUp(ctx context.Context) (*Scan, error) {
	o := g.outcome
	id, _ := o.Positions.Changelog(o.Store)
	for try := 1; ; try++ {
		scan, err := g.state.Scan(ctx, ScanRequest{Store: o.Store, Stale: true})
		if err != nil {
			return nil, err
		}
		done := g.left(scan.Positions) <= tailMax || try == tailTries
		now, _ := scan.Positions.Changelog(o.Store)
		switch {
		case now.TopicID != id.TopicID || g.beyond(scan.Positions):
			err = errors.New("the table was read again meanwhile; verify it again")
		case !done:
			err = scan.Close() // nothing is held while much is read
		}
		if err == nil {
			err = g.readTo(ctx, scan.Positions, g.addRow)
		}
		switch {
		case err != nil:
			return nil, errors.Join(err, scan.Close())
		case done:
			o.At, o.Position = scan.At, 0
			for p := range g.logs {
				in, _ := scan.Positions.Input(o.Changelog, int32(p))
				o.Position += in.Offset
			}
			return scan, nil
		}
	}
}

// beyond reports whether more was read than a table at these positions has.
func (g *globalReplay) beyond(at state.Positions) bool {
	for p := range g.logs {
		if in, known := at.Input(g.outcome.Changelog, int32(p)); g.at[p] > g.start[p] && (!known || in.Offset < g.at[p]) {
			return true
		}
	}
	return false
}

// readLater notes the keys that were written behind the view.
func (g *globalReplay) readLater(ctx context.Context) error {
	var ends []int64
	for p := range g.logs {
		end, err := g.cluster.StableEnd(ctx, g.outcome.Changelog, int32(p))
		if err != nil {
			return err
		}
		g.gone = g.gone || end > g.at[p] && tombstonesGone(g.topic, g.outcome.Positions.WrittenAt)
		ends = append(ends, end)
	}
	for p, end := range ends {
		if err := g.read(ctx, p, end, g.noteLater); err != nil {
			return err
		}
	}
	return g.pending.apply(g.db)
}

// compare goes through both sides in the order of the keys.
func (g *globalReplay) compare(scan *Scan) error {
	for s, err := range merged(scan.Rows(), g.db.Scan(keysID, state.Range{})) {
		if err != nil {
			return err
		}
		d := Difference{Kind: Missing, Key: s.b.Key}
		if s.order <= 0 {
			g.outcome.Rows++
			d = Difference{Kind: Extra, Key: s.a.Key, Local: s.a.Value}
		}
		equal, err := g.find(&d)
		if err == nil && !equal {
			err = g.judge(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find reports whether the row of a key is the one of a partition. Otherwise it says how the key
// differs.
func (g *globalReplay) find(d *Difference) (equal bool, err error) {
	for p := range g.logs {
		found, ok, err := g.db.Get(partitionID(p), d.Key)
		switch {
		case err != nil:
			return false, err
		case !ok:
		case found[0] == deletedRow && d.Local == nil, found[0] == presentRow && d.Local != nil && bytes.Equal(found[1:], d.Local):
			return true, nil
		case found[0] == presentRow:
			d.Changelog = bytes.Clone(found[1:])
		}
	}
	if d.Local != nil && d.Changelog != nil {
		d.Kind = OtherValue
	}
	return false, nil
}

// judge counts a difference, or an unknown result. The result is unknown in three cases. Compaction
// may have removed the record of the row: the key was written later, or has a record that makes no
// row and leaves the row as it is. The topic may have deleted the record. Or it was deleted by a
// tombstone behind the position, which may be gone.
func (g *globalReplay) judge(d Difference) error {
	o := g.outcome
	unknown := d.Kind == Extra && (g.trimmed || g.gone)
	for _, id := range []state.StoreID{laterID, skippedID} {
		_, found, err := g.db.Get(id, d.Key)
		if err != nil {
			return err
		}
		unknown = unknown || found
	}
	if unknown {
		o.Unjudged++
		return nil
	}
	if o.Differences++; len(o.First) < g.options.DifferencesMax {
		o.First = append(o.First, d)
	}
	return nil
}
