package txn_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// declares adds what an application does to its topology, which reads in and writes one record to
// out for each of in.
type declares func(b *topology.Builder)

// replaced is an application whose topology is replaced while nothing of it runs.
type replaced struct {
	t *testing.T
	*testBroker
	office *admin.Client
	cfg    txn.Config
	began  time.Time
	// input is what was written to in.
	input []topologytest.Raw
	// written is how many records are in out.
	written int
}

const replacedPartitions = 2

func newReplaced(t *testing.T) *replaced {
	t.Helper()
	return newReplacedOn(t, 1)
}

// newReplacedOn is newReplaced with several brokers.
func newReplacedOn(t *testing.T, brokers int) *replaced {
	t.Helper()
	b := newBrokers(t, brokers, kfake.SeedTopics(replacedPartitions, "alpha", "in", "side", "zeta", "out", "other", "dead"))
	return &replaced{
		t: t, testBroker: b, office: b.office(t), began: time.Now().Truncate(2 * time.Hour).Add(-4 * time.Hour),
		cfg: b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond, Logger: testLogger(t)}),
	}
}

func (r *replaced) topology(declare declares) *topology.Topology {
	r.t.Helper()
	b := topology.NewBuilder("counting", topology.DeadLetters("dead"))
	declare(b)
	top, err := b.Build()
	if err != nil {
		r.t.Fatal(err)
	}
	return top
}

// feed writes eight records of each of five keys to in. Each key has times of its own, twenty
// minutes after those of the one before.
func (r *replaced) feed() {
	r.t.Helper()
	for i := range 40 {
		key := fmt.Appendf(nil, "k%d", i%5)
		at := r.began.Add(time.Duration(i%5)*20*time.Minute + time.Duration(len(r.input))*time.Millisecond)
		r.input = append(r.input, r.put("in", key, []byte("1"), at))
	}
}

// put writes a record where its key belongs.
func (r *replaced) put(topic string, key, value []byte, at time.Time) topologytest.Raw {
	r.t.Helper()
	p := graph.PartitionOf(key, replacedPartitions)
	r.produce(r.t, &kgo.Record{Topic: topic, Partition: p, Key: key, Value: value, Timestamp: at})
	return topologytest.Raw{Topic: topic, Partition: p, Timestamp: at.UnixMilli(), Key: key, Value: value}
}

// life lets a topology process everything until n records are in out, and more becomes true, and
// stops it. It returns why it did not come to that, as what it returned when it ended by itself or
// was stopped with a task that did not work.
func (r *replaced) life(declare declares, n int, more func(app *txn.App) bool) error {
	r.t.Helper()
	app, err := txn.New(r.topology(declare), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		select {
		case err := <-ended:
			if err == nil {
				r.t.Fatalf("out has %d records after %s, want %d", len(r.records("out")), patience, n)
			}
			return err
		case <-time.After(pause):
		}
		stopped := slices.ContainsFunc(app.Status().Tasks, func(task txn.TaskStatus) bool { return task.State == txn.TaskStopped })
		if stopped || len(r.records("out")) >= n && (more == nil || more(app)) {
			cancel()
			err := <-ended
			r.written = len(r.records("out"))
			if err == nil && r.written != n {
				r.t.Errorf("out has %d records, want %d", r.written, n)
			}
			return err
		}
	}
}

// lives is a life that comes to its end.
func (r *replaced) lives(declare declares, n int, more func(app *txn.App) bool) {
	r.t.Helper()
	if err := r.life(declare, n, more); err != nil {
		r.t.Fatal(err)
	}
}

