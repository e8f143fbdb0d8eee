package txn_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

var (
	ratesTopic = topology.Topic("rates", schemas.String(), schemas.JSON[int]())
	ratesStore = topology.TimestampedStore("rate-table", schemas.String(), schemas.JSON[int]())
)

// ratedTopology joins each record with the rate that its value names, if there is one.
func ratedTopology(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("rated", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	topology.LeftJoinGlobalTable(in, topology.GlobalTableFrom(b, ratesTopic, ratesStore), "rate",
		func(r topology.Record[string, string]) (topology.Option[string], error) {
			return topology.Some(r.Value), nil
		},
		func(_, name string, rate topology.Option[int]) (string, error) {
			if n, ok := rate.Get(); ok {
				return fmt.Sprint(name, "=", n), nil
			}
			return name + "=?", nil
		}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// rates are a broker with a topic of rates in three partitions, and what its table should be.
type rates struct {
	*testBroker
	t    *testing.T
	cfg  txn.Config
	log  *safeBuffer
	want map[string]int
	read int // outputs
}

const ratesPartitions = 3

func newRates(t *testing.T) *rates {
	t.Helper()
	r := &rates{testBroker: newBroker(t, 2, "in", "out", "dead"), t: t, log: &safeBuffer{}, want: map[string]int{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log is\n%s", r.log)
		}
	})
	r.create()
	r.cfg = r.config(txn.Config{
		StateDir: filepath.Join(t.TempDir(), "state"), Workers: 1, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	return r
}

// create makes the topic of rates, which keeps deletions for a minute.
func (r *rates) create() {
	r.t.Helper()
	compact, retention := "compact", "60000"
	configs := map[string]*string{"cleanup.policy": &compact, "delete.retention.ms": &retention}
	if _, err := r.adm.CreateTopic(r.t.Context(), ratesPartitions, 1, configs, "rates"); err != nil {
		r.t.Fatal(err)
	}
}

// recreate deletes the topic and makes it again, empty.
func (r *rates) recreate() {
	r.t.Helper()
	if _, err := r.adm.DeleteTopics(r.t.Context(), "rates"); err != nil {
		r.t.Fatal(err)
	}
	r.create()
	r.connect(r.t) // the client before knows the id of the topic before
	clear(r.want)
}

// rate is a record of a rate.
func rate(name, value string) *kgo.Record {
	r := &kgo.Record{Topic: "rates", Key: []byte(name), Partition: graph.PartitionOf([]byte(name), ratesPartitions), Timestamp: time.Now()}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

// set writes rates of the names from 0 to n, each with the given value.
func (r *rates) set(n, value int) {
	r.t.Helper()
	var records []*kgo.Record
	for i := range n {
		name := fmt.Sprint("r", i)
		records = append(records, rate(name, fmt.Sprint(value)))
		r.want[name] = value
	}
	r.produce(r.t, records...)
}

// remove writes deletions of names.
func (r *rates) remove(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.produce(r.t, rate(name, ""))
		delete(r.want, name)
	}
}

// table returns the rows that an application has.
func (r *rates) table(app *txn.App) (map[string]int, error) {
	view, err := txn.Read(app, ratesStore, 0)
	if err != nil {
		return nil, err
	}
	rows := map[string]int{}
	for e, err := range view.Store().All() {
		if err != nil {
			return nil, errors.Join(err, view.Close())
		}
		rows[e.Key] = e.Value
	}
	return rows, view.Close()
}

// current waits until the table is what was written.
func (r *rates) current(app *txn.App) {
	r.t.Helper()
	waitFor(r.t, "the table to be what was written", func() bool {
		rows, err := r.table(app)
		return err == nil && maps.Equal(rows, r.want)
	})
}

// ask sends names through the join, by one key, and returns the answers to them in their order.
func (r *rates) ask(names ...string) string {
	r.t.Helper()
	for _, name := range names {
		r.produce(r.t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(name)})
	}
	all := r.testBroker.read(r.t, "out", r.read+len(names))
	var out []string
	for _, o := range all[r.read:] {
		out = append(out, string(o.Value))
	}
	r.read += len(names)
	return strings.Join(out, " ")
}

// status returns that of the only global table.
func status(t *testing.T, app *txn.App) txn.GlobalTableStatus {
	t.Helper()
	tables := app.Status().GlobalTables
	if len(tables) != 1 {
		t.Fatalf("there are %d global tables", len(tables))
	}
	return tables[0]
}

// lives runs an application until its table is current and the names are answered, and returns how
// many records the table has read.
func (r *rates) lives(want string, names ...string) int64 {
	r.t.Helper()
	app, stop := start(r.t, ratedTopology(r.t), r.cfg)
	r.current(app)
	if got := r.ask(names...); got != want {
		r.t.Errorf("the answers are %q, want %q", got, want)
	}
	n := status(r.t, app).Records
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestGlobalTableIsReadFirst: the table has all partitions up to their ends before the first record
// is processed, committed records only. A restart goes on from the position that is with the rows.
// A name without a rate shows that a row that is not there is seen.
func TestGlobalTableIsReadFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(200, 1)
		foreign := r.client(t, kgo.TransactionalID("foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			if err := foreign.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := foreign.ProduceSync(t.Context(), rate("r7", fmt.Sprint(70+i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := foreign.EndTransaction(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
		}
		r.want["r7"] = 71
		r.remove("r8")
		// Written before the start: the group begins at them.
		for _, name := range []string{"r0", "r7", "r8", "r199"} {
			r.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(name)})
		}
		r.read = 4
		if n := r.lives("r1=1 r2=1", "r1", "r2"); n != 202 {
			t.Errorf("%d records were read, want 202", n)
		}
		var early []string
		for _, o := range r.testBroker.read(t, "out", 6)[:4] {
			early = append(early, string(o.Value))
		}
		if got := strings.Join(early, " "); got != "r0=1 r7=71 r8=? r199=1" {
			t.Errorf("the first answers are %q", got)
		}
		r.set(3, 2)
		if n := r.lives("r0=2 r3=1 none=?", "r0", "r3", "none"); n != 3 && n != 0 {
			t.Errorf("the restart has read %d records, want the new ones only", n)
		}
	})
}

