//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Bounds of the waits. They only decide how long a failure takes to show. On virtual time waits cost nothing, and the time-outs of
// production are far longer than those on real Kafka.
const (
	patience        = instance.Patience
	virtualPatience = 10 * time.Minute
)

// On real Kafka time-outs are as short as a busy machine bears: the cells wait for both, often. A transaction outlives the session, so that a
// frozen process can still commit.
const (
	sessionOnKafka     = 2 * time.Second
	transactionOnKafka = 4 * time.Second
)

// scene is one application on a broker with everything that was fed to it.
type scene struct {
	t        *testing.T
	cluster  *cluster.Cluster
	producer *kgo.Client
	reader   *kgo.Client
	settings Settings
	dir      string // the directories of the instances are in it
	inputs   []input
	keyOf    map[string]string
	// outputs is how many outputs the inputs have in the end, read counts the committed ones that the reader has seen.
	outputs, read int
	// says returns what an input says behind its id.
	says func(number int) string
	// lives counts those that have begun.
	lives int
	// poll is how long the reader waits for outputs at a time, patience bounds every wait.
	poll, patience time.Duration
}

// newScene makes the topics. The producer partitions by hand and may be shared.
func newScene(t *testing.T, c *cluster.Cluster, producer *kgo.Client) *scene {
	t.Helper()
	prefix := c.Name(t, "") + "-"
	dir := t.TempDir()
	s := &scene{t: t, cluster: c, producer: producer, dir: dir, keyOf: map[string]string{}, says: plain, settings: Settings{
		Brokers: c.Brokers(), Application: prefix + "app", Instance: "first", StateDir: filepath.Join(dir, "first"),
		Prefix: prefix, Noted: filepath.Join(dir, "noted"),
	}}
	fetchWait := time.Second
	s.patience = virtualPatience
	if !s.virtual() {
		s.settings.SessionTimeout, s.settings.TransactionTimeout = sessionOnKafka, transactionOnKafka
		fetchWait, s.patience = 100*time.Millisecond, patience
	}
	s.poll = fetchWait / 5
	c.CreateTopics(t, Partitions, prefix+In, prefix+Out, prefix+Totals, prefix+Dead)
	s.reader = c.Client(t, kgo.ConsumeTopics(prefix+Out, prefix+Totals, prefix+Dead), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(fetchWait))
	return s
}

func (s *scene) virtual() bool { return s.cluster.Kind() == cluster.KindVirtual }

// manual is the option of the producer of a scene.
func manual() kgo.Opt { return kgo.RecordPartitioner(kgo.ManualPartitioner()) }

// other returns the settings of a second instance with a directory of its own.
func (s *scene) other() Settings {
	o := s.settings
	o.Instance, o.StateDir = "second", filepath.Join(s.dir, "second")
	return o
}

// hostName returns the host of another life.
func (s *scene) hostName(settings Settings) string {
	s.lives++
	return fmt.Sprintf("%s.%d", settings.Instance, s.lives)
}

// The keys: three groups, each with keys in both partitions.
const keys = 9

// What inputs say.
func plain(number int) string {
	if number%11 == 10 {
		return poison
	}
	return ""
}

// bulky inputs are, with the outputs and the repartition records of a batch, several times what a round keeps back.
func bulky(number int) string { return strings.Repeat("x", 16<<10) + " " + plain(number) }

func poisonous(int) string { return poison }

func quiet(int) string { return silent }

// feed writes n more inputs.
func (s *scene) feed(n int) {
	s.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		number := len(s.inputs)
		k := number % keys
		in := input{id: fmt.Sprintf("i%d", number), key: fmt.Sprintf("%c%d", 'a'+k/3, k%3)}
		in.value = strings.TrimSpace(in.id + " " + s.says(number))
		records[i] = &kgo.Record{
			Topic: s.settings.Prefix + In, Partition: int32(k % Partitions), Key: []byte(in.key), Value: []byte(in.value),
		}
		s.inputs = append(s.inputs, in)
		s.keyOf[in.value] = in.key
	}
	s.outputs = foldOf(s.inputs).outputs()
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// caughtUp reads outputs for a moment and reports whether at most lag of them are missing.
func (s *scene) caughtUp(lag int) bool {
	want := s.outputs - lag
	if s.read >= want {
		return true
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), s.poll)
	defer cancel()
	s.read += s.reader.PollFetches(ctx).NumRecords()
	return s.read >= want
}