// records are the committed ones of a topic.
func (r *replaced) records(topic string) []admin.Record {
	r.t.Helper()
	contents, err := r.office.Read(context.WithoutCancel(r.t.Context()), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return contents.Records
}

// right reports whether the last record of each key in out is the one that a topology writes which
// has processed all input from the beginning.
func (r *replaced) right(declare declares) bool {
	r.t.Helper()
	d, err := topologytest.New(r.topology(declare), topologytest.Partitions(replacedPartitions))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, in := range r.input {
		pipe := []topologytest.PipeOption{topologytest.At(time.UnixMilli(in.Timestamp)), topologytest.ToPartition(in.Partition)}
		if err := d.PipeRaw(in.Topic, in.Key, in.Value, pipe...); err != nil {
			r.t.Fatal(err)
		}
	}
	outputs, err := d.OutputRaw("out")
	if err != nil {
		r.t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, out := range outputs {
		want[string(out.Key)] = fmt.Sprintf("%x at %d", out.Value, out.Timestamp)
	}
	for _, out := range r.records("out") {
		got[string(out.Key)] = fmt.Sprintf("%x at %d", out.Value, out.Timestamp.UnixMilli())
	}
	for key := range got { // of windows that the topology does not have
		if _, ok := want[key]; !ok {
			delete(got, key)
		}
	}
	return maps.Equal(want, got)
}

// contents is all that a refused start must not change: the offsets of the group, and where the
// topics end that are there.
func (r *replaced) contents() string {
	r.t.Helper()
	var all []string
	r.offsetsOf(r.t, "in") // which waits until no commit is pending
	ends, err := r.adm.ListEndOffsets(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 { // a start can create what is missing before it is refused
			all = append(all, fmt.Sprint(o.Topic, " ", o.Partition, " ", o.Offset))
		}
	})
	offsets, err := r.adm.FetchOffsets(r.t.Context(), "counting")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range offsets.Sorted() {
		all = append(all, fmt.Sprintf("%s %d at %d: %x", o.Topic, o.Partition, o.At, o.Metadata))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// plan is what the operator is told, and looks only.
func (r *replaced) plan(before *graph.Description, after declares) admin.Plan {
	r.t.Helper()
	was := r.contents()
	plan, err := r.office.Application(r.topology(after)).Plan(r.t.Context(), before)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.contents() != was {
		r.t.Error("the plan has touched something")
	}
	return plan
}

// rebuild empties the state of all tasks, once a dry run has said that it would, and has created
// nothing.
func (r *replaced) rebuild(declare declares) {
	r.t.Helper()
	was := r.topics()
	if _, err := r.office.Application(r.topology(declare)).RebuildFromInput(r.t.Context(), admin.Options{DryRun: true}, nil); err != nil {
		r.t.Fatal(err)
	}
	if now := r.topics(); !slices.Equal(was, now) {
		r.t.Errorf("a dry run has made the topics %v of %v", now, was)
	}
	if _, err := r.office.Application(r.topology(declare)).RebuildFromInput(r.t.Context(), admin.Options{}, nil); err != nil {
		r.t.Fatal(err)
	}
}

// topics are the names of all that there are.
func (r *replaced) topics() []string {
	r.t.Helper()
	listed, err := r.adm.ListTopics(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return listed.Names()
}

// set changes the configuration of a topic.
func (r *replaced) set(topic, name, value string) {
	r.t.Helper()
	altered, err := r.adm.AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Name: name, Value: &value}}, topic)
	if err != nil || altered[0].Err != nil {
		r.t.Fatal(err, altered)
	}
}

func (r *replaced) deleteTopic(topic string) {
	r.t.Helper()
	if _, err := r.adm.DeleteTopics(r.t.Context(), topic); err != nil {
		r.t.Fatal(err)
	}
}

// The topologies.

var (
	replacedIn     = topology.Topic("in", schemas.String(), schemas.String())
	replacedOut    = topology.Topic("out", schemas.String(), schemas.Int64())
	replacedCounts = topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
)

// countsIn counts the records of the key of each record in a store.
func countsIn(node string, store topology.Store[state.KeyValue[string, int64]]) declares {
	return func(b *topology.Builder) { countedBy(topology.From(b, replacedIn), node, store).Into(replacedOut) }
}

func countedBy[V any](s topology.Stream[string, V], node string, store topology.Store[state.KeyValue[string, int64]]) topology.Stream[string, int64] {
	return topology.Process(s, node, store, func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, V], emit topology.Emit[string, int64],
	) error {
		n, _, err := counts.Get(r.Key)
		if err != nil {
			return err
		}
		if err := counts.Put(r.Key, n+1); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, n+1))
	})
}

// countsOnce is the topology that most of them replace.
var countsOnce = countsIn("count", replacedCounts)

// countsTwice counts in two stores, one after the other.
func countsTwice(b *topology.Builder) {
	sizes := topology.KeyValueStore("sizes", schemas.String(), schemas.Int64())
	countedBy(countedBy(topology.From(b, replacedIn), "count", replacedCounts), "size", sizes).Into(replacedOut)
}

