//go:build unix

package processing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// definitionScene is the two applications on a cluster, with everything that was fed to them.
type definitionScene struct {
	t        *testing.T
	cluster  *cluster.Cluster
	admin    *admin.Client
	producer *kgo.Client
	reader   *kgo.Client
	settings definitionSettings
	// beside are the settings of the application of the second definition, which is second once it
	// was built.
	beside definitionSettings
	second *instance.App
	facts  amounts
	fed    int
	// served is the highest version of each key that the reader has seen, from any instance.
	served map[string]int64
	// commands counts those that were given, lives those that have begun.
	commands, lives int
}

// newDefinitionScene makes the topics.
func newDefinitionScene(t *testing.T, c *cluster.Cluster) *definitionScene {
	t.Helper()
	prefix, dir := c.Name(t, "")+"-", t.TempDir()
	s := &definitionScene{
		t: t, cluster: c, producer: c.Client(t), facts: amounts{}, served: map[string]int64{},
		settings: definitionSettings{
			Brokers: c.Brokers(), Application: prefix + "app", Instance: "one", StateDir: filepath.Join(dir, "one"), Prefix: prefix,
			Definition: firstDefinition,
		},
	}
	s.beside = s.settings
	s.beside.Application, s.beside.StateDir, s.beside.Definition = prefix+"app-2", filepath.Join(dir, "beside"), secondDefinition
	topics := []string{TopicEvents, topicRows, TopicCommands, TopicAnswers, topicServed, TopicDead}
	for i, name := range topics {
		topics[i] = prefix + name
	}
	c.CreateTopics(t, Partitions, topics...)
	s.reader = c.Client(t, kgo.ConsumeTopics(prefix+topicServed), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(5*pollOf(c)))
	s.admin = connect(t, c)
	return s
}

const (
	// definitionKeys are in both partitions.
	definitionKeys = 12
	// eventsAtATime is how many events are fed at once: two of each key.
	eventsAtATime = 2 * definitionKeys
)

// feed writes one batch more.
func (s *definitionScene) feed() {
	s.t.Helper()
	var records []*kgo.Record
	for range eventsAtATime {
		key := fmt.Sprintf("key-%d", s.fed%definitionKeys)
		amount := int64(s.fed%7 + 2) // not 1, which is its square
		s.fed++
		s.facts[key] = append(s.facts[key], amount)
		value, err := json.Marshal(amountEvent{Version: int64(len(s.facts[key])), Amount: amount})
		if err != nil {
			s.t.Fatal(err)
		}
		records = append(records, &kgo.Record{
			Topic: s.settings.Prefix + TopicEvents, Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{{Key: headerEvent}},
		})
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until something holds of what was served. lives returns an error if no life is left
// that could serve it.
func (s *definitionScene) until(what string, lives, holds func() error) {
	s.t.Helper()
	instance.Await(s.t, what, lives, func() error { s.look(); return holds() })
}

// look reads for a moment what was served.
func (s *definitionScene) look() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), pollOf(s.cluster))
	defer cancel()
	s.reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		var v sumRow
		if err := json.Unmarshal(r.Value, &v); err != nil {
			s.t.Fatalf("%s[%d]@%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
		s.served[string(r.Key)] = max(s.served[string(r.Key)], v.Version)
	})
}

// finished returns an error unless everything that was fed was served.
func (s *definitionScene) finished() error {
	for key, amounts := range s.facts {
		if n := s.served[key]; n < int64(len(amounts)) {
			return fmt.Errorf("key %s was served up to version %d of %d", key, n, len(amounts))
		}
	}
	return nil
}

// finish waits until everything that was fed was served.
func (s *definitionScene) finish(lives func() error) {
	s.t.Helper()
	s.until("the end of everything that was fed", lives, s.finished)
}

// feedUntil feeds batch after batch, each when the one before was served, until stop is closed.
func (s *definitionScene) feedUntil(stop <-chan struct{}, what string, lives func() error) {
	s.t.Helper()
	for deadline := time.Now().Add(instance.Patience); !instance.Closed(stop); {
		s.feed()
		s.until(what+", or the end of what was fed", func() error {
			if err := lives(); err != nil && !instance.Closed(stop) {
				return err
			}
			return nil
		}, func() error {
			if instance.Closed(stop) {
				return nil
			}
			return s.finished()
		})
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within %s", what, instance.Patience)
		}
	}
}

// start begins a life in this process, without failpoints.
func (s *definitionScene) start(settings definitionSettings) *instance.App {
	s.t.Helper()
	host := s.hostName(settings)
	return instance.StartOn(s.t, s.cluster, host, settings, "", instance.NewLog(s.t, host))
}

// hostName returns the host of another incarnation.
func (s *definitionScene) hostName(settings definitionSettings) string {
	s.lives++
	return fmt.Sprintf("definition-%d.%d", settings.Definition, s.lives)
}

