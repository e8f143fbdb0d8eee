package worker

import (
	"fmt"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// isolation is how the worker finds the one record whose output the cluster will never take. A
// refusal names a partition and not a record, because a broker refuses a batch as a whole. So the
// round runs again with less: only one of the tasks that wrote to the partition, and of its journal
// only a prefix with half of the suspects in it. If that commits, the others are free again; if it
// is refused, the suspects have become fewer. In the end a single entry is left, which goes to its
// error policy. The order of a task never changes, and no round commits past a record that was not
// processed.
//
// Tasks that did not write to the partition run in full all the time. A suspect whose prefix was
// committed is the last to be suspected again: it has new input, and would else keep the others
// waiting.
type isolation struct {
	// suspect may add limit entries to a round; nil while nothing is isolated.
	suspect *task.Task
	limit   int
	// held are the other suspects: they join no round.
	held map[*task.Task]bool
	// cleared says when a suspect's prefix was last committed, by a count of such commits. It
	// outlives the search.
	cleared map[*task.Task]int
	clears  int
}

// full reports whether the task may add nothing more to the round. r may be nil.
func (i *isolation) full(t *task.Task, r *round) bool {
	switch {
	case i.suspect == nil:
		return false
	case i.held[t]:
		return true
	case t != i.suspect || r == nil:
		return false
	}
	c := r.byTask[t]
	return c != nil && len(c.Journal) >= i.limit
}

// reached reports whether the round has everything that it waits for: to go on would only delay the
// answer.
func (i *isolation) reached(r *round) bool { return i.suspect != nil && i.full(i.suspect, r) }

// leave ends the search when the suspect cannot go on: those that are held must not wait for it.
func (i *isolation) leave(t *task.Task) {
	if i.suspect == t {
		i.end()
	}
}

func (i *isolation) end() { i.suspect, i.limit, i.held = nil, 0, nil }

// committed ends the search for this time: the committed records are cleared, and the rest shows
// when it is refused again. A round without the suspect has shown nothing. If the tasks need
// several rounds for one turn of all of them, such rounds come first, and a search that ends with
// them would start again for ever.
func (i *isolation) committed(r *round) {
	if i.suspect == nil || r.byTask[i.suspect] == nil {
		return
	}
	if i.cleared == nil {
		i.cleared = map[*task.Task]int{}
	}
	i.clears++
	i.cleared[i.suspect] = i.clears
	i.end()
}

// suspects are the journal entries of one contribution that wrote to a partition, in order.
type suspects struct {
	*task.Contribution
	entries []int
}

// suspectsOf returns who wrote to the partition. A changelog partition belongs to one task, and its
// writes are coalesced: every entry of that task's journal may be the one.
func (r *round) suspectsOf(topic string, partition int32) (out []suspects) {
	for _, c := range r.contributions {
		for _, cl := range c.Task.Changelogs {
			if cl.Topic == topic && c.Task.ID.Partition == partition {
				s := suspects{Contribution: c}
				for i := range c.Journal {
					s.entries = append(s.entries, i)
				}
				return []suspects{s}
			}
		}
	}
	for i, from := range r.outputs.origins {
		if !r.outputs.to(i, topic, partition) {
			continue
		}
		c, entry := r.contributions[from.contribution], int(from.entry)
		at := slices.IndexFunc(out, func(s suspects) bool { return s.Contribution == c })
		if at < 0 {
			at, out = len(out), append(out, suspects{Contribution: c})
		}
		// Several outputs of one entry come one after the other.
		if n := len(out[at].entries); n == 0 || out[at].entries[n-1] != entry {
			out[at].entries = append(out[at].entries, entry)
		}
	}
	return out
}

// isolate decides how a round whose output was refused for good runs again; its journal has been
// put back. It reports whether the refusal can be handled: an output of the runtime itself belongs
// to no record.
func (w *Worker) isolate(r *round) bool {
	refused := r.refused
	if broker.ScopeOf(refused) == broker.ScopeTopic {
		return w.haltWriters(r, refused)
	}
	all := r.suspectsOf(refused.Topic, refused.Partition)
	if len(all) == 0 {
		return false
	}
	held := w.isolation.held // absence from this round does not clear them
	w.isolation.end()
	slices.SortStableFunc(all, func(a, b suspects) int { return w.isolation.cleared[a.Task] - w.isolation.cleared[b.Task] })
	first := all[0]
	if len(all) == 1 && len(first.entries) == 1 {
		w.refuse(first.Task, first.Journal[first.entries[0]], refused)
		return true
	}
	w.isolation.suspect, w.isolation.limit = first.Task, first.entries[(len(first.entries)-1)/2]+1
	if held == nil {
		held = map[*task.Task]bool{}
	}
	for _, s := range all[1:] {
		held[s.Task] = true
	}
	delete(held, first.Task)
	w.isolation.held = held
	w.log.Info("looking for the record that was refused", "topic", refused.Topic, "partition", refused.Partition, "error", refused.Err,
		"task", first.Task.ID.String(), "records", w.isolation.limit)
	return true
}

// refuse sends the refused record to its error policy. If what the policy made of it was refused as
// well, the task stops.
func (w *Worker) refuse(t *task.Task, e task.Entry, refused *broker.ProduceError) {
	if !e.IsRecord() {
		w.halt(t, fmt.Errorf("stopped at a %s: its output was refused: %w", e, refused))
		return
	}
	if t.Refused(e) {
		w.halt(t, fmt.Errorf("stopped at %s: its dead letter was refused too: %w", e, refused))
		return
	}
	t.Refuse(e, fmt.Sprintf("its output to %s[%d] was refused: %v", refused.Topic, refused.Partition, refused.Err))
}

// haltWriters stops the tasks that wrote to a topic which takes nothing. The others run again
// without them.
func (w *Worker) haltWriters(r *round, refused *broker.ProduceError) bool {
	writers := map[*task.Task]bool{}
	for _, c := range r.contributions {
		for _, cl := range c.Task.Changelogs {
			if cl.Topic == refused.Topic && c.Layer != nil && c.Layer.Len() > 0 {
				writers[c.Task] = true
			}
		}
	}
	for i, from := range r.outputs.origins {
		if at, ok := r.outputs.destination(i); ok && at.Topic == refused.Topic {
			writers[r.contributions[from.contribution].Task] = true
		}
	}
	for t := range writers {
		w.halt(t, fmt.Errorf("nothing can be written to topic %s: %w", refused.Topic, refused))
	}
	return len(writers) > 0
}

// haltReaders stops the tasks that read a topic of which no offset can be committed, as when the
// permission to read it was taken away. The others run again without them. It reports whether there
// is one.
func (w *Worker) haltReaders(r *round, refused *broker.OffsetError) (halted bool) {
	for _, c := range r.contributions {
		if slices.ContainsFunc(c.Task.Spec.Inputs, func(in state.Input) bool { return in.Topic == refused.Topic }) {
			w.halt(c.Task, fmt.Errorf("nothing of topic %s can be committed: %w", refused.Topic, refused))
			halted = true
		}
	}
	return halted
}

// halt stops a task between two records and says so.
func (w *Worker) halt(t *task.Task, why error) {
	w.log.Error("task stopped", "task", t.ID.String(), "error", why)
	t.Halt(why)
	w.isolation.leave(t)
	w.publish(t)
	if _, leaving := w.leaving[t]; !leaving { // who owns the task now may fare better
		w.cfg.Stopped(t, why)
	}
}
