package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Judgement says what the next start of a topology makes of something that there is.
type Judgement string

// The judgements, from harmless to not.
const (
	// Safe: it goes on as it is, or becomes what the topology wants by itself.
	Safe Judgement = "safe"
	// Unknown: it cannot be told, because what ran before is not known, or where.
	Unknown Judgement = "unknown"
	// Rebuild: the topology starts. Its state differs from the state after a run from the
	// beginning, or cannot be read, until it is rebuilt.
	Rebuild Judgement = "rebuild"
	// Refused: it does not start as it is, or what waits, or is in a changelog, would be lost or
	// misread.
	Refused Judgement = "refused"
)

var judgements = []Judgement{Safe, Unknown, Rebuild, Refused}

// Finding is one thing that a [Plan] says.
type Finding struct {
	Judgement Judgement `json:"judgement"`
	// Subject and Name are what it is about, such as "store" and "counts".
	Subject string `json:"subject"`
	Name    string `json:"name"`
	// The finding and its consequence.
	What string `json:"what"`
	// Remedy is what to do; empty where nothing is to be done.
	Remedy string `json:"remedy,omitempty"`
}

// Plan is what the next start of a topology would mean. Its JSON form is for programs, and its
// fields stay.
type Plan struct {
	Application string `json:"application"`
	// Before is the fingerprint of the topology that ran, empty if it is not known.
	Before string `json:"fingerprint_before"`
	After  string `json:"fingerprint"`
	// Members are the instances that run now.
	Members []string `json:"members"`
	// Judgement is the worst of the findings.
	Judgement Judgement `json:"judgement"`
	// Findings are sorted by judgement, the worst first, then by subject and name.
	Findings []Finding `json:"findings"`
}

// planInput is everything that a plan is made of: what the topology is and was, and what the
// cluster has.
type planInput struct {
	// before is nil if it is not known.
	before *graph.Description
	after  graph.Description
	// looked says that tasks were looked at: the topics that are there are as they should be.
	looked bool
	// notRead are the topics that a pattern matches and that would not be read.
	notRead []topics.Problem
	// mismatches are the topics that do not fit, missing the internal ones that the start creates.
	mismatches []*topics.Mismatch
	missing    []string
	// unread is what waits in repartition topics whose format changes or that are read no more.
	unread map[string]restore.Unread
	// parked counts the parked records that wait in stores that the topology does not have any
	// more.
	parked map[string]int64
	// parkedUnknown are those of which it is not known, because a commit leaves it to a changelog
	// that is gone.
	parkedUnknown map[string]bool
	tasks         []taskPlanInput
	// left is what waits for tasks that the topology does not have any more.
	left []restore.Left
	// unassigned counts the partitions of inputs that are more than the state was made for.
	unassigned map[string]int32
	// deletedByClock are the changelogs whose records brokers delete after a time.
	deletedByClock map[string]time.Duration
	// members are the instances that run now.
	members []string
}

// taskPlanInput is a task of the new topology.
type taskPlanInput struct {
	id graph.TaskID
	// stop is why it would not be opened, nil if it would.
	stop *restore.StopError
	// committed says that the group has an offset for one of its inputs.
	committed bool
	// empty are its stores that hold nothing and that its last commit does not name, gone is the
	// number of stores that it names and the topology does not have.
	empty []string
	gone  int
	// holds are its stores of whose changelog a restore would read records.
	holds []string
	// current says that its last commit is of this very topology.
	current bool
}

