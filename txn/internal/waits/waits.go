// Package waits reports for which open transactions a process waits: those that make committed
// offsets unstable, and those that block readers of a changelog or an input.
//
// # Contract
//
// A [Wait] belongs to one goroutine, which calls Still whenever it has looked and has to go on
// waiting, and Over when it has not. Once a wait has lasted for the bound of its [Waits], Still
// asks the leader of the partition what it holds open and the coordinators whose that is, and logs
// the answer. It asks again after each further bound. The pause between log lines doubles, except
// when a transaction turns out to hang. Waits for one partition share the question and the line.
// [Waits.All] has what is waited for now, for status and metrics.
//
// A wait never gives up. An ongoing transaction ends with its producer or by its timeout. One that
// hangs is ended by an operator, or by an instance that repairs what hangs (package hanging); the
// line names the command. A transaction that no coordinator names is neither: it can be an ongoing
// one whose transactional id this process may not describe.
//
// # Concurrency and failure
//
// Waits is safe for concurrent use and has no goroutines. A question that fails is part of the
// line, and ends no wait.
//
// # What it is not
//
// It is no measure of latency: most waits are over before the bound, and are not reported.
package waits

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
)

// Kind is what cannot be read before the transaction has ended.
type Kind string

const (
	// Offsets are the committed offsets of the group.
	Offsets Kind = "offsets"
	// Changelog is the log of a store, or a topic that a store is restored from.
	Changelog Kind = "changelog"
	// Input is an input of a task that works.
	Input Kind = "input"
)

// message is the line of a report.
func (k Kind) message() string {
	switch k {
	case Offsets:
		return "the committed offsets are not stable, because a transaction is open"
	case Changelog:
		return "a changelog cannot be read on, because a transaction is open"
	case Input:
		return "an input cannot be read on, because a transaction is open"
	}
	return string(k)
}

const (
	// lookMax is how long a look may take.
	lookMax = 10 * time.Second
	// tellMax bounds the pause between two lines about a partition, which is twice as long each
	// time.
	tellMax = 10 * time.Minute
)

// Remedy names the command that helps.
const Remedy = "onceward transactions list"

type partition struct {
	kind      Kind
	topic     string
	partition int32
}

// Waits are those of a process. A nil one reports nothing.
type Waits struct {
	cluster *broker.Cluster
	after   time.Duration
	log     *slog.Logger
	hangs   func(producerID int64, epoch int16) bool

	mu   sync.Mutex
	held map[partition]*held
}

// held is a partition and the waits for it.
type held struct {
	Held
	waits   map[*Wait]bool
	looking bool
	// tell is when the next line is due, pause how long it is put off then.
	tell  time.Time
	pause time.Duration
}

// New returns waits that are reported when they have lasted for after. The group whose offsets are
// waited for is that of c. hangs says which transactions are known to hang, although coordinators
// do not name their producers; nil knows none.
func New(c *broker.Cluster, after time.Duration, log *slog.Logger, hangs func(producerID int64, epoch int16) bool) *Waits {
	return &Waits{cluster: c, after: after, log: log, hangs: hangs, held: map[partition]*held{}}
}

// Wait is one wait. A nil one does nothing.
type Wait struct {
	of    *Waits
	at    partition
	tasks []string
	since time.Time // zero while there is no wait
}

// Offsets returns the wait of tasks for stable offsets, which has not begun.
func (w *Waits) Offsets(tasks ...string) *Wait {
	return w.On(Offsets, broker.OffsetsTopic, -1, tasks...)
}

// On returns a wait of tasks for the last stable offset of a partition, which has not begun.
func (w *Waits) On(kind Kind, topic string, number int32, tasks ...string) *Wait {
	if w == nil {
		return nil
	}
	return &Wait{of: w, at: partition{kind, topic, number}, tasks: tasks}
}

// Still begins the wait, or goes on with it, and reports it when that is due.
func (x *Wait) Still(ctx context.Context) {
	if x == nil {
		return
	}
	now := time.Now()
	x.of.mu.Lock()
	h := x.of.held[x.at]
	if h == nil {
		h = &held{Held: Held{Kind: x.at.kind, Topic: x.at.topic, Partition: x.at.partition}, waits: map[*Wait]bool{}, pause: x.of.after}
		x.of.held[x.at] = h
	}
	if x.since.IsZero() {
		x.since = now
	}
	h.waits[x] = true
	due := !h.looking && now.Sub(x.since) >= x.of.after && now.Sub(h.Looked) >= x.of.after
	h.looking = h.looking || due
	x.of.mu.Unlock()
	if !due {
		return
	}
	seen := look(ctx, x.of.cluster, x.of.hangs, h.Topic, h.Partition)
	if held, tell := x.of.seen(h, seen); tell && ctx.Err() == nil {
		x.of.log.Log(ctx, held.level(), held.Kind.message(), "topic", held.Topic, "partition", held.Partition,
			"waited", time.Since(held.Since).Round(time.Second), "tasks", held.Tasks, "held_by", held.HeldBy(), "hanging", held.Hanging(),
			"remedy", Remedy)
	}
}

// seen takes the answer to a look, and says whether a line is due.
func (w *Waits) seen(h *held, seen Held) (now Held, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := h.Hanging()
	h.looking = false
	h.Looked, h.Partition, h.Holders, h.Others, h.Unknown = time.Now(), seen.Partition, seen.Holders, seen.Others, seen.Unknown
	if tell = !h.Looked.Before(h.tell) || h.Hanging() && !was; tell {
		h.tell = h.Looked.Add(h.pause)
		h.pause = min(2*h.pause, max(tellMax, w.after))
	}
	return h.told(), tell
}

// Over ends the wait. Still may begin another one.
func (x *Wait) Over() {
	if x == nil || x.since.IsZero() {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.since = time.Time{}
	h := x.of.held[x.at]
	delete(h.waits, x)
	if len(h.waits) > 0 {
		return
	}
	delete(x.of.held, x.at)
	if !h.Looked.IsZero() {
		x.of.log.Info("a transaction that was waited for has ended", "topic", h.Topic, "partition", h.Partition)
	}
}

// told is what the waits come to. The caller holds the lock.
func (h *held) told() Held {
	out := h.Held
	for x := range h.waits {
		if out.Since.IsZero() || x.since.Before(out.Since) {
			out.Since = x.since
		}
		out.Tasks = append(out.Tasks, x.tasks...)
	}
	slices.Sort(out.Tasks)
	out.Tasks = slices.Compact(out.Tasks)
	return out
}

// All returns what is waited for now, sorted.
func (w *Waits) All() []Held {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Held, 0, len(w.held))
	for _, h := range w.held {
		out = append(out, h.told())
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}
