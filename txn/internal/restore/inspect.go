package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/task"
)

// Inspection is the state of a task on the cluster: everything but the databases, which are with
// the instances.
type Inspection struct {
	Found
	// Metadata is the text committed with the first input.
	Metadata string
	// Stop is why no instance can open the task, nil if a new one with an empty directory could.
	Stop *StopError
	// Beyond says of each changelog whether it holds a committed record at or after the position
	// that the commit names. Such a record belongs to a commit that is not the last one any more:
	// the offsets have gone back.
	Beyond []bool
}

// Named reports whether state and offsets name each other, as far as the cluster can tell.
func (s Inspection) Named() bool {
	if s.Stop != nil {
		return false
	}
	for _, beyond := range s.Beyond {
		if beyond && s.Commit != nil {
			return false
		}
	}
	return true
}

// NotLast returns why no instance can open the task where a changelog goes on behind the last
// commit, as Restore finds in the end; nil where none does. It counts only while no instance runs:
// the commit and the changelogs are read one after the other.
func (s Inspection) NotLast() *StopError {
	for i, c := range s.Changelogs {
		if target, named := s.Commit.Target(c.Store); named && i < len(s.Beyond) && s.Beyond[i] {
			return s.notLast(c, target)
		}
	}
	return nil
}

// Inspect finds what Judge needs without a database, and judges it. Other than Restore it looks at
// changelogs only once no transaction is open on them: it waits, and reports what holds it as
// Restore does. The group is to be empty, or what it returns is old at once.
func (r *Restorer) Inspect(ctx context.Context, req Request) (Inspection, error) {
	fail := func(err error) (Inspection, error) {
		return Inspection{}, fmt.Errorf("inspecting task %s: %w", req.Task, err)
	}
	found, metadata, err := r.findInputs(ctx, req)
	if err != nil {
		return fail(err)
	}
	s := Inspection{Found: found, Metadata: metadata}
	s.Commit, err = r.commit(ctx, req, found, metadata)
	missing, stops := errors.AsType[*StopError](err)
	if err != nil && (!stops || errors.Is(missing, state.ErrFormat)) {
		return fail(err)
	}
	for _, store := range req.Stores {
		if _, there := r.Layout[store.ChangelogTopic]; !there { // a plan looks before the start that creates it
			s.Changelogs = append(s.Changelogs, Changelog{Store: store.Name, Topic: store.ChangelogTopic, Empty: true, Parks: store.Parks})
			s.Beyond = append(s.Beyond, false)
			continue
		}
		if store.FromSource == nil {
			if err := r.waitStable(ctx, store.ChangelogTopic, req.Task); err != nil {
				return fail(err)
			}
		}
		c, err := r.findChangelog(ctx, store, s.Found)
		if err != nil {
			return fail(err)
		}
		s.Changelogs = append(s.Changelogs, c)
		if store.FromSource != nil {
			s.Beyond = append(s.Beyond, false) // it goes on as a topic does that others write
			continue
		}
		target, _ := s.Commit.Target(store.Name)
		beyond, err := r.Beyond(ctx, c, req.Task, target)
		if err != nil {
			return fail(err)
		}
		s.Beyond = append(s.Beyond, beyond)
	}
	if s.Kept, err = r.kept(ctx, s.Found); err != nil {
		return fail(err)
	}
	s.Stop = missing
	if s.Stop == nil {
		if _, err = Judge(s.Found); err != nil && !errors.As(err, &s.Stop) {
			return fail(err)
		}
	}
	return s, nil
}

// Beyond reports whether a changelog holds a committed record at or after an offset.
func (r *Restorer) Beyond(ctx context.Context, c Changelog, id graph.TaskID, from int64) (bool, error) {
	if c.FromSource != nil {
		return false, nil
	}
	empty, err := r.empty(ctx, r.Layout[c.Topic], id, max(from, c.LogStart), c.HighWatermark)
	return !empty, err
}

// Parse returns the commit metadata of a task, for which no database is needed. It is nil if the
// metadata are not ours or name a record that is gone. It says of stores that the topology does not
// have what the metadata say: see Waiting. The error wraps state.ErrFormat if a newer build wrote
// the metadata.
func (r *Restorer) Parse(ctx context.Context, req Request, metadata string) (*task.CommitMetadata, error) {
	b, err := r.readMetadata(ctx, req, metadata)
	if stop, stops := errors.AsType[*StopError](err); stops && !errors.Is(stop, state.ErrFormat) {
		return nil, nil //nolint:nilnil // it is as if nothing had been said
	}
	return b, err
}

// waitStable waits until no transaction is open below the high watermark of now.
func (r *Restorer) waitStable(ctx context.Context, topic string, id graph.TaskID) error {
	partition := id.Partition
	_, highWatermark, err := r.Cluster.LogBounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	waiting := r.watchStable(topic, id)
	defer waiting.Over()
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: time.Second}
	for {
		stable, err := r.Cluster.StableEnd(ctx, topic, partition)
		if err != nil || stable >= highWatermark {
			return err
		}
		waiting.Still(ctx)
		if pause.Wait(ctx) != nil {
			return fmt.Errorf("a transaction is open on %s[%d] at offset %d: %w", topic, partition, stable, ctx.Err())
		}
	}
}