// judge makes the plan. It reads nothing but its argument.
func (p planInput) judge() Plan {
	plan := Plan{Application: p.after.Application, After: p.after.Fingerprint, Members: append([]string{}, p.members...), Judgement: Safe}
	add := func(f ...Finding) { plan.Findings = append(plan.Findings, f...) }
	for _, m := range p.mismatches {
		what := m.Error()
		if errors.Is(m, topics.ErrAbsent) { // the name is that of the finding
			what = strings.Replace(what, "topics that do not exist: "+m.Topic+": ", "does not exist: ", 1)
		}
		add(Finding{Refused, "topic", m.Topic, what, ""})
	}
	for _, problem := range p.notRead {
		add(Finding{Safe, "topic", problem.Topic, problem.Err.Error(), ""})
	}
	for _, topic := range slices.Sorted(maps.Keys(p.unassigned)) {
		add(Finding{Rebuild, "topic", topic,
			fmt.Sprintf("has %d partitions more than the state was made for: they would not be processed", p.unassigned[topic]),
			"keys have moved to other partitions; copy the topic by key into a new one, and read that under another application id"})
	}
	for _, topic := range slices.Sorted(maps.Keys(p.deletedByClock)) {
		add(Finding{Safe, "topic", topic, fmt.Sprintf("brokers delete its records after %s by their clock, and the store still needs them where its "+
			"stream time is behind: it could not be restored on an empty disk", p.deletedByClock[topic]), topics.KeepChangelog})
	}
	for _, topic := range p.missing {
		add(Finding{Safe, "topic", topic, "does not exist: the start creates it", ""})
	}
	add(p.judgeTasks()...)
	add(p.judgeLeft()...)
	switch {
	case p.before != nil:
		plan.Before = p.before.Fingerprint
		for _, d := range graph.Compare(*p.before, p.after) {
			add(p.judgeDifference(d))
		}
	case p.started():
		add(Finding{Unknown, "topology", p.after.Name,
			"what ran before is not known: formats of stores and of records that wait are not compared",
			"name the state directory of an instance with --state-dir, or the description of that topology with --before"})
	}
	if plan.Findings == nil {
		what := "has the structure of the one that ran; functions and expressions are not compared"
		if !p.started() {
			what = "has not run yet: it begins where its sources say"
		}
		add(Finding{Safe, "topology", p.after.Name, what, ""})
	}
	rank := func(f Finding) int { return slices.Index(judgements, f.Judgement) }
	slices.SortStableFunc(plan.Findings, func(a, b Finding) int {
		if rank(a) != rank(b) {
			return rank(b) - rank(a)
		}
		return strings.Compare(a.Subject+"\x00"+a.Name, b.Subject+"\x00"+b.Name)
	})
	plan.Judgement = plan.Findings[0].Judgement
	return plan
}

// started reports whether the application has ever committed anything.
func (p planInput) started() bool {
	if !p.looked {
		return p.before != nil
	}
	return slices.ContainsFunc(p.tasks, func(t taskPlanInput) bool { return t.committed || t.stop != nil })
}

// judgeTasks says which tasks would not be opened, and which of their stores begin with nothing
// although their inputs do not.
func (p planInput) judgeTasks() []Finding {
	var findings []Finding
	empty := map[string][]string{}
	gone := map[string]int{}
	for _, t := range p.tasks {
		if t.stop != nil {
			what := "would not be opened, because state and offsets do not name each other: " + t.stop.Reason
			if t.stop.Cause != nil {
				what = fmt.Sprintf("would not be opened: %s: %v", t.stop.Reason, t.stop.Cause)
			}
			findings = append(findings, Finding{Refused, "task", t.id.String(), what, t.stop.Recovery})
			continue
		}
		if !t.committed {
			continue
		}
		for _, store := range t.empty {
			empty[store] = append(empty[store], t.id.String())
		}
		gone[t.id.Subtopology] = max(gone[t.id.Subtopology], t.gone)
	}
	for store, tasks := range empty {
		findings = append(findings, Finding{Rebuild, graph.SubjectStore, store,
			"begins empty, although its tasks have processed input: it will know only what comes from now on",
			"`onceward rebuild from-input " + strings.Join(tasks, " ") + "` before the start fills it, and writes outputs again; " +
				"if it needs no past, nothing is to be done"})
	}
	if p.before == nil {
		for subtopology, n := range gone {
			if n > 0 {
				findings = append(findings, Finding{Safe, "subtopology", subtopology,
					fmt.Sprintf("its last commits name %d stores that it does not have any more: their changelogs stay", n), ""})
			}
		}
	}
	return findings
}

// judgeLeft reports records that no task would process, if the comparison with the topology that
// ran does not report them.
func (p planInput) judgeLeft() []Finding {
	var findings []Finding
	for _, l := range p.left {
		switch {
		case l.Store != "" && p.parked[l.Store] == 0 && !p.parkedUnknown[l.Store]:
			findings = append(findings, Finding{Refused, graph.SubjectStore, l.Store, l.String(), l.Recovery()})
		case l.Store == "" && !p.unread[l.Topic].Any():
			findings = append(findings, Finding{Refused, graph.SubjectSource, l.Topic, l.String(), l.Recovery()})
		default:
		}
	}
	return findings
}

// judgeDifference judges what the tasks alone do not show.
func (p planInput) judgeDifference(d graph.Difference) Finding {
	f := Finding{Judgement: Safe, Subject: d.Subject, Name: d.Name, What: difference(d)}
	switch d.Subject {
	case graph.SubjectStore:
		p.judgeStore(d, &f)
	case graph.SubjectSource:
		p.judgeSource(d, &f)
	case graph.SubjectNode:
		if d.Attribute == graph.AttributeWindows && p.started() {
			f.Judgement = Rebuild
			f.What += ": its store has aggregates of the windows before"
			f.Remedy = "give the store another name, or empty it with `onceward rebuild from-input` before the start"
		}
	case graph.SubjectGlobalTable:
		if d.After != "" && d.Attribute != graph.AttributeLayout {
			f.What += ": each instance reads its topic from the start before it processes anything"
		}
	default:
	}
	return f
}

