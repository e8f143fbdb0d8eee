package txn_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// countPattern counts by key the records of all topics that begin with "events.", and copies those
// of "plain".
func countPattern(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	events := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(events.Repartition("by-key", topology.Partitions(2)), "count", counts, countRecord).
		Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	topology.From(b, topology.Topic("plain", schemas.String(), schemas.String())).Into(topology.Topic("copy", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// patternScene is a cluster for countPattern, with events.a of two partitions.
type patternScene struct {
	*testBroker
	sent int
}

func newPatternScene(t *testing.T, topics ...string) *patternScene {
	t.Helper()
	return &patternScene{testBroker: newBroker(t, 2, append([]string{"plain", "copy", "out"}, topics...)...)}
}

// send writes n records of one key to a topic with so many partitions.
func (s *patternScene) send(t *testing.T, topic string, partitions int32, n int) {
	t.Helper()
	for i := range n {
		s.produce(t, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Key: []byte("key"), Value: []byte("v")})
	}
	s.sent += n
}

// counted waits until all records that were sent are counted, each once.
func (s *patternScene) counted(t *testing.T) {
	t.Helper()
	if last := consecutive(t, s.read(t, "out", s.sent))["key"]; last != int64(s.sent) {
		t.Errorf("the count is %d, want %d", last, s.sent)
	}
}

func (s *patternScene) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	if _, err := s.adm.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func (s *patternScene) delete(t *testing.T, topic string) {
	t.Helper()
	if _, err := s.adm.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

// lookMax is the interval of the look at the topics, with a moment for the membership that follows.
const lookMax = 15 * time.Second

// TestPatternFindsTopics: topics that are created while the application runs are read from their
// first records, soon, whatever their numbers of partitions. A topic that the pattern does not
// match is not read: that is the negative control. An internal topic is not read either.
func TestPatternFindsTopics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a")
		app, _ := start(t, countPattern(t), s.config(txn.Config{StateDir: t.TempDir(), Workers: 2}))
		waitFor(t, "the tasks", running(app, 6))
		s.send(t, "events.a", 2, 20)
		s.counted(t)
		for i, partitions := range []int32{3, 1} {
			topic := fmt.Sprint("events.new-", i)
			s.create(t, topic, partitions)
			s.create(t, fmt.Sprint("other.new-", i), partitions)
			began := time.Now()
			s.send(t, topic, partitions, 30)
			s.send(t, "events.a", 2, 10)
			s.produce(t, &kgo.Record{Topic: fmt.Sprint("other.new-", i), Key: []byte("key"), Value: []byte("v")})
			s.counted(t)
			if took := time.Since(began); i == 0 && took > lookMax {
				t.Errorf("the records of %s were read after %s", topic, took)
			}
		}
		waitFor(t, "the tasks of the new topics", running(app, 6+3+1))
		if alerts := app.Status().Alerts; len(alerts) > 0 {
			t.Errorf("there are alerts: %+v", alerts)
		}
	})
}

// TestPatternOfTwoInstances: the instances find new topics at different times, and so know
// different topics for a while. Each record is processed once, and in the end both have an equal
// share.
func TestPatternOfTwoInstances(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a")
		var apps []*txn.App
		for _, instance := range []string{"one", "two"} {
			app, _ := start(t, countPattern(t), s.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: instance}))
			apps = append(apps, app)
			<-time.After(5 * time.Second) // between the looks of the two
		}
		share := func(n int) {
			t.Helper()
			waitFor(t, fmt.Sprint(n, " tasks at each"), func() bool { return running(apps[0], n)() && running(apps[1], n)() })
		}
		share(3)
		for i := range 3 {
			topic := fmt.Sprint("events.new-", i)
			s.create(t, topic, 2)
			for range 20 { // before, while and after the topic is found
				s.send(t, topic, 2, 2)
				s.send(t, "events.a", 2, 2)
				<-time.After(time.Second)
			}
			s.counted(t)
		}
		share(6)
	})
}

// TestPatternTopicIsDeleted: the tasks of a topic that is deleted stop, and it is an alert. All
// others go on. A resume of one of the stopped tasks, which is the word of an operator, goes on
// without the topic.
func TestPatternTopicIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a", "events.b")
		log := &safeBuffer{}
		app, _ := start(t, countPattern(t), s.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(log, nil))}))
		waitFor(t, "the tasks", running(app, 8))
		s.send(t, "events.a", 2, 10)
		s.send(t, "events.b", 2, 10)
		s.counted(t)
		s.delete(t, "events.b")
		scene := topicScene{testBroker: s.testBroker, app: app, log: log}
		const want = "events.b deleted: input events.b, which a pattern matches, was deleted while the application ran; "
		if got := scene.alerts(t, 1); !strings.HasPrefix(got[0], want) {
			t.Errorf("the alert is %q", got[0])
		}
		scene.states(t, "events.b")
		s.send(t, "events.a", 2, 10)
		s.counted(t)
		for _, task := range app.Status().Tasks {
			if task.ID.String() == "events.b_0" {
				if err := app.Resume(task.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		waitFor(t, "the tasks without the topic", func() bool { return running(app, 6)() && len(app.Status().Tasks) == 6 })
		waitFor(t, "the alert to end", func() bool { return len(app.Status().Alerts) == 0 })
		if !log.hasLine("topics that a pattern has matched are gone and are not read any more", "topics=events.b") {
			t.Error("no line of the log says that the topic is not read any more")
		}
		s.send(t, "events.a", 2, 10)
		s.counted(t)
	})
}