// countsWindows counts in windows that have time for late records.
func countsWindows(size, retention time.Duration) declares {
	return func(b *topology.Builder) {
		store := topology.WindowStore("windows", schemas.String(), schemas.Int64(), retention)
		topology.CountWindows(topology.From(b, replacedIn), topology.Tumbling(size).Grace(2*time.Hour), store).
			Into(topology.Topic("out", topology.WindowedCodec(schemas.String(), size), schemas.Int64()))
	}
}

// countsOtherwise counts in a store of windows that has the name of the one in which countsOnce
// does.
func countsOtherwise(b *topology.Builder) {
	windows := topology.WindowStore("counts", schemas.String(), schemas.Int64(), 6*time.Hour)
	topology.CountWindows(topology.From(b, replacedIn), topology.Tumbling(time.Hour), windows).
		Into(topology.Topic("out", topology.WindowedCodec(schemas.String(), time.Hour), schemas.Int64()))
}

// passesSessions has a store of sessions that has the name of the one in which countsWindows
// counts, and puts nothing into it.
func passesSessions(b *topology.Builder) {
	sessions := topology.SessionStore("windows", schemas.String(), schemas.Int64(), 6*time.Hour)
	topology.Process(topology.From(b, replacedIn), "pass", sessions, func(
		c *topology.Context, _ state.Session[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
	) error {
		return emit(c, topology.WithValue(r, int64(1)))
	}).Into(replacedOut)
}

// countsTable counts in a store that has the time of each value.
func countsTable(b *topology.Builder) {
	topology.Count(topology.From(b, replacedIn), topology.TimestampedStore("counts", schemas.String(), schemas.Int64())).Into(replacedOut)
}

// countsMoved counts behind a repartition topic.
func countsMoved(value schemas.Codec[string], store topology.Store[state.KeyValue[string, int64]], opts ...topology.RepartitionOption) declares {
	return func(b *topology.Builder) {
		moved := topology.RepartitionWith(topology.From(b, replacedIn), "words", schemas.String(), value, opts...)
		countedBy(moved, "count", store).Into(replacedOut)
	}
}

// countsMerged counts what comes by in and by another topic.
func countsMerged(other string) declares {
	return func(b *topology.Builder) {
		more := topology.From(b, topology.Topic(other, schemas.String(), schemas.String()))
		countedBy(topology.From(b, replacedIn).Merge("both", more), "count", replacedCounts).Into(replacedOut)
	}
}

// countsAside counts, and lets the records of another topic wait while it is broken.
func countsAside(broken *atomic.Bool) declares {
	return func(b *topology.Builder) {
		countsOnce(b)
		side := topology.From(b, topology.Topic("side", schemas.String(), schemas.String()), topology.ParkKeys())
		side.Peek("judge", func(topology.Record[string, string]) error {
			if broken.Load() {
				return topology.Fail(topology.Transient, schemas.Reason("not now"))
			}
			return nil
		}, topology.OnError(topology.Transient, topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: time.Second})).
			Into(topology.Topic("other", schemas.String(), schemas.String()))
	}
}

// parkThree writes the records that countsAside parks while it is broken.
func parkThree(r *replaced) {
	r.t.Helper()
	for range 3 {
		r.put("side", []byte("bad"), []byte("v"), r.began)
	}
}

