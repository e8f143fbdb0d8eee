package txn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// alertMax is how long an alert may take, on virtual time.
const alertMax = time.Minute

// countAndCopy counts "in" with state, and copies "plain" and, through a repartition topic, "moved"
// without.
func countAndCopy(t *testing.T) *topology.Topology {
	t.Helper()
	builder := topology.NewBuilder("counting")
	from := func(name string) topology.Stream[string, string] {
		return topology.From(builder, topology.Topic(name, schemas.String(), schemas.String()))
	}
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(from("in"), "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	from("plain").IntoNamed("copy-plain", topology.Topic("copy", schemas.String(), schemas.String()))
	topology.RepartitionWith(from("moved"), "again", schemas.String(), schemas.String()).
		IntoNamed("copy-moved", topology.Topic("copy", schemas.String(), schemas.String()))
	top, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// topicScene is an application whose topics are changed under it.
type topicScene struct {
	*testBroker
	app  *txn.App
	stop func() error
	log  *safeBuffer
}

// newTopicScene starts countAndCopy with one record of each input processed.
func newTopicScene(t *testing.T) topicScene {
	t.Helper()
	w := topicScene{testBroker: newBroker(t, 2, "in", "plain", "moved", "out", "copy"), log: &safeBuffer{}}
	w.app, w.stop = start(t, countAndCopy(t), w.config(txn.Config{
		StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}))
	waitFor(t, "the tasks", running(w.app, 8))
	for _, topic := range []string{"in", "plain", "moved"} {
		w.produce(t, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")})
	}
	w.read(t, "copy", 2)
	w.read(t, "out", 1)
	return w
}

// alerts waits for as many alerts, within alertMax, and returns them with the topic and the problem
// of each before its text.
func (w topicScene) alerts(t *testing.T, n int) (out []string) {
	t.Helper()
	began := time.Now()
	waitFor(t, fmt.Sprint(n, " alerts"), func() bool { return len(w.app.Status().Alerts) == n })
	if took := time.Since(began); took > alertMax {
		t.Errorf("the alerts took %s", took)
	}
	for _, a := range w.app.Status().Alerts {
		out = append(out, fmt.Sprintf("%s %s: %s", a.Topic, a.Problem, a.Text))
		scrape(t, w.app).expect(t, series{fmt.Sprintf("onceward_topic_problems{problem=%q,topic=%q}", a.Problem, a.Topic): 1})
		status, body := get(w.app, "/readyz")
		var ready struct{ Reasons []string }
		if err := json.Unmarshal([]byte(body), &ready); err != nil {
			t.Fatal(err)
		}
		if status != http.StatusServiceUnavailable || !slices.Contains(ready.Reasons, a.Text) {
			t.Errorf("/readyz answers %d %s, want the alert %q", status, body, a.Text)
		}
		if !w.log.hasLine("a topic is not as the application needs it", "topic="+a.Topic, "problem="+a.Problem) {
			t.Errorf("no line of the log says that topic %s is %s", a.Topic, a.Problem)
		}
	}
	return out
}

// hasLine reports whether a line has all these parts.
func (b *safeBuffer) hasLine(parts ...string) bool {
	for line := range strings.Lines(b.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return true
		}
	}
	return false
}

// states waits until the tasks of these subtopologies are stopped and all others run.
func (w topicScene) states(t *testing.T, stopped ...string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%v to be stopped", stopped), func() bool {
		for _, task := range w.app.Status().Tasks {
			want := txn.TaskRunning
			if slices.Contains(stopped, task.ID.Subtopology) {
				want = txn.TaskStopped
			}
			if task.State != want {
				return false
			}
		}
		return true
	})
}

