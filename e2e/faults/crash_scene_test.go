//go:build unix

package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// On real Kafka timeouts are as short as a busy machine bears: the cells wait for both, often. A
// transaction outlives the session, so that a frozen process can still commit.
const (
	sessionOnKafka     = 2 * time.Second
	transactionOnKafka = 4 * time.Second
)

// crashScene is one application on a broker with everything that was fed to it.
type crashScene struct {
	t        *testing.T
	cluster  *cluster.Cluster
	producer *kgo.Client
	reader   *kgo.Client
	settings crashSettings
	dir      string // the directories of the instances are in it
	inputs   []input
	keyOf    map[string]string
	// outputs is how many outputs the inputs have in the end, read counts the committed ones that
	// the reader has seen.
	outputs, read int
	// says returns what an input says behind its id.
	says func(number int) string
	// lives counts those that have begun.
	lives int
	// poll is how long the reader waits for outputs at a time, patience bounds every wait.
	poll, patience time.Duration
}

// newCrashScene makes the topics.
func newCrashScene(t *testing.T, c *cluster.Cluster) *crashScene {
	t.Helper()
	prefix := c.Name(t, "") + "-"
	dir := t.TempDir()
	s := &crashScene{t: t, cluster: c, producer: newProducer(t, c), dir: dir, keyOf: map[string]string{}, says: plain, settings: crashSettings{
		Brokers: c.Brokers(), Application: prefix + "app", Instance: "first", StateDir: filepath.Join(dir, "first"),
		Prefix: prefix, Noted: filepath.Join(dir, "noted"),
	}}
	fetchWait := time.Second
	s.patience = virtualPatience
	if !s.virtual() {
		s.settings.SessionTimeout, s.settings.TransactionTimeout = sessionOnKafka, transactionOnKafka
		fetchWait, s.patience = 100*time.Millisecond, instance.Patience
	}
	s.poll = fetchWait / 5
	c.CreateTopics(t, partitions, prefix+inTopic, prefix+outTopic, prefix+totalsTopic, prefix+deadTopic)
	s.reader = c.Client(t, kgo.ConsumeTopics(prefix+outTopic, prefix+totalsTopic, prefix+deadTopic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(fetchWait))
	return s
}

func (s *crashScene) virtual() bool { return s.cluster.Kind() == cluster.KindVirtual }

// other returns the settings of a second instance with a directory of its own.
func (s *crashScene) other() crashSettings {
	o := s.settings
	o.Instance, o.StateDir = "second", filepath.Join(s.dir, "second")
	return o
}

// hostName returns the host of another life.
func (s *crashScene) hostName(settings crashSettings) string {
	s.lives++
	return fmt.Sprintf("%s.%d", settings.Instance, s.lives)
}

// feed writes n more inputs.
func (s *crashScene) feed(n int) {
	s.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		number := len(s.inputs)
		in := inputOf(number, s.says(number))
		records[i] = in.record(s.settings.Prefix + inTopic)
		s.inputs = append(s.inputs, in)
		s.keyOf[in.value] = in.key
	}
	s.outputs = foldOf(s.inputs).outputs()
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// caughtUp reads outputs for a moment and reports whether at most lag of them are missing.
func (s *crashScene) caughtUp(lag int) bool {
	want := s.outputs - lag
	if s.read >= want {
		return true
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), s.poll)
	defer cancel()
	s.read += s.reader.PollFetches(ctx).NumRecords()
	return s.read >= want
}

// finish waits until every input has its outputs. alive returns an error if there is no life that
// could write them.
func (s *crashScene) finish(alive func() error) {
	s.t.Helper()
	deadline := time.Now().Add(s.patience)
	for !s.caughtUp(0) {
		if err := alive(); err != nil && !s.caughtUp(0) {
			s.t.Fatalf("%d of %d outputs, and then %v", s.read, s.outputs, err)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d outputs after %s", s.read, s.outputs, s.patience)
		}
	}
}

// batch is how many inputs are fed at once.
const batch = 24

// feedUntil feeds batch after batch, each when most of the one before is through, until something
// is so.
func (s *crashScene) feedUntil(so func() bool, what string, alive func() error) {
	s.t.Helper()
	deadline := time.Now().Add(s.patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		before := s.outputs
		s.feed(batch)
		visible := s.outputs > before // nothing tells how far silent inputs are
		for through := false; !through; {
			if so() {
				return
			}
			if err := alive(); err != nil && !so() {
				s.t.Fatalf("%s did not happen: %v", what, err)
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("%s did not happen in %s, with %d inputs", what, s.patience, len(s.inputs))
			}
			if visible {
				through = s.caughtUp(batch)
			} else {
				<-tick.C
			}
		}
	}
}

// closed is what feedUntil waits for if a channel has to be closed.
func closed(c <-chan struct{}) func() bool { return func() bool { return instance.Closed(c) } }

// start begins a life in this process, without failpoints.
func (s *crashScene) start(name string, settings crashSettings) *instance.App {
	s.t.Helper()
	return instance.StartOn(s.t, s.cluster, s.hostName(settings), settings, "", instance.NewLog(s.t, name))
}

// allTasks is how many tasks the application has: two subtopologies.
const allTasks = 2 * partitions

// has reports whether the life has at least so many tasks, open or not.
func has(l *instance.App, tasks int) func() bool {
	return func() bool { return len(l.Status().Tasks) >= tasks }
}

// checkState compares the stores of the lives that run with the fold of the inputs. A store follows
// its commit by a moment.
func (s *crashScene) checkState(lives ...*instance.App) {
	s.t.Helper()
	f := foldOf(s.inputs)
	await(s.t, s.patience, "the state after all outputs", func() error {
		counts, err := readStore(countStore, lives)
		if err != nil {
			return err
		}
		groups, err := readStore(groupStore, lives)
		if err != nil {
			return err
		}
		return f.checkState(counts, groups)
	})
}

// checkTopics compares everything that was written with the fold of the inputs.
func (s *crashScene) checkTopics() {
	s.t.Helper()
	if err := s.difference(); err != nil {
		s.t.Fatal(err)
	}
	if open, err := s.cluster.OpenTransactions(s.t.Context(), s.settings.Application); err != nil || len(open) > 0 {
		s.t.Errorf("open transactions in the end: %s (%v)", strings.Join(open, ", "), err)
	}
}

func (s *crashScene) difference() error {
	var got topics
	for name, to := range map[string]*[][]*kgo.Record{outTopic: &got.out, totalsTopic: &got.totals, deadTopic: &got.dead} {
		var err error
		if *to, err = s.cluster.ReadAll(s.t.Context(), s.settings.Prefix+name); err != nil {
			s.t.Fatal(err)
		}
	}
	return foldOf(s.inputs).check(got, s.keyOf)
}