// TestPlanIsWhatHappens checks what plan promises: each change is planned, and then really started.
// A safe change starts and continues with its state. A change that needs a rebuild stops, or
// continues with a state that the input would not make, and has the right state after the rebuild.
// A refused change touches nothing, and continues once the recovery action has been taken.
func TestPlanIsWhatHappens(t *testing.T) {
	var broken, tried, never atomic.Bool
	tried.Store(true)
	var earlier kadm.Offsets
	parked := func(app *txn.App) bool {
		return slices.ContainsFunc(app.Status().Tasks, func(task txn.TaskStatus) bool {
			return len(task.Parked) == 1 && task.Parked[0].Records == 3
		})
	}
	back := func(*replaced) declares { return nil }
	for name, test := range map[string]struct {
		before, after declares
		// prepares is what a first incarnation needs, beside that everything is counted.
		prepares func(r *replaced)
		more     func(app *txn.App) bool
		// happens is what happens while nothing runs.
		happens   func(t *testing.T, r *replaced)
		judgement admin.Judgement
		// finding is the subject and the name of one with that judgement, and the beginning of what
		// it says.
		finding string
		// alone says that the plan refuses it also without the topology that ran.
		alone bool
		// stops is what the reason says with which a start ends that is not to go on.
		stops string
		// leads takes the recovery action of a refusal and returns what runs then, nil for what ran
		// before. Then in is processed again, if reads says so.
		leads func(r *replaced) declares
		reads bool
	}{
		"the same": {before: countsOnce, after: countsOnce, judgement: admin.Safe, finding: "topology counting: has the structure of the one that ran; functions and expressions are not compared"},
		"an operator is renamed": {
			before: countsOnce, after: countsIn("tally", replacedCounts), judgement: admin.Safe, finding: "node tally: is new",
		},
		"a step without a store": {
			before: countsOnce, after: func(b *topology.Builder) {
				all := topology.From(b, replacedIn).Filter("all", func(topology.Record[string, string]) (bool, error) { return true, nil })
				countedBy(all, "count", replacedCounts).Into(replacedOut)
			}, judgement: admin.Safe, finding: "node all: is new",
		},
		"the format of an output": {
			before: countsOnce, after: func(b *topology.Builder) {
				countedBy(topology.From(b, replacedIn), "count", replacedCounts).Into(topology.Topic("out", schemas.String(), schemas.JSON[int64]()))
			}, judgement: admin.Safe, finding: "node out-sink: formats (string, int64) becomes (string, json)",
		},
		"the format of an input": {
			before: countsOnce, after: func(b *topology.Builder) {
				numbers := topology.From(b, topology.Topic("in", schemas.String(), schemas.JSON[int]()))
				countedBy(numbers, "count", replacedCounts).Into(replacedOut)
			}, judgement: admin.Safe, finding: "source in: formats (string, string) becomes (string, json)",
		},
		"a store is gone": {before: countsTwice, after: countsOnce, judgement: admin.Safe, finding: "store sizes: is gone"},
		"a source behind the first": {
			before: countsOnce, after: countsMerged("zeta"), judgement: admin.Safe, finding: "source zeta: is new",
		},
		"the retention is shorter": {
			before: countsWindows(time.Hour, 7*time.Hour), after: countsWindows(time.Hour, 6*time.Hour),
			judgement: admin.Safe, finding: "store windows: layout window/25200000 becomes window/21600000: it is restored in full",
		},
		"the retention is longer": {
			before: countsWindows(time.Hour, 6*time.Hour), after: countsWindows(time.Hour, 7*time.Hour),
			judgement: admin.Safe, finding: "store windows: layout window/21600000 becomes window/25200000: it is restored in full",
		},
		"the times of values are not kept": {
			before: countsTable, after: countsOnce, judgement: admin.Safe,
			finding: "store counts: layout timestamped becomes keyvalue: it is restored in full",
		},

		"a store is renamed": {
			before: countsOnce, after: countsIn("count", topology.KeyValueStore("totals", schemas.String(), schemas.Int64())),
			judgement: admin.Rebuild, finding: "store totals: begins empty",
		},
		"a new store on an old input": {before: countsOnce, after: countsTwice, judgement: admin.Rebuild, finding: "store sizes: begins empty"},
		"the codec of a store": {
			before: countsOnce, after: countsIn("count", topology.KeyValueStore("counts", schemas.String(), schemas.JSON[int64]())),
			judgement: admin.Rebuild, finding: "store counts: formats (string, int64) becomes (string, json)", stops: "node count: corruption",
		},
		"the size of windows": {
			before: countsWindows(time.Hour, 6*time.Hour), after: countsWindows(2*time.Hour, 6*time.Hour),
			judgement: admin.Rebuild, finding: "node windows: windows size 1h0m0s",
		},
		"the times of values are kept from now on": {
			before: countsOnce, after: countsTable, judgement: admin.Rebuild, finding: "store counts: layout keyvalue becomes timestamped",
		},

		"a store of another kind": {
			before: countsOnce, after: countsOtherwise, judgement: admin.Refused, finding: "topic counting-counts-changelog: changelog counting-counts-changelog: cleanup.policy",
			stops: "cleanup.policy is compact", leads: back,
		},
		"a store of another kind whose rows expire too": {
			before: countsWindows(time.Hour, 6*time.Hour), after: passesSessions,
			judgement: admin.Refused, finding: "store windows: layout window/21600000 becomes session/21600000: its changelog has records of another",
			stops: "store windows is declared as session/21600000, and was window/21600000", leads: back,
		},
		"a store of another kind, once its changelog is deleted": {
			before: countsOnce, after: countsOtherwise,
			happens: func(_ *testing.T, r *replaced) { r.deleteTopic("counting-counts-changelog") }, judgement: admin.Refused,
			finding: "task in_0: would not be opened, because state and offsets do not name each other", alone: true,
			stops: "the cluster lost records", leads: func(r *replaced) declares {
				r.deleteTopic("counting-counts-changelog") // which the start has created again: the recovery action does not need it
				r.rebuild(countsOtherwise)
				return countsOtherwise
			}, reads: true,
		},
		"a store of another kind that never held anything": {
			before: passesSessions, after: countsWindows(time.Hour, 6*time.Hour), judgement: admin.Rebuild,
			finding: "store windows: layout session/21600000 becomes window/21600000: its changelog holds nothing",
		},
		"the retention is longer, and the changelog keeps records for the one before": {
			before: countsWindows(time.Hour, 6*time.Hour), after: countsWindows(time.Hour, 7*time.Hour),
			happens: func(_ *testing.T, r *replaced) {
				r.set("counting-windows-changelog", "retention.ms", fmt.Sprint((30 * time.Hour).Milliseconds()))
			},
			judgement: admin.Refused, finding: "topic counting-windows-changelog: changelog counting-windows-changelog: retention.ms is 108000000",
			stops: "retention.ms is 108000000", leads: func(r *replaced) declares {
				r.set("counting-windows-changelog", "retention.ms", "-1")
				return countsWindows(time.Hour, 7*time.Hour)
			},
		},
		"the partitions of a repartition topic": {
			before:    countsMoved(schemas.String(), replacedCounts, topology.Partitions(2)),
			after:     countsMoved(schemas.String(), replacedCounts, topology.Partitions(3)),
			judgement: admin.Refused, finding: "topic counting-words-repartition: repartition topic counting-words-repartition: the number of partitions",
			stops: "the number of partitions is 2 and has to be 3", leads: back,
		},
		"the changelog is deleted": {
			before: countsOnce, after: countsOnce, happens: func(_ *testing.T, r *replaced) { r.deleteTopic("counting-counts-changelog") },
			judgement: admin.Refused, finding: "task in_0: would not be opened, because state and offsets do not name each other", alone: true,
			stops: "the cluster lost records", leads: func(r *replaced) declares {
				r.deleteTopic("counting-counts-changelog") // which the start has created again: the recovery action does not need it
				r.rebuild(countsOnce)
				return nil
			}, reads: true,
		},
		"a store that was gone comes back": {
			before: countsOnce, after: countsTwice, prepares: func(r *replaced) {
				r.lives(countsTwice, len(r.input), nil)
				r.feed()
			},
			judgement: admin.Refused, finding: "task in_0: would not be opened, because state and offsets do not name each other: store sizes is new",
			alone: true, stops: "store sizes is new, and its changelog", leads: func(r *replaced) declares {
				r.deleteTopic("counting-sizes-changelog")
				r.rebuild(countsTwice)
				return countsTwice
			}, reads: true,
		},
		"a source before the first": {
			before: countsOnce, after: countsMerged("alpha"), judgement: admin.Refused,
			finding: "task alpha_0: would not be opened", stops: "carry no metadata of this application", leads: func(r *replaced) declares {
				r.rebuild(countsMerged("alpha"))
				return countsMerged("alpha")
			}, reads: true,
		},
		"offsets of an earlier commit": {
			before: countsOnce, after: countsOnce, prepares: func(r *replaced) {
				r.lives(countsOnce, len(r.input), nil)
				earlier = kadm.Offsets{}
				r.offsetsOf(r.t, "in").Each(func(o kadm.OffsetResponse) { earlier.Add(o.Offset) })
				r.feed()
			},
			happens: func(t *testing.T, r *replaced) {
				now := kadm.Offsets{}
				r.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) { now.Add(o.Offset) })
				if err := r.adm.CommitAllOffsets(t.Context(), "counting", earlier); err != nil {
					t.Fatal(err)
				}
				earlier = now
			},
			judgement: admin.Refused, finding: "task in_0: would not be opened", alone: true,
			// The database of the instance says it, or the changelog to one that has none.
			stops: "the last commit", leads: func(r *replaced) declares {
				if err := r.adm.CommitAllOffsets(r.t.Context(), "counting", earlier); err != nil {
					r.t.Fatal(err)
				}
				return nil
			},
		},
		"a source with parked records is gone": {
			before: countsAside(&broken), after: countsOnce,
			prepares: func(r *replaced) {
				broken.Store(true)
				parkThree(r)
			},
			more: parked, judgement: admin.Refused, finding: "store side.parked: is gone", alone: true,
			stops: "3 parked records wait in store side.parked", leads: func(r *replaced) declares {
				broken.Store(false)
				r.lives(countsAside(&broken), len(r.input), func(*txn.App) bool { return len(r.records("other")) == 3 })
				r.feed()
				return countsOnce
			},
		},
		"a source with parked records is gone, and they are given up": {
			before: countsAside(&tried), after: countsOnce, prepares: parkThree, more: parked,
			judgement: admin.Refused, finding: "store side.parked: is gone", alone: true,
			stops: "delete the offsets of side from the group", leads: func(r *replaced) declares {
				gone := kadm.TopicsSet{}
				gone.Add("side", 0, 1)
				if _, err := r.adm.DeleteOffsets(r.t.Context(), "counting", gone); err != nil {
					r.t.Fatal(err)
				}
				return countsOnce
			},
		},
		"a store in which nothing was ever parked is gone, and its changelog may not be seen": {
			before: countsAside(&never), after: countsOnce, prepares: parkThree,
			more: func(app *txn.App) bool { return app.Status().Totals.Outputs >= 40+3 },
			happens: func(t *testing.T, r *replaced) {
				hidden := r.absence(t, "counting-side.parked-changelog")
				hidden.code = kerr.TopicAuthorizationFailed.Code
				hidden.answer.Store(1 << 30)
			},
			judgement: admin.Safe, finding: "store side.parked: is gone",
		},
		"a repartition topic with records is gone": {
			before: countsMoved(schemas.String(), replacedCounts), after: countsOnce,
			happens: func(_ *testing.T, r *replaced) {
				r.put("counting-words-repartition", []byte("k0"), []byte("1"), r.began)
			},
			judgement: admin.Refused, finding: "source counting-words-repartition: is gone: a repartition topic: 1 records wait in it", alone: true,
			stops: "1 records wait in the repartition topic counting-words-repartition",
		},
	} {
		bubble(t, name, func(t *testing.T) {
			happened := func(t *testing.T) (*replaced, graph.Description) {
				t.Helper()
				r := newReplaced(t)
				r.feed()
				if test.prepares != nil {
					test.prepares(r)
				}
				r.lives(test.before, len(r.input), test.more)
				if test.happens != nil {
					test.happens(t, r)
				}
				ran := r.topology(test.before).Description()
				plan := r.plan(&ran, test.after)
				if !planFinds(plan, test.judgement, test.finding) || plan.Judgement != test.judgement {
					t.Fatalf("the plan is %s, want %s of %q:\n%+v", plan.Judgement, test.judgement, test.finding, plan.Findings)
				}
				if alone := r.plan(nil, test.after); test.alone && alone.Judgement != admin.Refused {
					t.Errorf("without what ran the plan is %+v", alone.Findings)
				}
				r.feed()
				return r, ran
			}
			r, ran := happened(t)
			switch test.judgement {
			case admin.Safe:
				r.lives(test.after, len(r.input), nil)
				if !r.right(test.after) {
					t.Error("it has not gone on with its state")
				}
			case admin.Rebuild:
				err := r.life(test.after, len(r.input), nil)
				switch {
				case test.stops != "" && (err == nil || !strings.Contains(err.Error(), test.stops)):
					t.Errorf("as it is it ends with %v, want %q", err, test.stops)
				case test.stops == "" && (err != nil || r.right(test.after)):
					t.Errorf("as it is it ends with %v and a state that is right", err)
				}
				r, _ = happened(t)
				r.rebuild(test.after)
				r.lives(test.after, r.written+len(r.input), nil)
				if !r.right(test.after) {
					t.Error("after the rebuild the state is not right")
				}
			case admin.Refused:
				was := r.contents()
				if err := r.life(test.after, len(r.input), nil); err == nil || !strings.Contains(err.Error(), test.stops) {
					t.Fatalf("it ends with %v, want %q", err, test.stops)
				}
				if now := r.contents(); now != was {
					t.Errorf("what was refused has changed\n%s\nto\n%s", was, now)
				}
				if test.leads == nil {
					return
				}
				after := test.leads(r)
				if after == nil {
					after = test.before
				}
				n := len(r.input)
				if test.reads {
					n += r.written
				}
				if plan := r.plan(&ran, after); plan.Judgement == admin.Refused {
					t.Errorf("the recovery action has been taken, and the plan is %+v", plan.Findings)
				}
				r.lives(after, n, nil)
				if !r.right(after) {
					t.Error("after the recovery action the state is not right")
				}
			case admin.Unknown:
				t.Error("nothing is unknown here")
			}
		})
	}
}