// TestPatternAfterARestart: topics that came and went while no instance ran. A new one is read from
// its start, and one that stayed from where it was.
func TestPatternAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a", "events.gone")
		cfg := s.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, countPattern(t), cfg)
		waitFor(t, "the tasks", running(app, 8))
		s.send(t, "events.a", 2, 10)
		s.send(t, "events.gone", 2, 10)
		s.counted(t)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s.delete(t, "events.gone")
		s.create(t, "events.new", 4)
		s.send(t, "events.new", 4, 10)
		s.send(t, "events.a", 2, 10)
		app, _ = start(t, countPattern(t), cfg)
		s.counted(t)
		waitFor(t, "the tasks of what is there", func() bool { return running(app, 2+4+4)() && len(app.Status().Tasks) == 10 })
	})
}

// TestPatternWithoutTopics: other tasks run without any topic of the pattern. A topology that would
// have no task is refused, and the error names the pattern.
func TestPatternWithoutTopics(t *testing.T) {
	bubble(t, "other tasks", func(t *testing.T) {
		s := newPatternScene(t)
		app, _ := start(t, countPattern(t), s.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the tasks", running(app, 4))
		s.create(t, "events.first", 1)
		s.send(t, "events.first", 1, 10)
		s.counted(t)
	})
	bubble(t, "no task", func(t *testing.T) {
		s := newPatternScene(t)
		b := topology.NewBuilder("copying")
		topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String()).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, err := txn.New(top, s.config(txn.Config{StateDir: t.TempDir(), Logger: testLogger(t)}))
		if err != nil {
			t.Fatal(err)
		}
		const want = `topics that do not exist: none matches events\..*: create them first`
		if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned %v, want %q", err, want)
		}
	})
}

// TestPatternLeavesOut: a new topic with which the next membership would be refused is not read,
// and is an alert until it fits. One topic is matched by two patterns. Another one has larger
// records than the repartition topic takes. The application goes on.
func TestPatternLeavesOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a")
		b := topology.NewBuilder("counting")
		out := topology.Topic("out", schemas.String(), schemas.String())
		topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String()).Repartition("moved", topology.Partitions(1)).Into(out)
		topology.FromPattern(b, "twice", `.*\.twice`, schemas.String(), schemas.String()).IntoNamed("again", out)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		log := &safeBuffer{}
		app, _ := start(t, top, s.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(log, nil))}))
		waitFor(t, "the tasks", running(app, 3))
		s.create(t, "events.twice", 2)
		size := "2000000"
		if _, err := s.adm.CreateTopic(t.Context(), 2, 1, map[string]*string{"max.message.bytes": &size}, "events.large"); err != nil {
			t.Fatal(err)
		}
		scene := topicScene{testBroker: s.testBroker, app: app, log: log}
		got := strings.Join(scene.alerts(t, 2), "\n")
		for _, want := range []string{
			"events.twice partitions_not_read: input events.twice is not read: the patterns of the sources events and twice match it",
			"events.large partitions_not_read: input events.large is not read: its max.message.bytes is 2000000, " +
				"and that of counting-moved-repartition is 1048588",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the alerts are\n%s\nwant %q", got, want)
			}
		}
		s.send(t, "events.twice", 2, 4)
		s.send(t, "events.a", 2, 4)
		s.read(t, "out", 4)
		s.delete(t, "events.large")
		waitFor(t, "one alert", func() bool { return len(app.Status().Alerts) == 1 })
		s.read(t, "out", 4)
	})
}

// TestPatternTools: the tools of operators know the tasks of the topics that are there.
func TestPatternTools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPatternScene(t, "events.a", "events.b")
		top := countPattern(t)
		app, stop := start(t, top, s.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the tasks", running(app, 8))
		s.send(t, "events.a", 2, 10)
		s.send(t, "events.b", 2, 10)
		s.counted(t)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		application, ran := s.office(t).Application(top), top.Description()
		plan, err := application.Plan(t.Context(), &ran)
		if err != nil || plan.Judgement != admin.Safe {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		open, err := application.Transactions(t.Context())
		if err != nil || open.Unasked != "" || len(open.Transactions) > 0 {
			t.Errorf("open transactions: %+v, %v", open, err)
		}
		report, err := application.RebuildFromInput(t.Context(), admin.Options{DryRun: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var tasks []string
		for _, task := range report.Tasks {
			tasks = append(tasks, task.Task)
		}
		if got, want := strings.Join(tasks, " "), "by-key_0 by-key_1 events.a_0 events.a_1 events.b_0 events.b_1 plain_0 plain_1"; got != want {
			t.Errorf("the tasks are %s, want %s", got, want)
		}
	})
}
