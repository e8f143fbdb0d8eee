package restore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/task"
)

// changelog is the replay of one changelog: three goroutines with a chunk at a time between them.
//
//	fetch   asks for the next answer while the last one is decoded
//	fill    decodes answers, and copies what is below the target into a chunk
//	load    sorts chunks and writes them to the database, with the position behind them
type changelog struct {
	*opening
	Replay
	id     state.StoreID
	layout state.Layout
	// rows says that the store is not empty to begin with.
	rows bool
	// expired has the rows that cannot be read any more at the committed stream time, nil if there
	// are none.
	expired *state.Range
	rank    rank
	// row makes rows of the records of a source; digest is that of the ones in the store and those
	// that have been read, of the goroutine of fill.
	row    graph.RowReader
	digest int64
	hidden hidden
}

// filled is a chunk on its way to the database.
type filled struct {
	chunk *chunk
	pages int // that were taken for it
	// last is the offset of its last record, scanned the one from which to go on.
	last, scanned int64
	// digest is that of the records of a source that are in the store with it.
	digest int64
	// loaded counts it as loaded.
	loaded func()
}

// errGroup ends all of its goroutines with the first error.
type errGroup struct {
	all    sync.WaitGroup
	cancel context.CancelCauseFunc
	once   sync.Once
	err    error
}

func newGroup(ctx context.Context) (*errGroup, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &errGroup{cancel: cancel}, ctx
}

func (g *errGroup) Go(f func() error) {
	g.all.Go(func() {
		if err := f(); err != nil {
			g.once.Do(func() { g.err = err })
			g.cancel(err)
		}
	})
}

// Wait returns the first error when all have ended.
func (g *errGroup) Wait() error {
	g.all.Wait()
	g.cancel(nil)
	return g.err
}

// replay reads every changelog to its target.
func (o *opening) replay(ctx context.Context, replays []Replay) error {
	var remaining int64
	for _, c := range replays {
		remaining += max(c.Target-c.From, 0)
	}
	o.progress.Expect(time.Now(), remaining)
	rank := newRank(o.req.Standby, o.came, remaining)
	g, ctx := newGroup(ctx)
	for _, c := range replays {
		if c.From < c.Target || c.FromSource != nil {
			x := &changelog{opening: o, Replay: c, id: state.IDOf(c.Store), layout: o.layout(c.Store), rank: rank, rows: o.has(c.Store)}
			if expired, ok := x.layout.Expired(c.StreamTime); ok {
				x.expired = &expired
			}
			if c.FromSource != nil {
				g.Go(func() error { return x.fromSource(ctx) })
				continue
			}
			g.Go(func() error { return x.run(ctx) })
		}
	}
	return g.Wait()
}

func (x *changelog) run(ctx context.Context) error {
	answers, full := make(chan broker.Answer), make(chan filled)
	g, ctx := newGroup(ctx)
	g.Go(func() error { return x.fetch(ctx, answers) })
	g.Go(func() error {
		defer close(full)
		return x.fill(ctx, answers, full)
	})
	g.Go(func() error { return x.load(ctx, full) })
	return g.Wait()
}

// probeBytes bounds the answers of a changelog that had nothing to read: it has no seat.
const probeBytes = 64 << 10

