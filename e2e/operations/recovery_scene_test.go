package operations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

const (
	recoveryPartitions = 2
	keys               = 5 // in each partition
)

// recoveryScene is an application that counts its records per key, with what it must have written by
// now.
type recoveryScene struct {
	*cluster.Cluster
	t                    *testing.T
	application, in, out string
	stateDir             string
	producer             *kgo.Client
	fed                  [recoveryPartitions][]string // the keys of the input
	model                model
	log                  *instance.Log
	// other makes another topology than the one that counts.
	other func() *topology.Builder
}

// model is the fold: what the counts are, and what was written of each key in order.
type model struct {
	counts map[string]int64
	out    map[string][]string
}

func newRecoveryScene(t *testing.T, c *cluster.Cluster) *recoveryScene {
	t.Helper()
	e := &recoveryScene{
		Cluster: c, t: t, application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"), stateDir: t.TempDir(),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
		log:      instance.NewLog(t, "the application"),
		model:    model{map[string]int64{}, map[string][]string{}},
	}
	c.CreateTopics(t, recoveryPartitions, e.in, e.out)
	return e
}

// topology counts records per key in one store and their bytes in another, and writes both with the
// record's value.
func (e *recoveryScene) topology() *topology.Topology {
	e.t.Helper()
	b := e.counting()
	if e.other != nil {
		b = e.other()
	}
	return e.built(b)
}

// built makes the application's topology.
func (e *recoveryScene) built(b *topology.Builder) *topology.Topology {
	e.t.Helper()
	t, err := b.Build()
	if err != nil {
		e.t.Fatal(err)
	}
	if t, err = t.WithApplication(e.application); err != nil {
		e.t.Fatal(err)
	}
	return t
}

func (e *recoveryScene) counting() *topology.Builder {
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	sizes := topology.KeyValueStore("sizes", schemas.String(), schemas.Int64())
	counted := topology.Process(in, "count", counts, func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
	) error {
		return bump(c, counts, r, 1, emit)
	})
	topology.Process(counted, "size", sizes, func(
		c *topology.Context, sizes state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
	) error {
		return bump(c, sizes, r, 10, emit)
	}).Into(topology.Topic(e.out, schemas.String(), schemas.String()))
	return b
}

func bump(
	c *topology.Context, store state.KeyValue[string, int64], r topology.Record[string, string], by int64, emit topology.Emit[string, string],
) error {
	n, _, err := store.Get(r.Key)
	if err != nil {
		return err
	}
	if err := store.Put(r.Key, n+by); err != nil {
		return err
	}
	r.Value = fmt.Sprintf("%s=%d", r.Value, n+by)
	return emit(c, r)
}

// feed writes n records into each partition.
func (e *recoveryScene) feed(n int) {
	e.t.Helper()
	var records []*kgo.Record
	for p := range recoveryPartitions {
		for range n {
			i := len(e.fed[p])
			key := fmt.Sprintf("p%d-k%d", p, i%keys)
			e.fed[p] = append(e.fed[p], key)
			records = append(records, &kgo.Record{Topic: e.in, Partition: int32(p), Key: []byte(key), Value: fmt.Appendf(nil, "%d", i)})
		}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// process folds the offsets from up to to of every partition.
func (e *recoveryScene) process(from, to int) {
	for p := range recoveryPartitions {
		for i := from; i < to; i++ {
			key := e.fed[p][i]
			e.model.counts[key]++
			n := e.model.counts[key]
			e.model.out[key] = append(e.model.out[key], fmt.Sprintf("%d=%d=%d", i, n, 10*n))
		}
	}
}

// empty removes the state, and keeps the outputs.
func (e *recoveryScene) empty() { clear(e.model.counts) }

// check compares what was written with the model.
func (e *recoveryScene) check() {
	e.t.Helper()
	got := map[string][]string{}
	for _, r := range e.Records(e.t, e.out) {
		got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
	}
	for _, key := range slices.Sorted(maps.Keys(e.model.out)) {
		want := e.model.out[key]
		for i := range max(len(want), len(got[key])) {
			if i >= len(want) || i >= len(got[key]) || want[i] != got[key][i] {
				e.t.Errorf("key %s: output %d of %d is %q, want %q of %d", key, i, len(got[key]), at(got[key], i), at(want, i), len(want))
				break
			}
		}
	}
	if len(got) != len(e.model.out) {
		e.t.Errorf("outputs have %d keys, want %d", len(got), len(e.model.out))
	}
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "nothing"
}

func (e *recoveryScene) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(e.log, nil)).With("test", e.t.Name())
}

// rebuilt is how many rebuilds the log tells of.
func (e *recoveryScene) rebuilt() int {
	return len(e.log.Lines("a database was rebuilt from its changelogs"))
}

// start begins a life of the application.
func (e *recoveryScene) start() *instance.App {
	e.t.Helper()
	return e.startOf(e.topology())
}

func (e *recoveryScene) startOf(t *topology.Topology) *instance.App {
	e.t.Helper()
	return instance.Start(e.t, t, instance.On(e.Cluster, "application", txn.Config{
		StateDir: e.stateDir, Application: e.application, Logger: e.logger(), Workers: 1,
	}))
}

// life runs the application until the offsets of every partition are at to, and stops it.
func (e *recoveryScene) life(to int) {
	e.t.Helper()
	a := e.start()
	e.until(a, to)
	if err := a.Stop(); err != nil {
		e.t.Fatal(err)
	}
}

// until waits until the offsets of every partition are at to.
func (e *recoveryScene) until(a *instance.App, to int) {
	e.t.Helper()
	a.Until(fmt.Sprint("offset ", to), func(s txn.Status) bool {
		done := 0
		for _, task := range s.Tasks {
			if len(task.Inputs) == 1 && task.Inputs[0].Offset >= int64(to) {
				done++
			}
		}
		return done == recoveryPartitions
	})
}

