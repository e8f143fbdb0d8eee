package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/topics"
)

// TestPlanRestoredTable: a table that is restored from its topic has no changelog that would follow
// it to tasks of other names, or stay.
func TestPlanRestoredTable(t *testing.T) {
	describe := func(opts ...topology.SourceOption) graph.Description {
		b := topology.NewBuilder("app")
		prices := topology.Topic("prices", schemas.String(), schemas.String())
		topology.TableFrom(b, prices, topology.TimestampedStore("latest", schemas.String(), schemas.String()), opts...)
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return built.Description()
	}
	renamed := func(d graph.Description) graph.Description {
		d.Subtopologies[0].Name = "others"
		return d
	}
	without := func(d graph.Description) graph.Description {
		d.Subtopologies[0].Stores = nil
		return d
	}
	for name, test := range map[string]struct {
		before, after graph.Description
		want          Judgement
		text          string
	}{
		"other names": {
			renamed(describe(topology.RestoreFromTopic())), describe(topology.RestoreFromTopic()), Unknown, "does not show that it still holds the table",
		},
		"other names, with a changelog": {renamed(describe()), describe(), Safe, "restored once in full from the changelogs"},
		"gone":                          {describe(topology.RestoreFromTopic()), without(describe()), Safe, "it has no changelog that would stay"},
		"gone, with a changelog":        {describe(), without(describe()), Safe, "its changelog stays"},
	} {
		task := taskPlanInput{id: graph.TaskID{Subtopology: "prices"}, committed: true}
		plan := planInput{looked: true, before: &test.before, after: test.after, unread: map[string]restore.Unread{}, tasks: []taskPlanInput{task}}.judge()
		if plan.Judgement != test.want || !strings.Contains(plan.text(), test.text) {
			t.Errorf("%s: the plan is %s:\n%s", name, plan.Judgement, plan.text())
		}
	}
}

// planned declares the topology of these tests: lines are sent through a repartition topic and
// counted.
type planned struct {
	lines  schemas.Codec[string]
	counts topology.AnyStore
	moved  string
	opts   []topology.RepartitionOption
}

func plannedBase() planned {
	return planned{schemas.String(), topology.KeyValueStore("counts", schemas.String(), schemas.Int64()), "words", nil}
}

func (d planned) describe(t *testing.T) graph.Description {
	t.Helper()
	b := topology.NewBuilder("app")
	s := topology.From(b, topology.Topic("lines", schemas.String(), schemas.String()))
	topology.Stateful(topology.RepartitionWith(s, d.moved, schemas.String(), d.lines, d.opts...), "count", d.counts).
		Process(func(*topology.Setup) (topology.Handler[string, string], error) {
			return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
		})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built.Description()
}

func (p Plan) text() string {
	var s strings.Builder
	for _, f := range p.Findings {
		fmt.Fprintf(&s, "%s %s %s: %s", f.Judgement, f.Subject, f.Name, f.What)
		if f.Remedy != "" {
			s.WriteString(" -> " + f.Remedy)
		}
		s.WriteString("\n")
	}
	return s.String()
}