// TestGlobalTableFollows: an application that runs sees new rates and deletions, and counts what
// makes no row.
func TestGlobalTableFollows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		app, _ := start(t, ratedTopology(t), r.cfg)
		r.current(app)
		if got := r.ask("r1"); got != "r1=?" {
			t.Errorf("the answer is %q", got)
		}
		r.set(2, 5)
		r.remove("r0")
		r.produce(t, rate("r1", "no number"), &kgo.Record{Topic: "rates", Value: []byte("9")})
		r.current(app)
		waitFor(t, "the records that make no row", func() bool { return status(t, app).Skipped == 2 })
		if got := r.ask("r0", "r1"); got != "r0=? r1=5" {
			t.Errorf("the answers are %q", got)
		}
		scrape(t, app).expect(t, series{
			`onceward_global_table_records_total{store="rate-table"}`:      5,
			`onceward_global_table_skipped_total{store="rate-table"}`:      2,
			`onceward_global_table_remaining_offsets{store="rate-table"}`:  0,
			`onceward_global_table_lag_stable_offsets{store="rate-table"}`: 0,
		})
		if _, err := txn.Read(app, ratesStore, 1); !errors.Is(err, txn.ErrNotServing) {
			t.Errorf("partition 1 answers %v", err)
		}
		view, err := txn.Read(app, ratesStore, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		if view.WhyStale() != nil || view.Epoch() != (txn.Epoch{}) || !view.Round().IsZero() || len(view.Positions().Inputs) == 0 {
			t.Errorf("the view has %v, %v, %v", view.WhyStale(), view.Epoch(), view.Positions())
		}
		if err := view.Store().Put("r1", 6, 0); err == nil {
			t.Error("a view of a global table can be written")
		}
	})
}

// TestGlobalTableIsReadAgain: what leads to a restore from the start while no process runs. The log
// says the cause.
func TestGlobalTableIsReadAgain(t *testing.T) {
	for cause, test := range map[string]struct {
		after   time.Duration
		between func(r *rates)
		read    int64
	}{
		"recreated": {0, func(r *rates) { r.recreate(); r.set(4, 2) }, 4},
		"trimmed": {0, func(r *rates) {
			r.set(10, 2)
			ends, err := r.adm.ListEndOffsets(r.t.Context(), "rates")
			if err == nil {
				_, err = r.adm.DeleteRecords(r.t.Context(), ends.Offsets())
			}
			if err != nil {
				r.t.Fatal(err)
			}
			clear(r.want)
			r.set(5, 3)
		}, 5},
		"tombstones_expired": {time.Minute, func(r *rates) { r.remove("r3") }, 21},
		// Nothing is missing, or not for long: the rows stay.
		"": {time.Minute, func(*rates) {}, 0},
	} {
		bubble(t, "cause "+cause, func(t *testing.T) {
			r := newRates(t)
			r.set(20, 1)
			r.lives("r1=1", "r1")
			time.Sleep(test.after)
			test.between(r)
			first := r.log.String()
			if n := r.lives("none=?", "none"); n != test.read {
				t.Errorf("%d records were read, want %d", n, test.read)
			}
			log := r.log.String()[len(first):]
			if cause != "" && !strings.Contains(log, "cause="+cause) || cause == "" && strings.Contains(log, "cause=") {
				t.Errorf("the log is\n%s", log)
			}
		})
	}
}

