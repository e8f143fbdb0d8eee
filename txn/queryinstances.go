package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/metrics"
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
// that is asked is read first. Copies of other instances are read while the owner of the task does
// not serve it. They are also asked if the owner has not answered within 500 ms, as one that is
// frozen. Each of them has so long to answer. If none of them serves it, the instances that have not
// answered are asked once more, for up to 10 s each. [View.Standby] says whether the view is of a
// copy.
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
//   - ErrUnknownPartition if the store has no such partition, and the topics and the plan agree on
//     that: otherwise the error is ErrNotServing;
//   - state.ErrUnknownStore and the other errors of Read;
//   - the error of ctx.
//
// A [Client] also fails with the status of what answers in place of a handler, such as the 401 of a
// proxy. That error wraps none of these.
//
// The view reads from the other instance row by row, or some hundred rows at a time. When ctx ends,
// reading any view of Query fails. The other instance keeps it for a minute without a question.
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
	return viewOf(ctx, store, got), nil
}

// query is part of Queryable.
func (a *App) query(ctx context.Context, r queries.Request) (got served, err error) {
	current, in := a.membership()
	_, sub, known := session.StoreOf(a.topology, r.Store)
	if !known {
		return a.here(ctx, r) // which says so
	}
	began := time.Now()
	defer func() { a.metrics.Queried(r.Store, outcomeOf(a.instanceID(), got, err), time.Since(began)) }()
	tasks, certain := tasksOf(current, in, sub)
	if r.RecordKey != nil {
		if r.Partition, err = partitionOf(sub, r.RecordKey, tasks); err != nil {
			return served{}, err
		}
		r.RecordKey = nil
	}
	if certain && r.Partition >= tasks {
		return served{}, fmt.Errorf("%w %d: it has %d, and they begin at 0", ErrUnknownPartition, r.Partition, tasks)
	}
	got, err = a.here(ctx, r)
	if err == nil || in == nil || sub.Name == "" || !elsewhere(err, r) {
		return got, err
	}
	return in.watch.ask(ctx, graph.TaskID{Subtopology: sub.Name, Partition: r.Partition}, r, err)
}

// tasksOf returns how many tasks a subtopology has, as far as this instance knows, and whether that
// is certain. 0 says that it is not known. A global table has no subtopology and one partition.
func tasksOf(current *session.Session, in *instance, sub graph.Subtopology) (n int32, certain bool) {
	if sub.Name == "" {
		return 1, true
	}
	if current == nil {
		return 0, false
	}
	var plan assign.Plan
	if p := in.watch.plan.Load(); p != nil {
		plan = *p
	}
	return countTasks(current.TasksOf(sub.Name), plan.Tasks(sub.Name))
}

// countTasks compares how many tasks the topics say and the plan names. The plan misses tasks if its
// leader did not know the topics, and names none if it is of an older build. The topics are as they
// were when the membership began, and can have more partitions since then.
func countTasks(topics, planned int32) (n int32, certain bool) {
	return max(topics, planned), topics > 0 && (planned == 0 || planned == topics)
}

// partitionOf returns the partition of the rows that records with a key make. An input can have more
// partitions than there are tasks. The rows are in those that it had at first.
func partitionOf(sub graph.Subtopology, key []byte, tasks int32) (int32, error) {
	for _, src := range sub.Sources {
		if src.Partitioner != "" {
			return 0, fmt.Errorf("topic %s is partitioned by %q and not by its keys alone: say the partition", src.Topic, src.Partitioner)
		}
	}
	if tasks == 0 {
		return 0, fmt.Errorf("%w: the number of its tasks is not known", ErrNotServing)
	}
	return graph.PartitionOf(key, tasks), nil
}

// outcomeOf names what became of a query, for the metrics.
func outcomeOf(own string, got served, err error) string {
	switch {
	case errors.Is(err, ErrNotServing):
		return metrics.QueryRefused
	case err != nil:
		return metrics.QueryFailed
	case got.at.Instance != own:
		return metrics.QueryForwarded
	}
	return metrics.QueryAnswered
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
	if got, copyErr = (served{view: copied.View, at: at}).within(r, a.reads(r)); copyErr != nil {
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