func TestPlanJudges(t *testing.T) {
	words := graph.TaskID{Subtopology: "words", Partition: 1}
	running := taskPlanInput{id: words, committed: true}
	windowed := func(d *planned) {
		d.counts = topology.WindowStore("counts", schemas.String(), schemas.Int64(), time.Hour)
	}
	byFirst := func(d *planned) {
		d.opts = append(d.opts, topology.PartitionBy("first", func(string, string, string, int32) int32 { return 0 }))
	}
	for name, test := range map[string]struct {
		change  func(d *planned)
		cluster func(p *planInput)
		want    Judgement
		// texts have to be in the findings, in this order.
		texts []string
	}{
		"nothing has changed": {want: Safe, texts: []string{"safe topology app: has the structure of the one that ran; functions and expressions are not compared"}},
		"a new application": {
			cluster: func(p *planInput) { p.tasks, p.before = nil, nil; p.missing = []string{"app-rounds"} },
			want:    Safe, texts: []string{"safe topic app-rounds: does not exist: the start creates it"},
		},
		"it is not known what ran": {
			cluster: func(p *planInput) { p.before = nil }, want: Unknown, texts: []string{"unknown topology app: ", "--state-dir"},
		},
		"codecs of a store": {
			change: func(d *planned) { d.counts = topology.KeyValueStore("counts", schemas.String(), schemas.String()) },
			want:   Rebuild, texts: []string{
				"rebuild store counts: formats (string, int64) becomes (string, string): its rows", "another name",
			},
		},
		"codecs of a store that has nothing yet": {
			change:  func(d *planned) { d.counts = topology.KeyValueStore("counts", schemas.String(), schemas.String()) },
			cluster: func(p *planInput) { p.tasks[0].committed = false },
			want:    Safe, texts: []string{"safe store counts: formats"},
		},
		"store in memory": {
			change: func(d *planned) {
				d.counts = topology.KeyValueStore("counts", schemas.String(), schemas.Int64()).InMemory()
			},
			want: Safe, texts: []string{"safe store counts: rows on disk becomes in memory: each start restores it in full"},
		},
		"partitioner": {
			change: byFirst, want: Rebuild, texts: []string{
				"rebuild source app-words-repartition: partitioner that of Kafka becomes first: the stores of its tasks", "other names",
			},
		},
		"partitioner of an application that has not started": {
			change: byFirst, cluster: func(p *planInput) { p.tasks[0].committed = false },
			want: Safe, texts: []string{"safe source app-words-repartition: partitioner"},
		},
		"kind of a store": {
			change:  windowed,
			cluster: func(p *planInput) { p.tasks[0].holds = []string{"counts"} },
			want:    Refused, texts: []string{"refused store counts: layout keyvalue becomes window", "another name"},
		},
		"kind of a store that this topology has filled, by the description of a directory elsewhere": {
			change:  windowed,
			cluster: func(p *planInput) { p.tasks[0].holds, p.tasks[0].current = []string{"counts"}, true },
			want:    Unknown, texts: []string{
				"unknown store counts: layout keyvalue becomes window", "the changelog has records", "created again since",
			},
		},
		"kind of a store that holds records of nobody's commit": {
			change: windowed,
			cluster: func(p *planInput) {
				p.tasks = append(p.tasks, taskPlanInput{id: p.tasks[0].id, committed: true, current: true})
				p.tasks[0].holds, p.tasks[0].committed = []string{"counts"}, false
			},
			want: Refused, texts: []string{"refused store counts: layout keyvalue becomes window", "another name"},
		},
		"kind of a store that holds nothing": {
			change: windowed,
			want:   Rebuild, texts: []string{"rebuild store counts: layout keyvalue becomes window", "its changelog holds nothing", "rebuild from-input"},
		},
		"kind of a store that was emptied for it": {
			change:  windowed,
			cluster: func(p *planInput) { p.tasks[0].current = true },
			want:    Safe, texts: []string{"safe store counts: layout keyvalue becomes window", "the last commit is of this topology"},
		},
		"a repartition topic that is gone, and cannot be read": {
			cluster: func(p *planInput) {
				p.left = []restore.Left{{Topic: "app-old-repartition", Unread: restore.Unread{Hidden: true}}}
			},
			want: Refused, texts: []string{
				"refused source app-old-repartition: cannot tell whether records wait", "allow the application to read that topic",
			},
		},
		"kind of a store whose records are the same": {
			change: func(d *planned) { d.counts = topology.TimestampedStore("counts", schemas.String(), schemas.Int64()) },
			want:   Rebuild, texts: []string{"rebuild store counts: layout keyvalue becomes timestamped: it is restored in full", "stream times"},
		},
		"parked records of a task that is gone": {
			cluster: func(p *planInput) {
				p.left = []restore.Left{
					{Topic: "side", Store: "side.parked", Unread: restore.Unread{Records: 3}},
					{Topic: "app-old-repartition", Unread: restore.Unread{Records: 2}},
				}
			},
			want: Refused, texts: []string{
				"refused source app-old-repartition: 2 records wait in the repartition topic", "refused store side.parked: 3 parked records wait",
				"keep the source with its ParkKeys",
			},
		},
		"another store": {
			change:  func(d *planned) { d.counts = topology.KeyValueStore("totals", schemas.String(), schemas.Int64()) },
			cluster: func(p *planInput) { p.tasks[0].empty = []string{"totals"} },
			want:    Rebuild, texts: []string{
				"rebuild store totals: begins empty", "rebuild from-input words_1", "safe store counts: is gone", "comes back",
			},
		},
		"a store of parked records that is gone, and records wait in it": {
			change:  func(d *planned) { d.counts = topology.KeyValueStore("totals", schemas.String(), schemas.Int64()) },
			cluster: func(p *planInput) { p.parked = map[string]int64{"counts": 5} },
			want:    Refused, texts: []string{"refused store counts: is gone", "5 parked records wait in it", "keep ParkKeys"},
		},
		"a store of parked records that is gone, with its changelog": {
			change:  func(d *planned) { d.counts = topology.KeyValueStore("totals", schemas.String(), schemas.Int64()) },
			cluster: func(p *planInput) { p.parkedUnknown = map[string]bool{"counts": true} },
			want:    Refused, texts: []string{"refused store counts: is gone", "parked records may wait in it", "adopt --without-parked"},
		},
		"codec of a repartition topic that is read to its end": {
			change: func(d *planned) { d.lines = schemas.JSON[string]() },
			want:   Safe, texts: []string{"safe source app-words-repartition: formats (string, string) becomes (string, json)"},
		},
		"codec of a repartition topic in which records wait": {
			change:  func(d *planned) { d.lines = schemas.JSON[string]() },
			cluster: func(p *planInput) { p.unread["app-words-repartition"] = restore.Unread{Records: 7} },
			want:    Refused, texts: []string{"refused source app-words-repartition: formats", "7 records wait in it that were written by"},
		},
		"a repartition topic that is gone, and records wait in it": {
			change:  func(d *planned) { d.moved = "others" },
			cluster: func(p *planInput) { p.unread["app-words-repartition"] = restore.Unread{Records: 7} },
			want:    Refused, texts: []string{
				"refused source app-words-repartition: is gone", "7 records wait in it that no task", "its tasks have other names",
			},
		},
		"a task that does not open": {
			cluster: func(p *planInput) {
				p.tasks[0].stop = &restore.StopError{Task: words, Reason: "offsets went back", Recovery: "Recovery action: none"}
			},
			want: Refused, texts: []string{"refused task words_1: would not be opened", "offsets went back -> Recovery action: none"},
		},
		"an input that has grown": {
			cluster: func(p *planInput) { p.unassigned = map[string]int32{"lines": 2} },
			want:    Rebuild, texts: []string{"rebuild topic lines: has 2 partitions more than the state was made for", "another application id"},
		},
		"a topic that does not fit, and codecs": {
			change: func(d *planned) { d.counts = topology.KeyValueStore("counts", schemas.String(), schemas.String()) },
			cluster: func(p *planInput) {
				p.mismatches, p.tasks = []*topics.Mismatch{{Topic: "lines", Use: "topic"}}, nil
			},
			want: Refused, texts: []string{"refused topic lines: ", "rebuild store counts: formats"},
		},
		"a topic that does not fit": {
			cluster: func(p *planInput) {
				p.mismatches = []*topics.Mismatch{{Topic: "lines", Use: "topic", Setting: "x", Found: "1", Needed: "2", Remedy: "change it"}}
			},
			want: Refused, texts: []string{"refused topic lines: topic lines: x is 1 and has to be 2: change it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := plannedBase()
			before := d.describe(t)
			if test.change != nil {
				test.change(&d)
			}
			p := planInput{looked: true, before: &before, after: d.describe(t), unread: map[string]restore.Unread{}, tasks: []taskPlanInput{running}}
			if test.cluster != nil {
				test.cluster(&p)
			}
			p.looked = len(p.mismatches) == 0
			plan := p.judge()
			rest, ok := plan.text(), plan.Judgement == test.want
			for _, text := range test.texts {
				var found bool
				_, rest, found = strings.Cut(rest, text)
				ok = ok && found
			}
			if !ok {
				t.Errorf("judged %s, want %s with %q:\n%s", plan.Judgement, test.want, test.texts, plan.text())
			}
		})
	}
}

// TestPlanJudgesWindows: what is stored of other windows is no start for these.
func TestPlanJudgesWindows(t *testing.T) {
	windows := graph.Difference{
		Subject: graph.SubjectNode, Name: "counts", Attribute: graph.AttributeWindows, Before: "size 1h0m0s", After: "size 2h0m0s",
	}
	for started, want := range map[bool]Judgement{true: Rebuild, false: Safe} {
		p := planInput{looked: true, tasks: []taskPlanInput{{committed: started}}}
		if f := p.judgeDifference(windows); f.Judgement != want || !strings.HasPrefix(f.What, "windows size 1h0m0s becomes size 2h0m0s") {
			t.Errorf("started %t: %+v", started, f)
		}
	}
}