// TestPartitionsAddedWhileRunning: of an input with state, an alert says how many partitions there
// are and how many are read. Inputs without state, also before a repartition topic, are read from
// the start of their new partitions (rule 11.2).
func TestPartitionsAddedWhileRunning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newTopicScene(t)
		w.addPartitions(t, 2, "in", "plain", "moved")
		for p := range int32(2) {
			for _, topic := range []string{"in", "plain", "moved"} {
				w.produce(t, &kgo.Record{Topic: topic, Partition: 2 + p, Key: []byte("k"), Value: []byte("v")})
			}
		}
		got := w.alerts(t, 1)
		if want := "in partitions_not_read: input in has 4 partitions, and 2 of them are read: "; !strings.HasPrefix(got[0], want) ||
			!strings.Contains(got[0], "copy the topic by key into a new one, and read that under another application id") {
			t.Errorf("the alert is %q, want %q and what to do", got[0], want)
		}
		scrape(t, w.app).expect(t, series{`onceward_input_partitions_unassigned{topic="in"}`: 2})
		began := time.Now()
		w.read(t, "copy", 2+4)
		if took := time.Since(began); took > alertMax {
			t.Errorf("the new partitions were read after %s", took)
		}
		waitFor(t, "the tasks of the new partitions", running(w.app, 8+4))
		w.read(t, "out", 1)
	})
}

// TestTopicDeletedWhileRunning: a topic that is deleted, or deleted and recreated, is an alert.
// Only the tasks that read it or keep their state in it stop. Tasks that write to it continue until
// their write fails.
func TestTopicDeletedWhileRunning(t *testing.T) {
	for _, test := range []struct {
		topic   string
		use     string
		stopped []string
	}{
		{"plain", "input", []string{"plain"}},
		{"counting-counts-changelog", "changelog", []string{"in"}},
		{"counting-again-repartition", "repartition topic", []string{"again"}},
		{"out", "output", nil},
		{"counting-rounds", "rounds topic", nil},
	} {
		for _, again := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s,again=%t", test.topic, again), func(t *testing.T) {
				w := newTopicScene(t)
				if _, err := w.adm.DeleteTopics(t.Context(), test.topic); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("%s deleted: %s %[1]s was deleted while the application ran; ", test.topic, test.use)
				if again {
					if _, err := w.adm.CreateTopic(t.Context(), 2, 1, nil, test.topic); err != nil {
						t.Fatal(err)
					}
					want = fmt.Sprintf("%s recreated: %s %[1]s was deleted and recreated while the application ran ", test.topic, test.use)
				}
				if got := w.alerts(t, 1); !strings.HasPrefix(got[0], want) {
					t.Errorf("the alert is %q, want %q", got[0], want)
				}
				w.states(t, test.stopped...)
				err := w.stop()
				if errors.Is(err, txn.ErrStopped) != (test.stopped != nil) {
					t.Errorf("Run returned %v, want that tasks are stopped: %t", err, test.stopped != nil)
				}
			})
		}
	}
}

// TestTopicNotPermittedWhileRunning: a permission that is withdrawn is an alert that names it, also
// while fetches go on.
func TestTopicNotPermittedWhileRunning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newTopicScene(t)
		a := w.absence(t)
		a.code = kerr.TopicAuthorizationFailed.Code
		a.answer.Store(1 << 30)
		got := strings.Join(w.alerts(t, 8), "\n")
		for _, want := range []string{
			`plain not_permitted: input plain: `, `has no permission to Read on Topic "plain"`,
			`out not_permitted: output out: `, `has no permission to Write on Topic "out"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the alerts are\n%s\nwant %q", got, want)
			}
		}
		waitFor(t, "Run to end", func() bool { return w.app.Status().State == txn.Stopped })
		if err := w.stop(); !errors.Is(err, txn.ErrAllStopped) {
			t.Errorf("Run returned %v, want that all tasks are stopped", err)
		}
	})
}

// TestTopicMissingForAMoment: one answer without the topics is no alert.
func TestTopicMissingForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newTopicScene(t)
		a := w.absence(t)
		a.answer.Store(2)
		waitFor(t, "the topics to be missing twice and there again", func() bool { return a.asked.Load() >= 4 })
		if got := w.app.Status().Alerts; len(got) > 0 {
			t.Errorf("there are alerts: %+v", got)
		}
		w.states(t)
	})
}
