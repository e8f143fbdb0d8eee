package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// Application is a stopped application and the recovery actions for it. They are for a task that
// does not open because its state and its committed offsets do not name each other. See the package
// documentation.
//
// All methods may be called by any goroutine; two actions on one application at a time refuse each
// other at best.
type Application struct {
	client   *Client
	topology *topology.Topology
}

// Application returns the application that runs the topology.
func (c *Client) Application(t *topology.Topology) *Application {
	return &Application{client: c, topology: t}
}

// Options are what all actions have in common.
type Options struct {
	// Tasks are the tasks to act on, named as in graph.TaskID.String; none are all tasks of the
	// application.
	Tasks []string
	// DryRun finds out what would be done, with every check, and does nothing.
	DryRun bool
	// WithoutParked gives up parked records (topology.ParkKeys) with which the state cannot be
	// kept: those for which the topology has no place, and those that their changelog has lost, or
	// may have lost. They are never processed; TaskReport.GivenUp counts them. Without it Adopt,
	// AdoptFromRounds, AcceptSkip and Reset are refused for such records. The other actions keep no
	// state, or all of it.
	WithoutParked bool
	// Mode is the mode in which state was written that Adopt takes and of which no commit is known.
	// Nil is that on which the commits of the application's other tasks agree; without such, Adopt
	// is refused, as it is where they say other modes. For all other state it means nothing.
	Mode *topology.Mode
	// Progress is told by RebuildFromChangelog how far the rebuild of a task is, a few times a
	// second at most and at its end, by one goroutine at a time. The other actions have nothing to
	// say.
	Progress func(Progress)

	// creates has internal topics created that the topology has gained.
	creates bool
}

// Offsets are wanted offsets by the topic of an input, the same in every partition that is acted
// on.
type Offsets map[string]int64

// The offsets that are resolved for each partition.
const (
	// Start is the first record that the log holds.
	Start int64 = -2
	// End is behind the last committed record.
	End int64 = -1
)

// Report is what an action has done, or with Options.DryRun would do. Its JSON form is for
// programs, and its fields stay.
type Report struct {
	Action      string `json:"action"`
	Application string `json:"application"`
	DryRun      bool   `json:"dry_run"`
	// Tasks are sorted by subtopology and partition.
	Tasks []TaskReport `json:"tasks"`
	// Fenced are the transactional ids of the application that are initialised first: whatever they
	// had open is aborted, and a process that was thought dead cannot commit any more.
	Fenced []string `json:"fenced"`
	// NotRead are the inputs of these tasks with partitions that no task reads, sorted by topic.
	NotRead []NotReadReport `json:"not_read,omitempty"`
}

// NotReadReport is an input that has more partitions than there are tasks: it has grown since the
// changelogs were made. The action leaves the records of the others out.
type NotReadReport struct {
	Topic string `json:"topic"`
	// Partitions is how many no task reads, the last ones of the topic.
	Partitions int32 `json:"partitions"`
}

// TaskReport is what happens to one task.
type TaskReport struct {
	Task string `json:"task"`
	// Changed is false for a task that needs nothing, and then Inputs and Changelogs are empty.
	Changed bool `json:"changed"`
	// Reason is what was found.
	Reason     string            `json:"reason"`
	Inputs     []InputReport     `json:"inputs"`
	Changelogs []ChangelogReport `json:"changelogs"`
	// Mode is the mode in which adopted state counts as written from now on, where no commit of the
	// task was known that said it. Empty otherwise.
	Mode string `json:"mode,omitempty"`
	// ModeAssumed says that Mode is that of the application's other tasks, and not Options.Mode.
	ModeAssumed bool `json:"mode_assumed,omitempty"`
	// GivenUp are the parked records that are never processed, because Options.WithoutParked gives
	// them up.
	GivenUp []GivenUpReport `json:"given_up,omitempty"`
}

// InputReport is the committed offset of one input partition, -1 for none.
type InputReport struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    int64  `json:"before"`
	After     int64  `json:"after"`
	// Dropped is how many records of a delayed retry topic waited that do not come again.
	Dropped int64 `json:"dropped,omitempty"`
}