// finish waits until every input has its outputs. alive returns an error if nobody is left who could write them.
func (s *scene) finish(alive func() error) {
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

// feedUntil feeds batch after batch, each when most of the one before is through, until something is so.
func (s *scene) feedUntil(so func() bool, what string, alive func() error) {
	s.t.Helper()
	deadline := time.Now().Add(s.patience)
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
				time.Sleep(5 * time.Millisecond) // polls
			}
		}
	}
}

// closed is what feedUntil waits for if a channel has to be closed.
func closed(c <-chan struct{}) func() bool { return func() bool { return instance.Closed(c) } }

// start begins a life in this process, without failpoints.
func (s *scene) start(name string, settings Settings) *instance.App {
	s.t.Helper()
	top, err := settings.Topology()
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := instance.On(s.cluster, s.hostName(settings), settings.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(instance.NewLog(s.t, name), nil))
	return instance.Start(s.t, top, cfg)
}

// allTasks is how many tasks the application has: two subtopologies.
const allTasks = 2 * Partitions

// has reports whether the life has at least so many tasks, open or not.
func has(l *instance.App, tasks int) func() bool {
	return func() bool { return len(l.Status().Tasks) >= tasks }
}

// checkState compares the stores of the lives that run with the fold of the inputs. A store follows its commit by a moment.
func (s *scene) checkState(lives ...*instance.App) {
	s.t.Helper()
	f := foldOf(s.inputs)
	deadline := time.Now().Add(s.patience)
	for {
		counts, err := readStore(Counts, lives)
		var groups map[string]Tally
		if err == nil {
			groups, err = readStore(Groups, lives)
		}
		if err == nil {
			err = f.checkState(counts, groups)
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the state after all outputs: %v", err)
		}
		time.Sleep(10 * time.Millisecond) // polls
	}
}

// readStore returns what a store holds in all partitions, each from the life that serves it.
func readStore(store topology.StoreOf[string, Tally], lives []*instance.App) (map[string]Tally, error) {
	all := map[string]Tally{}
	for p := range int32(Partitions) {
		served := false
		for _, l := range lives {
			err := readPartition(l.App, store, p, all)
			if err != nil && !errors.Is(err, txn.ErrNotServing) {
				return nil, err
			}
			served = served || err == nil
		}
		if !served {
			return nil, fmt.Errorf("nobody serves partition %d of store %s", p, store.Name())
		}
	}
	return all, nil
}

func readPartition(app *txn.App, store topology.StoreOf[string, Tally], partition int32, into map[string]Tally) error {
	view, err := txn.Read(app, store, partition)
	if err != nil {
		return err
	}
	defer view.Close()
	var pair state.Pair[string, Tally]
	for pair, err = range view.Store().All() {
		if err != nil {
			return err
		}
		into[pair.Key] = pair.Value
	}
	return nil
}

// checkTopics compares everything that was written with the fold of the inputs.
func (s *scene) checkTopics() {
	s.t.Helper()
	if err := s.difference(); err != nil {
		s.t.Fatal(err)
	}
	if open, err := s.cluster.OpenTransactions(s.t.Context(), s.settings.Application); err != nil || len(open) > 0 {
		s.t.Errorf("open transactions in the end: %s (%v)", strings.Join(open, ", "), err)
	}
}

func (s *scene) difference() error {
	var got topics
	for name, to := range map[string]*[][]*kgo.Record{Out: &got.out, Totals: &got.totals, Dead: &got.dead} {
		var err error
		if *to, err = s.cluster.ReadAll(s.t.Context(), s.settings.Prefix+name); err != nil {
			s.t.Fatal(err)
		}
	}
	return foldOf(s.inputs).check(got, s.keyOf)
}