// planFinds reports whether a plan has a finding with that judgement whose subject, name and text
// begin like that.
func planFinds(plan admin.Plan, judgement admin.Judgement, beginning string) bool {
	return slices.ContainsFunc(plan.Findings, func(f admin.Finding) bool {
		return f.Judgement == judgement && strings.HasPrefix(fmt.Sprintf("%s %s: %s", f.Subject, f.Name, f.What), beginning)
	})
}

// TestPlanOfAnInputThatHasGrown: the partitions that an input has gained are not processed, as the
// plan says, until the topology runs under another application id.
func TestPlanOfAnInputThatHasGrown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		r.feed()
		r.lives(countsOnce, len(r.input), nil)
		if _, err := r.adm.CreatePartitions(t.Context(), 2, "in"); err != nil {
			t.Fatal(err)
		}
		r.cl.PurgeTopicsFromClient("in") // it would remember two
		ran := r.topology(countsOnce).Description()
		plan := r.plan(&ran, countsOnce)
		if plan.Judgement != admin.Rebuild || !planFinds(plan, admin.Rebuild, "topic in: has 2 partitions more than the state was made for") {
			t.Fatalf("the plan is %+v", plan)
		}
		r.produce(t, &kgo.Record{Topic: "in", Partition: 3, Key: []byte("new"), Value: []byte("1")})
		r.feed()
		r.lives(countsOnce, len(r.input), nil)
		if !r.right(countsOnce) {
			t.Error("the tasks that were there have not gone on")
		}
		other, err := r.topology(countsOnce).WithApplication("counting-2")
		if err != nil {
			t.Fatal(err)
		}
		plan, err = r.office.Application(other).Plan(t.Context(), nil)
		if err != nil || plan.Judgement != admin.Safe {
			t.Fatalf("under another id the plan is %+v, %v", plan, err)
		}
		cfg := r.cfg
		cfg.StateDir = t.TempDir()
		_, stop := start(t, other, cfg)
		r.read(t, "out", 2*len(r.input)+1)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPlanOfRecordsThatWouldBeMisread: what waits in a repartition topic is read by the new codecs,
