package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/queries"
	"github.com/onceward/onceward/txn/internal/session"
)

// ErrNotServing says that a partition of a store cannot be read now: in this process ([Read]), or
// at the instance that has its task ([Query]). It passes, as a rule: a caller of Query asks again.
// By itself it says that the partition is not assigned, is about to move, or that its instance
// cannot be reached. [Read] also returns it for a partition that does not exist. ErrRestoring,
// ErrTaskStopped, ErrInDoubt, ErrBehind and ErrOwnershipLost are one more reason each and wrap it. There
// are no others.
var ErrNotServing = session.ErrNotServing

var (
	// ErrRestoring says that the task is being brought to its last commit.
	ErrRestoring = session.ErrRestoring
	// ErrTaskStopped says that the task does no work any more. Why it stopped is wrapped with it.
	ErrTaskStopped = session.ErrTaskStopped
	// ErrInDoubt says that a commit of the task was sent more than five seconds ago and has no
	// definite answer yet. Readers of the output may see records that the store does not contain.
	ErrInDoubt = session.ErrInDoubt
	// ErrBehind says that the state does not contain the record of [AtLeast] yet.
	ErrBehind = session.ErrBehind
	// ErrOwnershipLost says that the process knows the task to be another member's, or that it has
	// joined the group as a new member since the task was opened. Another process may have
	// continued with the task.
	ErrOwnershipLost = session.ErrOwnershipLost
)

// ErrUnknownPartition says that a store has no partition of the number that a [Query] names. It does
// not wrap ErrNotServing: the next answer is the same.
var ErrUnknownPartition = session.ErrUnknownPartition

// Epoch names one ownership of a task by one process. Views of a partition that carry the same
// epoch come from one owner, and no other process owned the task in between. Epochs are compared
// for equality; they have no order.
type Epoch struct {
	// Member is the id under which the process was in the group when the task was opened.
	Member string
	// Revokes counts how often the task was taken from that member before.
	Revokes uint64
}

// String returns "member/revokes", or "none" for the zero value.
func (e Epoch) String() string {
	if e == (Epoch{}) {
		return "none"
	}
	return fmt.Sprintf("%s/%d", e.Member, e.Revokes)
}

// View is a consistent picture of one partition of a store: committed state only, at the position
// that it carries. S is how the kind of store is read: state.KeyValue, state.Window and so on. A
// View may be used from one goroutine and must be closed. It stays as it is while the task goes on.
// When the task is closed, because it moves for example, reading the view fails with ErrNotServing
// and state.ErrClosed. So does reading the view of an instance that is gone, with ErrNotServing.
type View[S any] struct {
	store  S
	served served
}

// served is a view with what goes along with it.
type served struct {
	view state.View
	at   queries.At
	// stale is why the view is not served as current, nil if it is.
	stale error
}

// ReadOption is an option of [Read] and [Query].
type ReadOption interface{ applyRead(*readSettings) }

type readSettings struct {
	stale   bool
	standby time.Duration
	atLeast []queries.Bound
}

// request is what a place of a store is asked for with these options.
func request(store string, at Place, options []ReadOption) queries.Request {
	var s readSettings
	for _, o := range options {
		o.applyRead(&s)
	}
	return queries.Request{
		Store: store, Partition: at.partition, RecordKey: at.key, Stale: s.stale, Standby: s.standby, AtLeast: s.atLeast,
	}
}

type readOption func(*readSettings)

func (o readOption) applyRead(s *readSettings) { o(s) }

// Stale makes [Read] serve any state of the partition that this process has open: while a commit is
// in doubt, after the task has stopped or was lost, and while it is restored. [View.WhyStale] says
// which of these it was, and [View.Positions] how far the state is.
//
// Every value is still one that was committed. But the state of a task that is being restored
// belongs to no single moment. Each changelog is at a position of its own, later keys are missing,
// and rows that were deleted later are there. A store whose rows expire is as it was when the
// restore began, and shows nothing newer. [View.Round] is then the round that the database was at
// when the restore began.
func Stale() ReadOption { return readOption(func(s *readSettings) { s.stale = true }) }

// AtLeast makes a view contain the effects of the record at an offset of an input, or fail with
// [ErrBehind]. So a caller that has written a record reads what became of it, whichever instance
// has the task. It fails in another way if the task of the partition does not read that input
// partition. The topic has its name on the cluster. All bounds of a query have to hold.
func AtLeast(topic string, partition int32, offset int64) ReadOption {
	return readOption(func(s *readSettings) {
		s.atLeast = append(s.atLeast, queries.Bound{Topic: topic, Partition: partition, Offset: offset})
	})
}

// contains compares a view with the bounds. A view of an earlier version of the topology has no
// position of an input that was added since: reads says whether the task reads it now.
func contains(p state.Positions, bounds []queries.Bound, reads func(queries.Bound) bool) error {
	for _, b := range bounds {
		i := slices.IndexFunc(p.Inputs, func(in state.Input) bool { return in.Topic == b.Topic && in.Partition == b.Partition })
		switch {
		case i < 0 && len(p.Inputs) > 0 && !reads(b):
			return fmt.Errorf("%w: there is no %s[%d] among them", session.ErrNotRead, b.Topic, b.Partition)
		case i < 0 || p.Inputs[i].Offset <= b.Offset:
			return fmt.Errorf("%w: it does not contain offset %d of %s[%d]", ErrBehind, b.Offset, b.Topic, b.Partition)
		}
	}
	return nil
}