// ChangelogReport is the position in a changelog that the commit names: the state of the store is
// what the log holds below it.
type ChangelogReport struct {
	Store     string `json:"store"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"`
	// Tombstones are the records that are written to empty the store.
	Tombstones int64 `json:"tombstones"`
}

// GivenUpReport is how many records of a store of parked keys are given up.
type GivenUpReport struct {
	Store string `json:"store"`
	// Records is -1 where it is not known, because the last commit does not say it and the
	// changelog is gone, may not be seen, or has lost records.
	Records int64 `json:"records"`
}

// ErrRefused says that a precondition does not hold. Nothing was changed.
var ErrRefused = errors.New("refused")

// Refusal is an action that was refused. It wraps ErrRefused.
type Refusal struct {
	// Task is the first task that it is about, empty if it is about the application.
	Task string
	// Reason says what does not hold, and what to do instead.
	Reason string
	// More counts further tasks that would be refused.
	More int
}

func (e *Refusal) Error() string {
	text := "refused, nothing was changed: "
	if e.Task != "" {
		text += "task " + e.Task + ": "
	}
	text += e.Reason
	if e.More > 0 {
		text += fmt.Sprintf(" (and %d more tasks)", e.More)
	}
	return text
}

// Unwrap returns ErrRefused.
func (e *Refusal) Unwrap() error { return ErrRefused }

func refuse(format string, args ...any) error { return &Refusal{Reason: fmt.Sprintf(format, args...)} }

// change is what a plan makes of one task.
type change struct {
	target
	reason string
	// before are the committed offsets that were found.
	before []restore.Input
	// next is what is committed; nil where the task needs nothing.
	next *state.Positions
	// keepsState says that next goes with the state that there is, for which operation.parked finds
	// what follows; keeps is the last known commit of it, nil if there is none.
	keepsState bool
	keeps      *task.CommitMetadata
	// parked are the records that wait in the state that is kept.
	parked []task.CommittedParked
	// givenUp are those that are not kept with it.
	givenUp []task.CommittedParked
	// adopts says that next keeps all that the changelogs hold, whatever the last commit says of
	// it.
	adopts bool
	// mode is what the commit says of the mode: see modeOf.
	mode committedMode
	// dropped are the records of each input that are lost; nil for none.
	dropped []int64
	// erase are the changelogs that are emptied first, with the number of tombstones that it takes.
	erase      []restore.Changelog
	tombstones []int64
}

// planner decides what happens to a task, or refuses. It changes nothing and gives the same answer
// to the same inspection.
type planner func(ctx context.Context, s inspection) (change, error)

// act is every action: inspect all tasks, plan all of them, and only if none is refused fence the
// application's transactions, look and plan again, and write. The second look sees what a
// transaction has left that was thought dead during the first one.
func (a *Application) act(ctx context.Context, name string, o Options, plan func(*operation) planner) (Report, error) {
	op, err := a.open(ctx, o)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	defer op.close()
	report, err := op.act(ctx, name, o, plan(op))
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}

func (op *operation) act(ctx context.Context, name string, o Options, plan planner) (Report, error) {
	if err := op.requireEmptyGroup(ctx); err != nil {
		return Report{}, err
	}
	changes, err := op.plan(ctx, plan)
	if err != nil {
		return Report{}, err
	}
	ids, err := op.transactionalIDs(ctx)
	if err != nil {
		return Report{}, err
	}
	report := op.report(name, o, changes, ids)
	if o.DryRun || !slices.ContainsFunc(changes, func(c change) bool { return c.next != nil }) {
		return report, nil
	}
	if err := op.fence(ctx, ids); err != nil {
		return Report{}, err
	}
	if err := op.requireEmptyGroup(ctx); err != nil {
		return Report{}, err
	}
	again, err := op.plan(ctx, plan)
	if err != nil {
		return Report{}, err
	}
	if !reflect.DeepEqual(changes, again) {
		return Report{}, refuse("offsets or changelogs have changed while they were looked at: look what runs, and try again")
	}
	if err := op.erase(ctx, changes); err != nil {
		return Report{}, err
	}
	return report, op.commit(ctx, changes)
}