// and a start does not see that. The plan does.
func TestPlanOfRecordsThatWouldBeMisread(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		r.feed()
		before, after := countsMoved(schemas.String(), replacedCounts), countsMoved(schemas.JSON[string](), replacedCounts)
		r.lives(before, len(r.input), nil)
		r.put("counting-words-repartition", []byte("k0"), []byte("no JSON"), r.began)
		ran := r.topology(before).Description()
		plan := r.plan(&ran, after)
		if !planFinds(plan, admin.Refused, "source counting-words-repartition: formats (string, string) becomes (string, json): 1 records wait") {
			t.Fatalf("the plan is %+v", plan)
		}
		r.lives(after, len(r.input), func(*txn.App) bool { return len(r.records("dead")) > 0 })
		if letters := len(r.records("dead")); letters != 1 {
			t.Errorf("there are %d dead letters, want that of the record that has waited", letters)
		}
	})
}

// TestParkedOfATopicThatIsStillRead: records wait in the store of a source. That source is now an
// input of another task, whose own commit does not name the records. The recovery action must not
// have the topic read from its start.
func TestParkedOfATopicThatIsStillRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		var broken atomic.Bool
		broken.Store(true)
		for range 3 {
			r.put("side", []byte("bad"), []byte("v"), r.began)
		}
		r.feed()
		r.lives(countsAside(&broken), len(r.input), func(app *txn.App) bool {
			return slices.ContainsFunc(app.Status().Tasks, func(task txn.TaskStatus) bool {
				return len(task.Parked) == 1 && task.Parked[0].Records == 3
			})
		})
		after, ran := countsMerged("side"), r.topology(countsAside(&broken)).Description()
		if plan := r.plan(&ran, after); !planFinds(plan, admin.Refused, "store side.parked: is gone") {
			t.Errorf("the plan is %+v", plan)
		}
		err := r.life(after, len(r.input), nil)
		for _, text := range []string{"3 parked records wait in store side.parked", "let the topology that ran process them", "--to-current"} {
			if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "delete") {
				t.Fatalf("it ends with %v, want %q, and nothing that deletes offsets", err, text)
			}
		}
		anew := kadm.Offsets{}
		r.offsetsOf(t, "side").Each(func(o kadm.OffsetResponse) {
			o.Metadata = ""
			anew.Add(o.Offset)
		})
		if err := r.adm.CommitAllOffsets(t.Context(), "counting", anew); err != nil {
			t.Fatal(err)
		}
		if plan := r.plan(&ran, after); plan.Judgement == admin.Refused {
			t.Errorf("what waits was given up, and the plan is %+v", plan)
		}
		r.feed()
		r.lives(after, len(r.input), nil)
		if !r.right(after) {
			t.Error("it has not gone on with its state")
		}
	})
}