// stops runs the application and asserts that its tasks stop with a reason that has these words,
// and name recovery actions.
func (e *recoveryScene) stops(words ...string) {
	e.t.Helper()
	err := e.start().Wait()
	if !errors.Is(err, txn.ErrAllStopped) || !errors.Is(err, txn.ErrIntegrity) {
		e.t.Fatalf("Run returned %v, want ErrAllStopped and ErrIntegrity", err)
	}
	for _, word := range append(words, "`onceward rebuild from-input ") {
		if !strings.Contains(err.Error(), word) {
			e.t.Errorf("Run returned %v, which does not say %q", err, word)
		}
	}
}

// operator returns the application as an operator has it.
func (e *recoveryScene) operator() *admin.Application {
	e.t.Helper()
	return e.operatorOf(e.topology())
}

func (e *recoveryScene) operatorOf(t *topology.Topology) *admin.Application {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), instance.Patience)
	defer cancel()
	c, err := admin.ConnectWith(ctx, admin.Config{Brokers: e.Brokers(), Dialer: e.Dialer("operator"), Logger: e.logger()})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Close)
	return c.Application(t)
}

// commit sets the offset of every partition from outside.
func (e *recoveryScene) commit(at int64, metadata string) {
	e.t.Helper()
	offsets := kadm.Offsets{}
	for p := range int32(recoveryPartitions) {
		offsets.Add(kadm.Offset{Topic: e.in, Partition: p, At: at, LeaderEpoch: -1, Metadata: metadata})
	}
	if err := e.Admin().CommitAllOffsets(e.t.Context(), e.application, offsets); err != nil {
		e.t.Fatal(err)
	}
}

// snapshot is what an action could have changed.
func (e *recoveryScene) snapshot() map[string]any {
	e.t.Helper()
	if err := e.WaitEnded(e.t.Context(), e.application+"~"); err != nil {
		e.t.Fatal(err)
	}
	out := map[string]any{}
	offsets, err := e.Admin().FetchOffsets(kadm.RequireStable(e.t.Context()), e.application)
	if err == nil {
		offsets.Each(func(o kadm.OffsetResponse) {
			out[fmt.Sprintf("offset of %s[%d]", o.Topic, o.Partition)] = [2]any{o.At, o.Metadata}
		})
	}
	topics := []string{e.out}
	for _, suffix := range []string{"-counts-changelog", "-sizes-changelog", "-by-partition-repartition", "-rounds"} {
		topics = append(topics, e.application+suffix)
	}
	for _, topic := range topics {
		ends, err := e.EndOffsets(e.t.Context(), topic)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			e.t.Fatal(err)
		}
		out["end of "+topic] = ends
	}
	return out
}

// action is one recovery action, with its options.
type action func(context.Context, admin.Options) (admin.Report, error)

// refuses asserts that an action is refused with these words, in one line, and changes nothing.
func (e *recoveryScene) refuses(do action, words ...string) {
	e.t.Helper()
	before := e.snapshot()
	report, err := do(e.t.Context(), admin.Options{})
	if !errors.Is(err, admin.ErrRefused) || strings.Contains(fmt.Sprint(err), "\n") || !reflect.DeepEqual(report, admin.Report{}) {
		e.t.Errorf("the action returned %+v and %v, want a refusal in one line", report, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			e.t.Errorf("the refusal %q does not say %q", err, word)
		}
	}
	if after := e.snapshot(); !reflect.DeepEqual(before, after) {
		e.t.Errorf("a refused action changed something:\n%v\n%v", before, after)
	}
}

// does asserts that an action works, after a dry run that changes nothing and says the same.
func (e *recoveryScene) does(do action) admin.Report {
	e.t.Helper()
	before := e.snapshot()
	dry, err := do(e.t.Context(), admin.Options{DryRun: true})
	if err != nil || !dry.DryRun {
		e.t.Fatalf("the dry run returned %+v and %v", dry, err)
	}
	if after := e.snapshot(); !reflect.DeepEqual(before, after) {
		e.t.Errorf("a dry run changed something:\n%v\n%v", before, after)
	}
	report, err := do(e.t.Context(), admin.Options{})
	if err != nil || report.DryRun {
		e.t.Fatalf("the action returned %+v and %v", report, err)
	}
	if dry.DryRun = false; !reflect.DeepEqual(dry, report) {
		e.t.Errorf("the dry run said\n%+v\nand done was\n%+v", dry, report)
	}
	for _, t := range report.Tasks {
		if !t.Changed {
			e.t.Errorf("task %s was not changed: %s", t.Task, t.Reason)
		}
	}
	return report
}

// goesOn feeds n more records, lets the application process everything from an offset on, and
// checks all that was ever written; then with an empty state directory once more, which restores
// from the changelogs.
func (e *recoveryScene) goesOn(from, n int) {
	e.t.Helper()
	for range 2 {
		e.feed(n)
		to := len(e.fed[0])
		e.life(to)
		e.process(from, to)
		e.check()
		if err := os.RemoveAll(e.stateDir); err != nil {
			e.t.Fatal(err)
		}
		from = to
	}
}

// withOffsets gives an action its wanted offsets.
func withOffsets(do func(context.Context, admin.Options, admin.Offsets) (admin.Report, error), offsets admin.Offsets) action {
	return func(ctx context.Context, o admin.Options) (admin.Report, error) { return do(ctx, o, offsets) }
}

// live says that the state which an action adopts was written live.
func live(do action) action {
	return func(ctx context.Context, o admin.Options) (admin.Report, error) {
		o.Mode = new(topology.Live)
		return do(ctx, o)
	}
}