// Read returns a view of a store's partition, for a store of any kind. It reads committed and
// applied state, never the writes of an open round. [View.Positions] and [View.Round] describe its
// content, [View.Epoch] its owner.
//
// Read fails with an error that wraps
//   - ErrNotServing while the task is not here, restores, is stopped, is in doubt for more than
//     five seconds, or is known to be lost; all but the first can be read with [Stale],
//   - state.ErrUnknownStore for a store that the topology does not have,
//   - state.ErrFailed or state.ErrCorrupt after a failure of the disk.
//
// Read sends no request: a process that is cut off from the cluster does not know yet that another
// process owns its tasks. A caller that needs more than committed state at a known position
// compares epochs or positions.
//
// The rows of a global table are in partition 0, in every process. Such a view belongs to no round
// and no owner, so its Round and Epoch are zero. The inputs of its Positions say up to which offset
// the view contains the topic.
//
// It may be called from any goroutine at any time, and does not wait for processing.
func Read[S any](a *App, store topology.Store[S], partition int32, options ...ReadOption) (*View[S], error) {
	got, err := a.own(request(store.Name(), AtPartition(partition), options))
	if err != nil {
		return nil, fmt.Errorf("reading store %s[%d]: %w", store.Name(), partition, err)
	}
	return viewOf(context.Background(), store, got), nil
}

// own takes a view of a task of this process.
func (a *App) own(r queries.Request) (served, error) {
	got, err := a.reader().Read(r.Store, r.Partition, r.Stale)
	if err != nil {
		return served{}, err
	}
	at := queries.At{Instance: a.instanceID(), Partition: r.Partition, Positions: got.View.Positions(), Member: got.Member, Revokes: got.Revokes}
	return served{view: got.View, at: at, stale: got.Stale}.within(r, a.reads(r))
}

// reads returns whether the task of a request reads an input partition, by the topology of this
// process.
func (a *App) reads(r queries.Request) func(queries.Bound) bool {
	return func(b queries.Bound) bool {
		_, sub, _ := session.StoreOf(a.topology, r.Store)
		return b.Partition == r.Partition && slices.ContainsFunc(sub.Sources, func(src graph.Source) bool { return src.Topic == b.Topic })
	}
}

// within releases a view that does not keep the bounds. reads is that of contains.
func (s served) within(r queries.Request, reads func(queries.Bound) bool) (served, error) {
	if err := contains(s.at.Positions, r.AtLeast, reads); err != nil {
		return served{}, errors.Join(err, s.view.Close())
	}
	return s, nil
}

// viewOf is what the caller gets. When ctx ends, reading it fails.
func viewOf[S any](ctx context.Context, store topology.Store[S], got served) *View[S] {
	return &View[S]{store: store.Open(newViewBytes(ctx, got.view, store.Name())), served: got}
}

// Store returns the store as the view has it. A row is expired only if it was when the round was
// committed: the view uses the stream time of that moment. Writing fails.
func (v *View[S]) Store() S { return v.store }

// Positions says which input offsets and changelog positions the view contains, and by which round
// it was committed. The result is the caller's.
func (v *View[S]) Positions() state.Positions { return v.served.view.Positions() }

// Round returns the last round that the view contains, the zero value for none. It is the same in
// every process that has the same state.
func (v *View[S]) Round() state.RoundID { return v.served.at.Positions.Round }

// Epoch returns the ownership under which the task was opened. It is zero for a task that is being
// restored, which only [Stale] reads, and for a copy, which only [Standbys] reads.
func (v *View[S]) Epoch() Epoch { return Epoch{v.served.at.Member, v.served.at.Revokes} }

// Instance returns the instance whose state it is.
func (v *View[S]) Instance() string { return v.served.at.Instance }

// Standby reports whether the view is of a copy, and how long ago the commit that it contains was
// known to be the last one.
func (v *View[S]) Standby() (age time.Duration, ok bool) { return v.served.at.Age, v.served.at.Standby }

// WhyStale returns what Read would have failed with without [Stale] when the view was taken, nil if
// it would not have failed.
func (v *View[S]) WhyStale() error { return v.served.stale }

// Close releases the view.
func (v *View[S]) Close() error { return v.served.view.Close() }

// viewBytes is one store of a view, as typed stores want it.
type viewBytes struct {
	view       state.View
	id         state.StoreID
	streamTime int64
	ended      func() error // of the context
}

func newViewBytes(ctx context.Context, v state.View, store string) viewBytes {
	at, _ := v.Positions().Changelog(store)
	return viewBytes{view: v, id: state.IDOf(store), streamTime: at.StreamTime, ended: ctx.Err}
}

var errReadOnly = errors.New("a view cannot be written")

func (b viewBytes) StreamTime() int64   { return b.streamTime }
func (viewBytes) Advance(int64)         {}
func (viewBytes) Put(_, _ []byte) error { return errReadOnly }
func (viewBytes) Delete([]byte) error   { return errReadOnly }

func (b viewBytes) Get(key []byte) ([]byte, bool, error) {
	if err := b.ended(); err != nil {
		return nil, false, readEnded(err)
	}
	value, ok, err := b.view.Get(b.id, key)
	return value, ok, gone(err)
}

func (b viewBytes) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for e, err := range b.view.Scan(b.id, r) {
			if ended := b.ended(); ended != nil { // a store may leave out any number of rows
				yield(state.Entry{}, readEnded(ended))
				return
			}
			if !yield(e, gone(err)) {
				return
			}
		}
	}
}

func readEnded(err error) error { return fmt.Errorf("reading a view: %w", err) }

// gone says that a view of a task that was closed can be had elsewhere.
func gone(err error) error {
	if errors.Is(err, state.ErrClosed) {
		return fmt.Errorf("%w: its task was closed: %w", ErrNotServing, err)
	}
	return err
}

// reader serves the state of the tasks that are here now.
func (a *App) reader() session.Reader {
	return session.Reader{Topology: a.topology, Current: a.current, Globals: a.globals}
}