// TestStoreComesBackAsAnotherKind: a store that was gone comes back as one of another kind, once
// its changelog was deleted. The rows that the directory has of it from before are no reason to
// stop.
func TestStoreComesBackAsAnotherKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		for _, declare := range []declares{countsTwice, countsOnce} {
			r.feed()
			r.lives(declare, len(r.input), nil)
		}
		r.deleteTopic("counting-sizes-changelog")
		windows := topology.WindowStore("sizes", schemas.String(), schemas.Int64(), 6*time.Hour)
		again := func(b *topology.Builder) {
			topology.Process(countedBy(topology.From(b, replacedIn), "count", replacedCounts), "size", windows, func(
				c *topology.Context, sizes state.Window[string, int64], r topology.Record[string, int64], emit topology.Emit[string, int64],
			) error {
				if _, err := sizes.Put(r.Key, r.Timestamp, r.Value, r.Timestamp); err != nil {
					return err
				}
				return emit(c, r)
			}).Into(replacedOut)
		}
		r.feed()
		r.lives(again, len(r.input), nil)
		if !r.right(again) {
			t.Error("it has not gone on with the other store")
		}
	})
}

// TestRepartitionTopicThatIsGone: a repartition topic that was read to its end and is gone from the
// topology is asked for once by a start, however many partitions it has, and holds nothing up.
func TestRepartitionTopicThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		r.feed()
		r.lives(countsMoved(schemas.String(), replacedCounts), len(r.input), nil)
		asked := &r.absence(t, "counting-words-repartition").asked
		after := countsIn("count", topology.KeyValueStore("totals", schemas.String(), schemas.Int64()))
		r.feed()
		r.lives(after, len(r.input), nil)
		if n := asked.Load(); n != 1 {
			t.Errorf("the topic was asked for %d times", n)
		}
	})
}

