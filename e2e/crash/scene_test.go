//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
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

// patience bounds every wait. It only decides how long a failure takes to show.
const patience = instance.Patience

// scene is one application on a broker with everything that was fed to it.
type scene struct {
	t        *testing.T
	cluster  *cluster.Cluster
	producer *kgo.Client
	reader   *kgo.Client
	// binary is the application with failpoints.
	binary   string
	settings Settings
	inputs   []input
	keyOf    map[string]string
	// read counts the committed outputs that the reader has seen.
	read int
	// says returns what an input says behind its id.
	says func(number int) string
}

// newScene makes the topics. The producer partitions by hand and may be shared.
func newScene(t *testing.T, c *cluster.Cluster, producer *kgo.Client, binary string) *scene {
	t.Helper()
	prefix := c.Name(t, "") + "-"
	s := &scene{t: t, cluster: c, producer: producer, binary: binary, keyOf: map[string]string{}, says: plain, settings: Settings{
		Brokers: c.Brokers(), Application: prefix + "app", Instance: "first", StateDir: filepath.Join(t.TempDir(), "first"),
		Prefix: prefix,
	}}
	c.CreateTopics(t, Partitions, prefix+In, prefix+Out, prefix+Totals, prefix+Dead)
	s.reader = c.Client(t, kgo.ConsumeTopics(prefix+Out, prefix+Totals, prefix+Dead), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	return s
}

// other returns the settings of a second instance with a directory of its own.
func (s *scene) other() Settings {
	o := s.settings
	o.Instance, o.StateDir = "second", filepath.Join(filepath.Dir(s.settings.StateDir), "second")
	return o
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
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// caughtUp reads outputs for a moment and reports whether at most lag of them are missing.
func (s *scene) caughtUp(lag int) bool {
	want := foldOf(s.inputs).outputs() - lag
	if s.read >= want {
		return true
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Millisecond)
	defer cancel()
	s.read += s.reader.PollFetches(ctx).NumRecords()
	return s.read >= want
}

// finish waits until every input has its outputs. alive returns an error if nobody is left who could write them.
func (s *scene) finish(alive func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for !s.caughtUp(0) {
		if err := alive(); err != nil && !s.caughtUp(0) {
			s.t.Fatalf("%d of %d outputs, and then %v", s.read, foldOf(s.inputs).outputs(), err)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d outputs after %s", s.read, foldOf(s.inputs).outputs(), patience)
		}
	}
}

// batch is how many inputs are fed at once.
const batch = 24

// feedUntil feeds batch after batch, each when most of the one before is through, until stop is closed.
func (s *scene) feedUntil(stop <-chan struct{}, what string, alive func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		before := foldOf(s.inputs).outputs()
		s.feed(batch)
		visible := foldOf(s.inputs).outputs() > before // nothing tells how far silent inputs are
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := alive(); err != nil {
				s.t.Fatalf("%s did not happen: %v", what, err)
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("%s did not happen in %s", what, patience)
			}
			if !visible {
				time.Sleep(5 * time.Millisecond) // polls
			} else if s.caughtUp(batch) {
				break
			}
		}
	}
}

// start begins a life in this process, without failpoints.
func (s *scene) start(name string, settings Settings) *instance.App {
	s.t.Helper()
	return instance.StartProgram(s.t, settings, name)
}

// allTasks is how many tasks the application has: two subtopologies.
const allTasks = 2 * Partitions

// has is closed once the life has at least so many tasks, open or not.
func (s *scene) has(l *instance.App, tasks int) <-chan struct{} {
	return s.becomes(func() bool { return len(l.Status().Tasks) >= tasks })
}

// becomes is closed once something is so.
func (s *scene) becomes(so func() bool) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.t.Context().Err() == nil && !so() {
			time.Sleep(5 * time.Millisecond) // polls
		}
	}()
	return done
}

// checkState compares the stores of the lives that run with the fold of the inputs. A store follows its commit by a moment.
func (s *scene) checkState(lives ...*instance.App) {
	s.t.Helper()
	f := foldOf(s.inputs)
	deadline := time.Now().Add(patience)
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