// fetch sends answers until the target is reached, and then closes the channel. After an error it
// does not: fill takes the end for the target, and says so of what it has collected by then.
func (x *changelog) fetch(ctx context.Context, answers chan<- broker.Answer) error {
	stream := x.r.stream(x.Changelog, x.req.Task.Partition)
	defer stream.Close()
	seated := false
	stand := func() {
		if seated {
			x.r.budget.stand()
		}
		seated = false
	}
	defer stand()
	waiting := x.r.watchStable(x.Topic, x.req.Task)
	defer waiting.Over()
	blocked := false
	for at := x.From; at < x.Target; {
		if x.rank.standby {
			if err := x.mayRead(ctx, stand); err != nil {
				return err
			}
		}
		bytesMax := int32(probeBytes)
		if !blocked {
			if !seated {
				if err := x.r.budget.sit(ctx, x.rank); err != nil {
					return err
				}
				seated = true
			}
			bytesMax = fetchBytes
		}
		a, err := stream.Fetch(ctx, at, bytesMax)
		if err != nil {
			return err
		}
		if x.FromSource != nil && a.HasOldFormat() { // others may have written it long ago
			return x.notExact("it holds records in a format from before Kafka 0.11, which a restore does not read")
		}
		waiting.fetched(ctx, at, a.Next)
		if x.rank.standby {
			x.r.pace.took(a.Bytes()) // before another goroutine has the answer
		}
		if blocked = a.Next == at; blocked {
			stand()
			continue
		}
		select {
		case answers <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
		at = a.Next
		if x.rank.standby && x.r.budget.activeWaits() {
			stand() // a task that is to work comes first
		}
	}
	close(answers)
	return nil
}

// mayRead waits until a copy of a standby may read more, and says whether it may.
func (x *changelog) mayRead(ctx context.Context, stand func()) error {
	if x.r.pace.owes() {
		stand() // what pauses needs no seat
	}
	if err := x.r.pace.wait(ctx); err != nil {
		return err
	}
	if x.req.Room != nil {
		return x.req.Room(x.db)
	}
	return nil
}

// idleFlush is how long a chunk waits for more before it goes to the database as it is. Other
// restores may need the memory, and a restore that is killed continues behind the chunk.
const idleFlush = 500 * time.Millisecond

// filler is what fill works with.
type filler struct {
	*changelog
	ctx  context.Context
	full chan<- filled
	// chunk is what is collected, nil before a first record; taken is how many pages it was given,
	// its index included.
	chunk *chunk
	taken int
	last  int64
	// records and bytes were read since progress was told.
	records, bytes int64
}

// fill turns answers into chunks.
func (x *changelog) fill(ctx context.Context, answers <-chan broker.Answer, full chan<- filled) error {
	f := &filler{changelog: x, ctx: ctx, full: full}
	defer f.drop()
	decoder := batch.NewDecoder()
	at := x.From
	for {
		select {
		case a, ok := <-answers:
			if !ok {
				return f.flush(x.Target)
			}
			next, err := a.Decode(decoder, f.add)
			if err != nil {
				return fmt.Errorf("reading %s[%d]: %w", x.Topic, x.req.Task.Partition, err)
			}
			next = min(next, x.Target)
			x.progress.Add(time.Now(), f.records, f.bytes, next-at)
			f.records, f.bytes, at = 0, 0, next
		case <-time.After(idleFlush):
			if err := f.flush(at); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add copies a record into the chunk.
func (f *filler) add(r batch.Record) error {
	if r.Offset >= f.Target || brokenSkip(f.r.Failpoints, r.Offset, f.Target) {
		return nil
	}
	var err error
	if f.row != nil {
		err = f.addSourceRow(r.Key, r.Value, r.Timestamp, r.Offset)
	} else if f.layout.Kind == state.KeyValueKind { // whose rows are the records
		err = f.put(r.Key, r.Value, r.Offset)
	} else {
		err = f.addRow(r)
	}
	if err != nil {
		return err
	}
	f.digest = task.AddToDigest(f.digest, r.Offset)
	f.last = r.Offset // not before: a chunk that goes to the database on the way ends before this record
	f.records++
	f.bytes += int64(len(r.Key) + len(r.Value))
	return nil
}

// addRow copies the row of a record. A row that cannot be read any more at the committed stream
// time is left out: it would expire after the first round.
func (f *filler) addRow(r batch.Record) error {
	w, err := f.layout.Row(state.ChangelogRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
	if err != nil {
		return f.misfit(r.Offset, err)
	}
	if f.expired == nil || !f.expired.Contains(w.Key) {
		if w.Delete {
			w.Value = nil
		}
		if err := f.put(w.Key, w.Value, r.Offset); err != nil {
			return err
		}
	}
	if !f.rows {
		return nil
	}
	for key := range f.layout.Displaced(w.Key, f.StreamTime) {
		if err := f.put(key, nil, r.Offset); err != nil {
			return err
		}
	}
	return nil
}

// misfit stops a task of which a changelog holds what its store cannot have: another try would read
// the same.
func (x *changelog) misfit(offset int64, err error) error {
	return &StopError{
		Task: x.req.Task, Cause: err,
		Reason: fmt.Sprintf("the changelog %s[%d] holds at offset %d what a %s store does not write", x.Topic, x.req.Task.Partition, offset,
			x.layout.Kind),
		Recovery: recoveryActions(x.req.Task, "give the store the layout back that it had", "give it another name, under which it begins empty"),
	}
}

// put copies a write into the chunk; a nil value is a delete.
func (f *filler) put(key, value []byte, offset int64) error {
	if f.chunk == nil || !f.chunk.fits(key, value) || f.chunk.indexFull() {
		if err := f.room(key, value, offset); err != nil {
			return err
		}
	}
	f.chunk.add(key, value)
	return nil
}

// room makes room for a write, in the chunk that there is or in a new one.
func (f *filler) room(key, value []byte, offset int64) error {
	for {
		size, pages, index := 0, 0, 0
		if f.chunk == nil || !f.chunk.fits(key, value) {
			size = max(pageSize, writeMax+len(key)+len(value))
			pages = (size + pageSize - 1) / pageSize
		}
		switch {
		case f.chunk == nil:
			index = 1
		case f.chunk.indexFull():
			index = f.chunk.indexPages() // twice as many, so that each is copied once at most
		}
		given, err := f.take(pages + index)
		if err != nil {
			return err
		}
		if !given {
			if err := f.flush(offset); err != nil {
				return err
			}
			continue
		}
		if f.chunk == nil {
			f.chunk = &chunk{}
		}
		if index > 0 {
			f.r.budget.keepIndex(f.chunk.growIndex(f.r.budget.index(f.chunk.indexPages() + index)))
		}
		switch {
		case size == pageSize:
			f.chunk.grow(f.r.budget.page())
		case size > 0:
			f.chunk.grow(make([]byte, size))
		}
		return nil
	}
}

// take takes pages for the chunk, or says that it should go to the database as it is.
func (f *filler) take(pages int) (given bool, err error) {
	if f.chunk != nil && f.taken+pages > f.r.budget.chunkPages() {
		return false, nil
	}
	if given, err = f.r.budget.take(f.ctx, f.rank, pages, f.chunk != nil); given {
		f.taken += pages
	}
	return given, err
}

// flush sends the chunk to the database. Everything below scanned is in it, or in those before.
func (f *filler) flush(scanned int64) error {
	if f.chunk == nil {
		return nil
	}
	out := filled{chunk: f.chunk, pages: f.taken, last: f.last, scanned: scanned, digest: f.digest, loaded: f.r.budget.load()}
	select {
	case f.full <- out:
		f.chunk, f.taken = nil, 0
		return nil
	case <-f.ctx.Done():
		out.loaded()
		return f.ctx.Err()
	}
}

// drop gives the chunk back that did not come to be sent.
func (f *filler) drop() {
	if f.chunk != nil {
		f.r.budget.keep(f.chunk)
		f.r.budget.release(f.taken)
	}
}

// load writes chunks to the database. A restore that is cancelled takes in no more; what it has
// stays.
func (x *changelog) load(ctx context.Context, full <-chan filled) error {
	for f := range full {
		err := ctx.Err()
		if err == nil {
			f.chunk.sort()
			err = x.write(ctx, f)
		}
		x.r.budget.keep(f.chunk)
		x.r.budget.release(f.pages)
		f.loaded()
		if err != nil {
			return err
		}
	}
	return nil
}