// TestRebuildCreatesAsConfigured: what a topology has gained is created as its start would, with
// the replicas that the application is configured with and not as many as the cluster gives, so
// that the start takes it.
func TestRebuildCreatesAsConfigured(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplacedOn(t, 5) // which give a topic three replicas
		r.cfg.InternalReplicas, r.cfg.InternalMinInSync = 4, 2
		r.feed()
		r.lives(countsOnce, len(r.input), nil)
		r.rebuild(countsTwice)
		r.lives(countsTwice, r.written+len(r.input), nil)
		if !r.right(countsTwice) {
			t.Error("after the rebuild the state is not right")
		}
	})
}

// TestRebuildIntoANewRepartitionTopic: a rebuild before the start of a topology that has gained a
// repartition topic says in a dry run what it would do, as if the topic were there, and does it.
func TestRebuildIntoANewRepartitionTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newReplaced(t)
		r.feed()
		r.lives(countsOnce, len(r.input), nil)
		after := countsMoved(schemas.String(), replacedCounts)
		op := r.office.Application(r.topology(after))
		would, err := op.RebuildFromInput(t.Context(), admin.Options{DryRun: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if there := r.topics(); slices.Contains(there, "counting-words-repartition") {
			t.Errorf("a dry run has made the topics %v", there)
		}
		did, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if would.DryRun = false; !reflect.DeepEqual(would, did) {
			t.Errorf("the dry run said\n%+v, and this was done:\n%+v", would, did)
		}
		r.lives(after, r.written+len(r.input), nil)
		if !r.right(after) {
			t.Error("after the rebuild the state is not right")
		}
	})
}