func (p planInput) judgeStore(d graph.Difference, f *Finding) {
	if lostOnRestart(p.before, d.Name) || lostOnRestart(&p.after, d.Name) {
		p.judgeLost(d, f)
		return
	}
	switch d.Attribute {
	case graph.AttributeExistence:
		switch {
		case d.After != "" && !p.looked:
			f.Judgement = Unknown
			f.What += ": whether it begins empty is not known, because the tasks were not looked at"
			f.Remedy = "put the topics right that are refused, and plan again"
		case d.After != "":
		case p.parked[d.Name] > 0:
			f.Judgement = Refused
			f.What += fmt.Sprintf(": %d parked records wait in it that no task would process", p.parked[d.Name])
			f.Remedy = "keep ParkKeys of the source, without the policies that park, until nothing waits"
		case p.parkedUnknown[d.Name]:
			f.Judgement = Refused
			f.What += ": parked records may wait in it, because its changelog may not be seen, has lost records, or does not " +
				"exist although the last commits name it"
			f.Remedy = "`onceward rebuild from-input` reads what waited again with its input; `onceward adopt --without-parked` gives it up"
		case fromSource(p.before, d.Name):
			f.What += ": it has no changelog that would stay; if it comes back, its input has to be read again"
		default:
			f.What += ": its changelog stays, and is in the way if a store of that name comes back"
		}
	case graph.AttributeFormats:
		if p.started() {
			f.Judgement = Rebuild
			f.What += ": its rows were written by the codecs before, and are read by the new ones"
			f.Remedy = "give the store another name, or empty it with `onceward rebuild from-input` before the start; if the new codecs read " +
				"what the old ones wrote, nothing is to be done"
		}
	case graph.AttributeLayout:
		before, errBefore := state.ParseLayout(d.Before)
		after, errAfter := state.ParseLayout(d.After)
		switch {
		case !p.started():
		case errBefore != nil || errAfter != nil || !after.Reads(before):
			p.judgeKind(d.Name, f)
		case before.Kind != after.Kind && after.Kind == state.TimestampedKind:
			f.Judgement = Rebuild
			f.What += ": it is restored in full from its changelog, and the times of its values are the stream times at which they were written"
			f.Remedy = "give the store another name, or empty it with `onceward rebuild from-input` before the start; if these times will do, " +
				"nothing is to be done"
		default:
			f.What += ": it is restored in full from its changelog"
		}
	case graph.AttributeChangelog:
		if p.started() {
			f.Judgement = Rebuild
			f.What += ": its position in the topic before says nothing of the other one"
			f.Remedy = "give the store another name, or empty it with `onceward rebuild from-input` before the start"
		}
	case graph.AttributeRows:
		if d.After == graph.InMemory {
			f.What += ": each start restores it in full from its changelog"
		} else {
			f.What += ": it is restored once in full from its changelog"
		}
	case graph.AttributeSubtopology:
		if fromSource(&p.after, d.Name) && p.started() {
			f.Judgement = Unknown
			f.What += ": its tasks have other names, and it is restored once in full from its topic: if that was compacted and does not show that " +
				"it still holds the table, they stop"
			f.Remedy = "let the topology that runs read all of the topic right before it is replaced; `onceward rebuild from-input` where a task has " +
				"stopped"
			return
		}
		f.What += ": its tasks have other names, and their databases are restored once in full from the changelogs"
	default:
	}
}

// judgeLost judges a store that is LostOnRestart, or was: no rows of it are there at the start.
func (p planInput) judgeLost(d graph.Difference, f *Finding) {
	becomes := d.Attribute == graph.AttributeRows && p.started()
	switch {
	case becomes && d.After == graph.LostOnRestart:
		f.Judgement = Rebuild
		f.What += ": its rows are gone with the start, and with each later one. Its changelog stays, and is in the way if it gets a changelog again"
		f.Remedy = "nothing is to be done if the rows may be lost; if not, take InMemory"
	case becomes:
		f.Judgement = Rebuild
		f.What += ": it begins empty once more, and keeps what comes from then on"
		f.Remedy = "if it needs no past, nothing is to be done"
	case d.Attribute == graph.AttributeExistence && d.After != "":
		f.What += ": it is empty after each start"
	case d.Attribute == graph.AttributeExistence:
		f.What += ": it has no changelog that would stay"
	}
}

