package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/queries"
	"github.com/onceward/onceward/txn/internal/session"
)

// Place says which partition of a store a [Query] reads.
type Place struct {
	partition int32
	// key is of records, nil for a partition that is known.
	key []byte
	err error
}

// AtPartition is a partition by its number.
func AtPartition(n int32) Place { return Place{partition: n} }

// AtKey is the partition of the records with a key, by the partitioner of Kafka: the partition of
// the rows that these records make. The codec is that of the key in the input. A store can have
// rows of other keys. It is refused for tasks whose inputs have a partitioner of their own: they
// are read with AtPartition.
func AtKey[K any](codec schemas.Codec[K], key K) Place {
	b, err := codec.Append([]byte{}, key)
	return Place{key: b, err: err}
}

func (p Place) String() string {
	if p.key != nil || p.err != nil {
		return "the partition of a key"
	}
	return fmt.Sprintf("partition %d", p.partition)
}

// Queryable is what a [Query] asks: an [App], for an instance of the application, or a [Client],
// for any other program.
type Queryable interface {
	query(ctx context.Context, r queries.Request) (served, error)
}

// Standbys allows a [Query] to read a copy of the task ([Config].Standbys) that was at the last
// commit at most maxAge ago. A copy looks for the next commit every 500 ms. A copy in the instance
// that is asked is read first. Other copies are read while the owner of the task does not serve it.
// [View.Standby] says whether the view is of a copy.
//
// A view of a copy is what the owner committed, at the positions of one commit. It can be older
// than a view that was read before: [AtLeast] excludes that.
func Standbys(maxAge time.Duration) ReadOption {
	return readOption(func(s *readSettings) { s.standby = maxAge })
}

// Query returns a view of a partition of a store, wherever the application has it. In the instance
// that has the task it is [Read]. Every other one finds that instance in the plan of the group, and
// asks it over the connections of peers ([Config].Peers). An instance answers only for tasks that
// it owns at that moment, as Read does, and passes no question on.
//
// Query fails with an error that wraps
//   - ErrNotServing if no instance serves the partition now: the task moves, is restored, is
//     stopped or in doubt, its instance cannot be reached, or [AtLeast] is not kept. Ask again;
//   - state.ErrUnknownStore and the other errors of Read;
//   - the error of ctx.
//
// The view reads from the other instance row by row, or some hundred rows at a time. When ctx ends,
// reading it fails. The other instance keeps it for a minute without a question.
//
// It may be called from any goroutine at any time.
func Query[S any](ctx context.Context, from Queryable, store topology.Store[S], at Place, options ...ReadOption) (*View[S], error) {
	got, err := served{}, at.err
	if err == nil {
		got, err = from.query(ctx, request(store.Name(), at, options))
	}
	if err != nil {
		return nil, fmt.Errorf("querying store %s, %s: %w", store.Name(), at, err)
	}
	return viewOf(store, got), nil
}

// query is part of Queryable.
func (a *App) query(ctx context.Context, r queries.Request) (served, error) {
	current, in := a.membership()
	_, sub, _ := session.StoreOf(a.topology, r.Store)
	if r.RecordKey != nil {
		var err error
		if r.Partition, err = partitionOf(current, sub.Name, r.RecordKey); err != nil {
			return served{}, err
		}
		r.RecordKey = nil
	}
	got, err := a.here(ctx, r)
	if err == nil || in == nil || sub.Name == "" || !elsewhere(err, r) {
		return got, err
	}
	return in.watch.ask(ctx, graph.TaskID{Subtopology: sub.Name, Partition: r.Partition}, r, err)
}

// partitionOf returns the partition of records with a key in the inputs of a subtopology. The name is
// empty for a global table, which has partition 0 only, and for a store that is not known.
func partitionOf(current *session.Session, subtopology string, key []byte) (int32, error) {
	switch {
	case subtopology == "":
		return 0, nil
	case current == nil:
		return 0, ErrNotServing
	}
	return current.PartitionOf(subtopology, key)
}

// elsewhere says whether another instance may serve what this one does not.
func elsewhere(err error, r queries.Request) bool {
	if r.Standby > 0 {
		return errors.Is(err, ErrNotServing)
	}
	own := errors.Is(err, ErrRestoring) || errors.Is(err, ErrTaskStopped) || errors.Is(err, ErrInDoubt) || errors.Is(err, ErrBehind)
	return errors.Is(err, ErrNotServing) && !own
}

// here takes a view of a task of this process, or of a copy where that is allowed.
func (a *App) here(ctx context.Context, r queries.Request) (served, error) {
	got, err := a.own(r)
	if err == nil || r.Standby <= 0 || !errors.Is(err, ErrNotServing) {
		return got, err
	}
	copied, age, copyErr := a.reader().ReadCopy(ctx, r.Store, r.Partition, r.Standby)
	if ctx.Err() != nil && errors.Is(copyErr, ctx.Err()) {
		return served{}, copyErr
	}
	if copyErr != nil {
		return served{}, err // why there is no better one
	}
	at := queries.At{
		Instance: a.instanceID(), Partition: r.Partition, Positions: copied.View.Positions(), Standby: true, Age: age,
	}
	if got, copyErr = (served{view: copied.View, at: at}).within(r); copyErr != nil {
		return served{}, err
	}
	return got, nil
}

// instanceID is the name of this instance, empty before it has one.
func (a *App) instanceID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.instance
}