// plan looks at every task and plans it. The first refusal stands for all.
func (op *operation) plan(ctx context.Context, plan planner) ([]change, error) {
	op.invalidate()
	inspections, err := op.inspectAll(ctx)
	if err != nil {
		return nil, err
	}
	planned, errs := make([]change, len(op.tasks)), make([]error, len(op.tasks))
	for i := range op.tasks {
		planned[i], errs[i] = plan(ctx, inspections[i])
		if errs[i] != nil && !errors.Is(errs[i], ErrRefused) {
			return nil, errs[i]
		}
	}
	together(len(planned), func(i int) { // each can wait for what a broker does not know yet
		if c := &planned[i]; errs[i] == nil && c.keepsState {
			errs[i] = op.parked(ctx, inspections[i], c)
		}
	})
	var changes []change
	var refused *Refusal
	for i, t := range op.tasks {
		c, err := planned[i], errs[i]
		if err == nil && c.next != nil {
			c.mode, err = op.modeOf(ctx, inspections[i], c)
		}
		if r, ok := errors.AsType[*Refusal](err); ok {
			if refused == nil {
				r.Task, refused = t.id.String(), r
			} else {
				refused.More++
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		c.target, c.before = t, inspections[i].Inputs
		changes = append(changes, c)
	}
	if refused != nil {
		return nil, refused
	}
	return changes, nil
}

// notRead returns the inputs of the tasks with partitions that no task reads.
func (op *operation) notRead() (out []NotReadReport) {
	seen := map[string]bool{}
	for _, t := range op.tasks {
		if seen[t.sub.Name] {
			continue
		}
		seen[t.sub.Name] = true
		tasks := op.layout[t.sub.Sources[0].Topic].Partitions
		for _, st := range t.sub.Stores {
			tasks = min(tasks, op.layout[st.Topic()].Partitions)
		}
		for _, src := range t.sub.Sources {
			if n := op.layout[src.Topic].Partitions; n > tasks {
				out = append(out, NotReadReport{src.Topic, n - tasks})
			}
		}
	}
	slices.SortFunc(out, func(a, b NotReadReport) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

func (op *operation) report(name string, o Options, changes []change, ids []string) Report {
	r := Report{
		Action: name, Application: op.topology.Application(), DryRun: o.DryRun, Tasks: []TaskReport{}, Fenced: []string{}, NotRead: op.notRead(),
	}
	for _, c := range changes {
		t := TaskReport{Task: c.id.String(), Reason: c.reason, Inputs: []InputReport{}, Changelogs: []ChangelogReport{}}
		if c.next != nil {
			t.Changed = true
			r.Fenced = ids
			for i, in := range c.next.Inputs {
				ir := InputReport{Topic: in.Topic, Partition: in.Partition, Before: c.before[i].Committed, After: in.Offset}
				if c.dropped != nil {
					ir.Dropped = c.dropped[i]
				}
				t.Inputs = append(t.Inputs, ir)
			}
			for i, cl := range c.next.Changelogs {
				cr := ChangelogReport{Store: cl.Store, Topic: op.changelogTopic(cl.Store), Partition: c.id.Partition, Position: cl.Applied}
				if c.tombstones != nil {
					cr.Tombstones = c.tombstones[i]
				}
				t.Changelogs = append(t.Changelogs, cr)
			}
			if c.mode.from != ofCommit {
				t.Mode, t.ModeAssumed = c.mode.Mode.String(), c.mode.from == ofOthers
			}
			for _, p := range c.givenUp {
				t.GivenUp = append(t.GivenUp, GivenUpReport(p))
			}
		}
		r.Tasks = append(r.Tasks, t)
	}
	return r
}

// fingerprint is what commits carry of the topology.
func fingerprint(t *topology.Topology) (out [8]byte) {
	sum := sha256.Sum256([]byte(t.Fingerprint()))
	copy(out[:], sum[:])
	return out
}

// declared is the round that an operator's commit names. It is computed from the content of the
// changelogs that the commit declares. A second declaration of the same content names the same
// round, so that a database that already has the content is not taken for one of another round. Its
// producer id is negative, which no producer's is.
func declared(changelogs []state.Changelog) state.RoundID {
	h := task.TopicsHash(changelogs)
	for _, c := range changelogs {
		h = (h ^ uint64(c.Applied)) * 1099511628211 // as in FNV-1a, a word at a time
	}
	return state.RoundID{ProducerID: int64(h | 1<<63)}
}