// startArmed begins a life with points armed. The channels are closed, one after the other, when
// the lines have been said.
func (s *definitionScene) startArmed(settings definitionSettings, arm string, lines ...string) (v instance.Victim, said []chan struct{}) {
	s.t.Helper()
	log := instance.NewLog(s.t, "the armed life of "+settings.Application)
	said = log.Await(lines...)
	return instance.StartVictim(s.t, s.cluster, definitionProgram, s.hostName(settings), settings, arm, log), said
}

// working waits until all tasks of a life run.
func (s *definitionScene) working(v instance.Victim) {
	s.t.Helper()
	v.Await("its tasks at work", func() bool {
		tasks := v.Status().Tasks
		return len(tasks) == Partitions && !slices.ContainsFunc(tasks, func(t txn.TaskStatus) bool { return t.State != txn.TaskRunning })
	})
}

// givenCommand is a command that every partition has to answer.
type givenCommand struct {
	projection.Command
	// done is closed when all have answered, or it is too late; the others are valid then.
	done    chan struct{}
	answers map[int32]projection.Answer
	err     error
}

// command makes a command, under an id of its own.
func (s *definitionScene) command(action projection.Action, from, to uint16) projection.Command {
	s.commands++
	return projection.Command{ID: fmt.Sprintf("command-%d", s.commands), Action: action, From: from, To: to}
}