// lostOnRestart reports whether nothing restores a store.
func lostOnRestart(d *graph.Description, store string) bool {
	return slices.ContainsFunc(d.Subtopologies, func(sub graph.SubtopologyDescription) bool {
		return slices.ContainsFunc(sub.Stores, func(s graph.StoreDescription) bool { return s.Name == store && s.LostOnRestart })
	})
}

// judgeKind judges a store that becomes one of another kind, which cannot read the records of the
// earlier one. A start goes by the changelog too. If the changelog is empty, as after the topic was
// deleted, no record can be misread, and rows that a directory has of it are left behind.
//
// If this topology has committed the present content, the description is that of a directory that
// it has not run in. A start there is refused if the rows of the directory came from the same
// topic, and continues if the topic was recreated since. Only the directory tells.
func (p planInput) judgeKind(store string, f *Finding) {
	holds, ours := false, true
	for _, t := range p.tasksWith(store) {
		fills := slices.Contains(t.holds, store)
		holds, ours = holds || fills, ours && (t.current || !t.committed && !fills)
	}
	switch {
	case !p.looked || holds && !ours:
		f.Judgement = Refused
		f.What += ": its changelog has records of another kind of store"
		f.Remedy = "give the store another name, or delete the topic while nothing of the application runs and empty the state with " +
			"`onceward rebuild from-input` before the start"
	case holds:
		f.Judgement = Unknown
		f.What += ": the last commit is of this topology, and the changelog has records, possibly of another kind of store too"
		f.Remedy = "nothing is to be done if the topic was deleted and created again since that topology ran in the directory. If not, start with an " +
			"empty directory if this topology has begun with an empty changelog"
	case ours:
		f.What += ": its changelog holds nothing, and the last commit is of this topology"
	default:
		f.Judgement = Rebuild
		f.What += ": its changelog holds nothing, and its tasks have processed input: it will know only what comes from now on"
		f.Remedy = "`onceward rebuild from-input` before the start fills it, and writes outputs again; if it needs no past, nothing is to be done"
	}
}

// tasksWith returns the tasks that have a store.
func (p planInput) tasksWith(store string) (tasks []taskPlanInput) {
	for _, sub := range p.after.Subtopologies {
		if !slices.ContainsFunc(sub.Stores, func(s graph.StoreDescription) bool { return s.Name == store }) {
			continue
		}
		for _, t := range p.tasks {
			if t.id.Subtopology == sub.Name {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// fromSource reports whether a store has no changelog, because it is restored from its source.
func fromSource(d *graph.Description, store string) bool {
	for _, sub := range d.Subtopologies {
		for _, s := range sub.Stores {
			if s.Name == store {
				return s.RestoredFrom != ""
			}
		}
	}
	return false
}

// keepsState reports whether the tasks that read a topic have stores that are restored.
func keepsState(d *graph.Description, topic string) bool {
	return slices.ContainsFunc(d.Subtopologies, func(sub graph.SubtopologyDescription) bool {
		keeps := slices.ContainsFunc(sub.Stores, func(s graph.StoreDescription) bool { return !s.LostOnRestart })
		return keeps && slices.ContainsFunc(sub.Sources, func(s graph.SourceDescription) bool { return s.Topic == topic })
	})
}

func (p planInput) judgeSource(d graph.Difference, f *Finding) {
	why := ""
	switch {
	case d.Attribute == graph.AttributeExistence && d.After == "":
		why = "that no task would process"
	case d.Attribute == graph.AttributeFormats:
		why = "that were written by the codecs before"
	case d.Attribute == graph.AttributeStart:
		f.What += ": it counts only where no offset is committed"
	case d.Attribute == graph.AttributePartitioner && p.started() && keepsState(&p.after, d.Name):
		f.Judgement = Rebuild
		f.What += ": the stores of its tasks were made of records that were partitioned otherwise"
		f.Remedy = "give the stores of its subtopology other names, or empty them with `onceward rebuild from-input` before the start"
	default:
	}
	waiting := p.unread[d.Name]
	if why == "" || !waiting.Any() {
		return
	}
	f.Judgement = Refused
	f.What += fmt.Sprintf(": %s wait in it %s", waiting, why)
	f.Remedy = "let the topology that runs process them, with no new input, before it is replaced"
	if waiting.Hidden {
		f.What += ", as it may be described and not read"
		f.Remedy = "allow to read that topic, so that it is known; or " + f.Remedy
	}
}

// difference is the text of a difference without its subject.
func difference(d graph.Difference) string {
	return strings.TrimPrefix(strings.TrimPrefix(d.String(), d.Subject+" "+d.Name+": "), d.Subject+" "+d.Name+" ")
}