// TestGlobalTableOfAnotherDeclaration: rows that were made by other codecs are removed at the
// start.
func TestGlobalTableOfAnotherDeclaration(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		r.lives("r1=1", "r1")
		b := topology.NewBuilder("rated", topology.DeadLetters("dead"))
		texts := topology.TimestampedStore("rate-table", schemas.String(), schemas.String())
		topology.GlobalTableFrom(b, topology.Topic("rates", schemas.String(), schemas.String()), texts)
		topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).Into(topology.Topic("out", schemas.String(), schemas.String()))
		other, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, stop := start(t, other, r.cfg)
		waitFor(t, "the table", func() bool {
			view, err := txn.Read(app, texts, 0)
			return err == nil && view.Close() == nil
		})
		got := readStore(t, app, texts, func(s state.Timestamped[string, string]) string {
			v, _, _, err := s.Get("r1")
			return fmt.Sprint(v, " ", err)
		})
		if n := status(t, app).Records; got != "1 <nil>" || n != 20 {
			t.Errorf("the row is %q, and %d records were read", got, n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGlobalTableIsRebuiltBeside: a topic that is deleted and created while the application runs is
// read into a table beside the one that serves. The join meets the old rows until it is there, and
// never none.
func TestGlobalTableIsRebuiltBeside(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		app, stop := start(t, ratedTopology(t), r.cfg)
		r.current(app)
		hold := r.refuseFetches()
		r.recreate()
		r.set(10, 2)
		waitFor(t, "the rebuild", func() bool { return status(t, app).State == "rebuilding" && status(t, app).Remaining == 10 })
		if got := r.ask("r1", "r15"); got != "r1=1 r15=1" {
			t.Errorf("during the rebuild the answers are %q", got)
		}
		waitFor(t, "the alert", func() bool { return len(app.Status().Alerts) == 1 })
		if a := app.Status().Alerts[0]; a.Problem != "global_table_behind" || !strings.Contains(a.Text, "is rebuilt") {
			t.Errorf("the alert is %+v", a)
		}
		hold.Store(false)
		r.current(app)
		if got := r.ask("r1", "r15"); got != "r1=2 r15=?" {
			t.Errorf("after the rebuild the answers are %q", got)
		}
		waitFor(t, "the end of the alert", func() bool { return len(app.Status().Alerts) == 0 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := r.lives("r2=2", "r2"); n != 0 {
			t.Errorf("the next life has read %d records", n)
		}
	})
}

// refuseFetches has fetches of the rates answered as a broker does that is not their leader, while
// the result is true.
func (r *rates) refuseFetches() *atomic.Bool {
	r.t.Helper()
	hold := &atomic.Bool{}
	hold.Store(true)
	others := map[[16]byte]bool{}
	for _, topic := range []string{"in", "out", "dead", "rated-rounds"} {
		if info := r.TopicInfo(topic); info != nil {
			others[info.TopicID] = true
		}
	}
	r.ControlKey(keyFetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.KeepControl()
		fetch, ok := req.(*kmsg.FetchRequest)
		if !ok || !hold.Load() || len(fetch.Topics) == 0 || others[fetch.Topics[0].TopicID] {
			return nil, nil, false
		}
		resp := fetch.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = kerr.NotLeaderForPartition.Code
		return resp, nil, true
	})
	return hold
}

// TestGlobalTableBehind: a table that does not get on is an alert, and the process is not ready.
// Its rows serve.
func TestGlobalTableBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		app, _ := start(t, ratedTopology(t), r.cfg)
		r.current(app)
		r.ask("r1")
		hold := r.refuseFetches()
		r.set(20, 2)
		waitFor(t, "the alert", func() bool { return len(app.Status().Alerts) > 0 })
		scrape(t, app).expect(t, series{
			`onceward_topic_problems{problem="global_table_behind",topic="rates"}`: 1,
			`onceward_global_table_lag_stable_offsets{store="rate-table"}`:         20,
		})
		if reasons := fmt.Sprint(app.NotReady()); !strings.Contains(reasons, "global table rate-table is behind topic rates: 20 offsets are left") {
			t.Errorf("/readyz says %s", reasons)
		}
		if got := r.ask("r1"); got != "r1=1" {
			t.Errorf("the answer is %q", got)
		}
		hold.Store(false)
		r.current(app)
		waitFor(t, "the end of the alert", func() bool { return len(app.NotReady()) == 0 })
		for _, line := range []string{`msg="a global table is not up to date"`, `msg="a global table is up to date again"`} {
			if !strings.Contains(r.log.String(), line) {
				t.Errorf("the log does not have %s:\n%s", line, r.log.String())
			}
		}
	})
}

// TestGlobalTableUnreadable: a topic that is gone is an alert of the table too. The rows stay.
func TestGlobalTableUnreadable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		app, _ := start(t, ratedTopology(t), r.cfg)
		r.current(app)
		r.ask("r1")
		if _, err := r.adm.DeleteTopics(t.Context(), "rates"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the alerts", func() bool { return len(app.Status().Alerts) == 2 })
		if a := app.Status().Alerts; a[0].Problem != "deleted" || a[1].Problem != "global_table_unreadable" {
			t.Errorf("the alerts are %+v", a)
		}
		if got := r.ask("r1"); got != "r1=1" {
			t.Errorf("the answer is %q", got)
		}
		r.create()
		r.connect(t)
		clear(r.want)
		r.set(3, 2)
		r.current(app)
		waitFor(t, "the end of the alerts", func() bool { return len(app.Status().Alerts) == 0 })
	})
}