// give writes a command to every partition, and returns when it is there.
func (s *definitionScene) give(c projection.Command) *givenCommand {
	s.t.Helper()
	topic := s.settings.Prefix + TopicCommands
	before, err := s.cluster.EndOffsets(s.t.Context(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	value, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	g := &givenCommand{Command: c, done: make(chan struct{}), answers: map[int32]projection.Answer{}}
	go func() {
		defer close(g.done)
		ctx, cancel := context.WithTimeout(s.t.Context(), instance.Patience)
		defer cancel()
		var answers map[int32]admin.Record
		answers, g.err = s.admin.Ask(ctx, admin.Question{
			Topic: topic, Answers: s.settings.Prefix + TopicAnswers, ID: c.ID, Value: value,
		})
		for p, r := range answers {
			var a projection.Answer
			g.err = errors.Join(g.err, json.Unmarshal(r.Value, &a))
			g.answers[p] = a
		}
	}()
	s.until("the command in its topic", func() error {
		if instance.Closed(g.done) {
			return errors.Join(errors.New("it is over"), g.err)
		}
		return nil
	}, func() error {
		now, err := s.cluster.EndOffsets(s.t.Context(), topic)
		for p := range now {
			if now[p] == before[p] {
				return fmt.Errorf("partition %d does not have it", p)
			}
		}
		return err
	})
	return g
}

// wait returns the answers of all partitions.
func (s *definitionScene) wait(g *givenCommand) map[int32]projection.Answer {
	s.t.Helper()
	<-g.done
	if g.err != nil {
		s.t.Fatalf("command %+v: %v", g.Command, g.err)
	}
	return g.answers
}

// alive returns what tells whether a life, and the application of the second definition, go on.
func (s *definitionScene) alive(life func() error) func() error {
	return func() error {
		if s.second == nil {
			return life()
		}
		return errors.Join(life(), s.second.Alive())
	}
}

// follow asks until every partition answers that a definition could follow the active one, or is
// that already. It returns in how many it is.
func (s *definitionScene) follow(lives func() error, from, to uint16) (done int) {
	s.t.Helper()
	s.until(fmt.Sprintf("definition %d being able to follow %d", to, from), lives, func() error {
		done = 0
		for p, a := range s.wait(s.give(s.command(projection.Verify, from, to))) {
			switch {
			case a.Active == to:
				done++
			case a.Outcome != projection.Verified:
				return fmt.Errorf("partition %d: %s", p, a.Reason)
			}
		}
		return nil
	})
	return done
}

// verify waits until both definitions have everything that was fed. The definition from has to be
// the active one.
func (s *definitionScene) verify(l *instance.App, from, to uint16) {
	s.t.Helper()
	s.finish(s.alive(l.Alive))
	if done := s.follow(s.alive(l.Alive), from, to); done > 0 {
		s.t.Fatalf("definition %d is the active one in %d partitions, want %d in all", to, done, from)
	}
}

// build begins the application of the second definition, in a life that is killed at the point, and
// goes on with it in another one.
func (s *definitionScene) build(first *instance.App, point string) {
	s.t.Helper()
	v, said := s.startArmed(s.beside, point+"=kill,skip=2", "failpoint "+point+" kill")
	s.feedUntil(said[0], point, func() error { return errors.Join(first.Alive(), v.Alive()) })
	s.beside.StateDir = v.Killed()
	s.second = s.start(s.beside)
}

// commitPoints are those of a commit.
var commitPoints = []string{
	"flush-before", "flush-after", "offsets-before", "offsets-after", "end-before", "end-after", "apply-before", "apply-after",
}

// isCommitted reports whether a transaction is, when its round has come to the point.
func isCommitted(point string) bool {
	return slices.Index(commitPoints, point) > slices.Index(commitPoints, "end-before")
}

// switches has the application switch in a life that is killed at the point while it does so, and
// returns the life that has finished it, and the command. Before, the application is down, and both
// definitions have everything that was fed.
func (s *definitionScene) switches(point string, from, to uint16) (*instance.App, projection.Command) {
	s.t.Helper()
	// The first record of the life is the command, and its first round that of the switch. The
	// delay lets events join it.
	v, said := s.startArmed(s.settings, "process-before=delay:50ms;"+point+"=kill", "failpoint process-before delay", "failpoint "+point+" kill")
	s.working(v)
	g := s.give(s.command(projection.Switch, from, to))
	v.Await("work on the command", func() bool { return instance.Closed(said[0]) })
	s.feed()
	s.feedUntil(said[1], point, s.alive(v.Alive))
	s.settings.StateDir = v.Killed()
	s.met(point, g)
	s.feed() // while the application is down
	l := s.start(s.settings)
	s.feedUntil(g.done, "the answers", s.alive(l.Alive))
	s.complete(l, g, to)
	return l, g.Command
}

// complete does what an operator does who is told that some partitions have not switched: under
// load the next definition can be behind for a moment.
func (s *definitionScene) complete(l *instance.App, g *givenCommand, to uint16) {
	s.t.Helper()
	for range Partitions + 1 {
		refused := 0
		for _, a := range s.wait(g) {
			if a.Active != to {
				refused++
			}
		}
		if refused == 0 {
			return
		}
		s.finish(s.alive(l.Alive))
		s.follow(s.alive(l.Alive), g.From, to)
		g = s.give(s.command(projection.Switch, g.From, to))
	}
	s.t.Fatalf("not all partitions have switched to definition %d, although it could follow", to)
}

// met fails the test unless the kill has met the round of the command: an answer can be read if,
// and only if, that round was committed.
func (s *definitionScene) met(point string, g *givenCommand) {
	s.t.Helper()
	if !isCommitted(point) {
		if n := s.switched(g.Command); n > 0 {
			s.t.Fatalf("the process was killed at %s, and %d partitions have switched before", point, n)
		}
		return
	}
	s.until("an answer of the round that was killed at "+point, func() error { return nil }, func() error {
		if s.switched(g.Command) == 0 {
			return errors.New("no partition has switched")
		}
		return nil
	})
}

// switched returns how many partitions have switched for a command, by what can be read now.
func (s *definitionScene) switched(c projection.Command) (n int) {
	s.t.Helper()
	partitions, err := s.cluster.ReadStable(s.t.Context(), s.settings.Prefix+TopicAnswers)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range s.read(slices.Concat(partitions...)) {
		if a.Command == c && a.Outcome == projection.Switched {
			n++
		}
	}
	return n
}

// read reads answers.
func (s *definitionScene) read(records []*kgo.Record) []projection.Answer {
	s.t.Helper()
	answers := make([]projection.Answer, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Value, &answers[i]); err != nil {
			s.t.Fatalf("%s[%d]@%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
	}
	return answers
}

// repeated gives a command again that was decided.
func (s *definitionScene) repeated(c projection.Command, active uint16) {
	s.t.Helper()
	for p, a := range s.wait(s.give(c)) {
		if a.Outcome != projection.Repeated || a.Active != active {
			s.t.Errorf("partition %d: the command is %s the second time, and definition %d active, want %d", p, a.Outcome, a.Active, active)
		}
	}
}

// lose takes the directory of the application away.
func (s *definitionScene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.settings.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// judged holds all that was served against the recount.
func (s *definitionScene) judged(topic string, definitions ...uint16) error {
	s.t.Helper()
	records, err := s.cluster.ReadAll(s.t.Context(), s.settings.Prefix+topic)
	if err != nil {
		s.t.Fatal(err)
	}
	rows, err := readRows(records)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.facts.check(rows, definitions...)
}

// judge is the end of a scene that has switched there and back.
func (s *definitionScene) judge() {
	s.t.Helper()
	if err := s.judged(topicServed, firstDefinition, secondDefinition, firstDefinition); err != nil {
		s.t.Errorf("what was served: %v", err)
	}
	if err := s.judged(topicRows, secondDefinition); err != nil {
		s.t.Errorf("the rows of definition 2: %v", err)
	}
	times := map[uint16]int{}
	for _, a := range s.read(s.cluster.Records(s.t, s.settings.Prefix+TopicAnswers)) {
		if a.Outcome == projection.Switched {
			times[a.Active]++
		}
	}
	if times[firstDefinition] != Partitions || times[secondDefinition] != Partitions {
		s.t.Errorf("%d partitions have switched to definition 2 and %d to definition 1, want %d each way", times[secondDefinition],
			times[firstDefinition], Partitions)
	}
	if n := len(s.cluster.Records(s.t, s.settings.Prefix+TopicDead)); n > 0 {
		s.t.Errorf("there are %d dead letters", n)
	}
	if open, err := s.cluster.OpenTransactions(s.t.Context(), s.settings.Application); err != nil || len(open) > 0 {
		s.t.Errorf("open transactions in the end: %s (%v)", strings.Join(open, ", "), err)
	}
}
