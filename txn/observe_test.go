package txn_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// series are the values of one scrape, by the text of their name and labels.
type series map[string]float64

// get asks a running application for a page of its endpoint, without the endpoint's socket. It may
// be called from any goroutine.
func get(app *txn.App, page string) (status int, body string) {
	answer := httptest.NewRecorder()
	app.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, page, nil))
	return answer.Code, answer.Body.String()
}

func scrape(t *testing.T, app *txn.App) series {
	t.Helper()
	status, body := get(app, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", status, body)
	}
	s := series{}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			t.Fatalf("/metrics has the line %q: %v", line, err)
		}
		s[name] = v
	}
	return s
}

// sum adds up all series of a name, whatever their labels.
func (s series) sum(name string) (total float64) {
	for k, v := range s {
		if k == name || strings.HasPrefix(k, name+"{") {
			total += v
		}
	}
	return total
}

// expect compares values, and absent series where the value is below 0.
func (s series) expect(t *testing.T, want series) {
	t.Helper()
	for name, v := range want {
		switch got, ok := s[name]; {
		case v < 0 && ok:
			t.Errorf("%s is %g, want no such series", name, got)
		case v >= 0 && (!ok || got != v):
			t.Errorf("%s is %g (there: %t), want %g", name, got, ok, v)
		}
	}
}

// seenOnce lets the first record with each key pass, counts the others, and cannot read values that
// are not 8 bytes long.
func seenOnce(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("once", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64()))
	seen := topology.KeyValueStore("seen", schemas.String(), schemas.Int64())
	node := topology.Stateful(in, "inbox", seen)
	out := topology.Outlet[string, int64](node, "first")
	node.Process(func(s *topology.Setup) (topology.Handler[string, int64], error) {
		seen, emit := seen.In(s), out.In(s)
		accepted, duplicates := s.Counter("accepted"), s.Counter("duplicates")
		return func(c *topology.Context, r topology.Record[string, int64]) error {
			_, there, err := seen.Get(r.Key)
			switch {
			case err != nil:
				return err
			case there:
				duplicates.Inc()
				return nil
			}
			accepted.Inc()
			if err := seen.Put(r.Key, r.Value); err != nil {
				return err
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// copying writes every record of one topic to another.
func copying(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("copying")
	topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestMetricsOfKnownInput processes 500 records, 100 duplicates and 7 poison records, while others
// scrape, and compares every number that follows from that (requirement K1). Then the state
// directory is lost. The next incarnation must report what it restored, and count from 0.
func TestMetricsOfKnownInput(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const first, duplicates, poison = 500, 100, 7
		b := newBroker(t, 1, "in", "out", "dead")
		value, err := schemas.Int64().Append(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for i := range first + duplicates {
			records = append(records, &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "k%d", i%first), Value: value})
		}
		for range poison {
			records = append(records, &kgo.Record{Topic: "in", Key: []byte("p"), Value: []byte("no number")})
		}
		b.produce(t, records...)

		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, seenOnce(t), cfg)
		var scrapers sync.WaitGroup
		done := make(chan struct{})
		for range 3 { // races show up under the race detector
			scrapers.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
					if status, _ := get(app, "/metrics"); status != http.StatusOK {
						t.Errorf("/metrics answers %d", status)
					}
				}
			})
		}
		const all = first + duplicates + poison
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == all })
		close(done)
		scrapers.Wait()

		task := `task="in_0"`
		input := `{partition="0",task="in_0",topic="in"}`
		// The gauges of a worker are at most a second old.
		var s series
		waitFor(t, "the lag to be gone", func() bool {
			s = scrape(t, app)
			lag, listed := s["onceward_input_lag_offsets"+input] // no lag is shown while none is known
			return listed && lag == 0 && s["onceward_input_oldest_pending_age_seconds"+input] == 0 &&
				s[`onceward_worker_commit_time_seconds{worker="0"}`] > 0 && s[`onceward_worker_overlay_bytes{worker="0"}`] == 0
		})
		rounds := float64(app.Status().Totals.Commits)
		s.expect(t, series{
			`onceward_records_polled_total{partition="0",topic="in"}`:                                all,
			`onceward_records_processed_total{worker="0"}`:                                           all,
			`onceward_records_committed_total` + input:                                               all,
			`onceward_outputs_committed_total{` + task + `}`:                                         first + poison,
			`onceward_changelog_records_committed_total{` + task + `}`:                               first,
			`onceward_dead_letters_total{class="poison",node="in-source",` + task + `}`:              poison,
			`onceward_node_outcomes_total{node="inbox",outcome="accepted",` + task + `}`:             first,
			`onceward_node_outcomes_total{node="inbox",outcome="duplicates",` + task + `}`:           duplicates,
			`onceward_rounds_committed_total{worker="0"}`:                                            rounds,
			`onceward_records_rerun_total{worker="0"}`:                                               0,
			`onceward_rounds_in_doubt_total{worker="0"}`:                                             0,
			`onceward_memberships_total`:                                                             1,
			`onceward_partitions_moved_total{event="assigned"}`:                                      1,
			`onceward_partitions_moved_total{event="lost"}`:                                          0,
			`onceward_restores_total{extent="nothing",reason="",` + task + `}`:                       1,
			`onceward_tasks{state="running"}`:                                                        1,
			`onceward_tasks{state="stopped"}`:                                                        0,
			`onceward_partitions_paused{reason="restoring"}`:                                         0,
			`onceward_input_committed_offset` + input:                                                all,
			`onceward_input_lag_offsets` + input:                                                     0,
			`onceward_input_lag_stable_offsets` + input:                                              0,
			`onceward_input_queue_bytes` + input:                                                     0,
			`onceward_worker_overlay_bytes{worker="0"}`:                                              0,
			`onceward_worker_open_transaction_age_seconds{worker="0"}`:                               0,
			`onceward_round_records_sum`:                                                             all,
			`onceward_round_records_count`:                                                           rounds,
			`onceward_record_age_seconds_count`:                                                      rounds,
			`onceward_commit_seconds_count`:                                                          rounds,
			`onceward_transaction_open_seconds_count`:                                                rounds,
			`onceward_commit_phase_seconds_count{phase="flush"}`:                                     rounds,
			`onceward_commit_phase_seconds_count{phase="offsets"}`:                                   rounds,
			`onceward_commit_phase_seconds_count{phase="end"}`:                                       rounds,
			`onceward_commit_phase_seconds_count{phase="apply"}`:                                     rounds,
			`onceward_commit_phase_seconds_count{phase="abort"}`:                                     0,
			`onceward_info{application="once",instance="` + app.Status().Instance + `",mode="LIVE"}`: 1,
			`onceward_state_unflushed_bytes{task="in_1"}`:                                            -1,
			`onceward_input_lag_offsets{partition="1",task="in_1",topic="in"}`:                       -1,
			`onceward_commit_failures_total{kind="offsets_refused",worker="0"}`:                      0,
			`onceward_rounds_aborted_total{cause="base_aborted",worker="0"}`:                         0,
			`onceward_in_doubt_resolutions_total{resolution="committed",worker="0"}`:                 0,
		})
		for _, moved := range []string{
			`onceward_slice_seconds_count`, `onceward_state_memtable_bytes{task="in_0"}`,
			`onceward_state_unflushed_bytes{task="in_0"}`, `onceward_task_stream_time_seconds{task="in_0"}`,
		} {
			if s[moved] <= 0 {
				t.Errorf("%s is %g after %d records", moved, s[moved], all)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		// The identity of the instance is kept; its databases are lost.
		if err := os.RemoveAll(filepath.Join(cfg.StateDir, "tasks")); err != nil {
			t.Fatal(err)
		}
		again, _ := start(t, seenOnce(t), cfg)
		waitFor(t, "the task to run", running(again, 1))
		s = scrape(t, again)
		s.expect(t, series{
			`onceward_restores_total{extent="full",reason="absent",` + task + `}`: 1,
			`onceward_restore_records_total{` + task + `}`:                        first,
			`onceward_restore_seconds_count`:                                      1,
			`onceward_records_committed_total` + input:                            -1,
			`onceward_rounds_committed_total{worker="0"}`:                         0,
			`onceward_input_committed_offset` + input:                             all,
		})
		if got := s["onceward_restore_bytes_total{"+task+"}"]; got < first*10 {
			t.Errorf("%d records with keys and values of 10 bytes and more have %g bytes", first, got)
		}
	})
}

// TestControlMarkers: a round of this topology touches one output partition and the group's
// partition of the offsets topic, and the first one of a life the rounds topic too.
func TestControlMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		app, _ := start(t, copying(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		for i := range 5 {
			b.send(t, "in", "v", 1)
			waitFor(t, "the record to be committed", func() bool { return app.Status().Totals.Records == int64(i+1) })
		}
		s := scrape(t, app)
		if got, want := s["onceward_control_markers_total{worker=\"0\"}"], 1+2*float64(app.Status().Totals.Commits); got != want {
			t.Errorf("%g markers are counted, want %g", got, want)
		}
	})
}

// TestMetricsCountAtApply refuses offsets: while it does, nothing may count as committed, whatever
// was processed; then everything counts once, and the work that was thrown away is exactly what was
// run again.
func TestMetricsCountAtApply(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var refuseAll atomic.Bool
		var refused atomic.Int64
		refuseAll.Store(true)
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !refuseAll.Load() {
				return nil, nil, false
			}
			refused.Add(1)
			return refuse(req, kerr.CoordinatorLoadInProgress.Code), nil, true
		})
		feed(t, b, 400)
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
		}))
		waitFor(t, "rounds to be refused", func() bool { return refused.Load() >= 3 })
		s := scrape(t, app)
		for _, name := range []string{
			"onceward_records_committed_total", "onceward_outputs_committed_total", "onceward_changelog_records_committed_total",
			"onceward_node_outcomes_total", "onceward_rounds_committed_total", "onceward_record_age_seconds_count",
		} {
			if got := s.sum(name); got != 0 {
				t.Errorf("%s is %g before anything was committed", name, got)
			}
		}
		if got := s.sum("onceward_records_processed_total"); got < 1 {
			t.Errorf("%g records are processed", got)
		}
		refuseAll.Store(false)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 400 })
		check(t, b.read(t, "out", 400), 20)
		s = scrape(t, app)
		refusals := float64(refused.Load())
		s.expect(t, series{
			`onceward_commit_failures_total{kind="offsets_refused",worker="0"}`: refusals,
			`onceward_rounds_aborted_total{cause="offsets_refused",worker="0"}`: refusals,
			`onceward_rounds_aborted_total{cause="flush_failed",worker="0"}`:    0,
			`onceward_rounds_aborted_total{cause="commit_unknown",worker="0"}`:  0,
			`onceward_rounds_in_doubt_total{worker="0"}`:                        0,
		})
		if got := s.sum("onceward_records_committed_total"); got != 400 {
			t.Errorf("%g records are committed, want 400", got)
		}
		if got := s.sum("onceward_outputs_committed_total"); got != 400 {
			t.Errorf("%g outputs are committed, want 400", got)
		}
		processed, rerun := s.sum("onceward_records_processed_total"), s.sum("onceward_records_rerun_total")
		if processed != 400+rerun || rerun < refusals {
			t.Errorf("%g records are processed and %g run again after %g refusals, and 400 are committed", processed, rerun, refusals)
		}
		// Every transaction is over: as many as rounds that were committed or refused.
		if got, want := s["onceward_transaction_open_seconds_count"], s.sum("onceward_rounds_committed_total")+refusals; got < want {
			t.Errorf("%g transactions have ended, want %g or more", got, want)
		}
	})
}

// TestMetricsOfCommitInDoubt refuses one commit with an unknown code and compares what was in doubt
// with what was resolved.
func TestMetricsOfCommitInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var refused atomic.Int64
		b.ControlKey(keyEndTxn, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if r := req.(*kmsg.EndTxnRequest); !r.Commit || refused.Add(1) > 1 {
				return nil, nil, false
			}
			return refuse(req, kerr.UnknownServerError.Code), nil, true
		})
		feed(t, b, 200)
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1,
		}))
		check(t, b.read(t, "out", 200), 10)
		waitFor(t, "the totals to show every record", func() bool { return app.Status().Totals.Records == 200 })
		s := scrape(t, app)
		s.expect(t, series{
			`onceward_rounds_in_doubt_total{worker="0"}`:                             1,
			`onceward_commit_failures_total{kind="commit_unknown",worker="0"}`:       1,
			`onceward_in_doubt_resolutions_total{resolution="aborted",worker="0"}`:   1,
			`onceward_in_doubt_resolutions_total{resolution="committed",worker="0"}`: 0,
			`onceward_rounds_aborted_total{cause="commit_unknown",worker="0"}`:       1,
			`onceward_commit_phase_seconds_count{phase="ask"}`:                       1,
			`onceward_commit_phase_seconds_count{phase="settle"}`:                    1,
		})
		if got := s.sum("onceward_records_committed_total"); got != 200 {
			t.Errorf("%g records are committed, want 200", got)
		}
	})
}

// TestMetricsSurviveMembership: a new membership opens the tasks again, and no counter may go back.
func TestMetricsSurviveMembership(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		feed(t, b, 200)
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 200 })
		var refused atomic.Bool
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			refused.Store(true)
			return refuse(req, kerr.UnknownMemberID.Code), nil, true
		})
		feed(t, b, 200)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 400 })
		if !refused.Load() {
			t.Fatal("no membership was refused: the test tested nothing")
		}
		s := scrape(t, app)
		if got := s.sum("onceward_records_committed_total"); got != 400 {
			t.Errorf("%g records are committed over two memberships, want 400", got)
		}
		s.expect(t, series{`onceward_memberships_total`: 2, `onceward_partitions_moved_total{event="assigned"}`: 4})
	})
}

// TestLag, for requirements K1 and K2, compares both lags with what an open transaction of another
// producer leaves behind.
func TestLag(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const committed, open = 10, 5
		b := newBroker(t, 1, "in", "out")
		other := b.client(t, kgo.TransactionalID("other"))
		b.send(t, "in", "v", committed)
		app, _ := start(t, copying(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1,
		}))
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == committed })
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range open {
			if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		ends, err := b.adm.ListEndOffsets(t.Context(), "in")
		if err != nil {
			t.Fatal(err)
		}
		stable, err := b.adm.ListCommittedOffsets(t.Context(), "in")
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup("in", 0)
		last, _ := stable.Lookup("in", 0)
		if end.Offset-last.Offset != open {
			t.Fatalf("the broker lists ends %d and %d with %d records between them", end.Offset, last.Offset, open)
		}
		input := `{partition="0",task="in_0",topic="in"}`
		var s series
		waitFor(t, "the lag to be listed with all of them", func() bool { // it may have been listed between two records
			s = scrape(t, app)
			return s["onceward_input_committed_offset"+input]+s["onceward_input_lag_offsets"+input] == float64(end.Offset)
		})
		at := s["onceward_input_committed_offset"+input]
		s.expect(t, series{
			"onceward_input_lag_offsets" + input:        float64(end.Offset) - at,
			"onceward_input_lag_stable_offsets" + input: float64(last.Offset) - at,
		})
		if at != committed {
			t.Errorf("%g is committed, want %d", at, committed)
		}
		if err := other.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == committed+open })
	})
}

// TestOldestPending keeps an old record from being committed: its age must show, and go away with
// the commit.
func TestOldestPending(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var let atomic.Bool
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if let.Load() {
				return nil, nil, false
			}
			return refuse(req, kerr.CoordinatorLoadInProgress.Code), nil, true
		})
		app, _ := start(t, copying(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		began := time.Now()
		b.produce(t,
			&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("old"), Timestamp: began.Add(-time.Hour)},
			&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("new"), Timestamp: began})
		age := `onceward_input_oldest_pending_age_seconds{partition="0",task="in_0",topic="in"}`
		var got float64
		waitFor(t, "the age to show", func() bool {
			got = scrape(t, app)[age]
			return got > 0
		})
		if most := (time.Hour + time.Since(began)).Seconds() + 1; got < 3600 || got > most {
			t.Errorf("the oldest record is %g s old, want 3600 to %g", got, most)
		}
		let.Store(true)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 2 })
		waitFor(t, "the age to be gone", func() bool { return scrape(t, app)[age] == 0 })
		// The same age, when the round was applied: one hour is in the bucket that ends at two.
		s := scrape(t, app)
		s.expect(t, series{
			`onceward_record_age_seconds_bucket{le="1800"}`: s["onceward_record_age_seconds_count"] - 1,
			`onceward_record_age_seconds_bucket{le="7200"}`: s["onceward_record_age_seconds_count"],
		})
	})
}

// TestStuckLoop blocks a handler: the process must say that it is stuck, and which loop is, until
// the handler returns.
func TestStuckLoop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		entered, leave := make(chan struct{}), make(chan struct{})
		var once sync.Once
		builder := topology.NewBuilder("blocking")
		topology.From(builder, topology.Topic("in", schemas.String(), schemas.String())).Peek("block", func(topology.Record[string, string]) error {
			once.Do(func() { close(entered) })
			<-leave
			return nil
		}).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1,
		}))
		var release sync.Once
		t.Cleanup(func() { release.Do(func() { close(leave) }) }) // before the application is stopped, also when the test fails
		healthy := func() bool { status, _ := get(app, "/healthz"); return status == http.StatusOK }
		waitFor(t, "the task to run", running(app, 1))
		waitFor(t, "an idle process to be healthy", healthy)
		b.send(t, "in", "v", 3)
		<-entered
		time.Sleep(50 * time.Second)
		if !healthy() {
			t.Error("the process is stuck before a handler has taken a minute")
		}
		var body string
		waitFor(t, "the process to say that it is stuck", func() bool {
			var status int
			status, body = get(app, "/healthz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, `"worker 0"`)
		})
		var told struct {
			Status string
			Stuck  []struct {
				Loop string
				Busy float64 `json:"busy_seconds"`
			}
		}
		if err := json.Unmarshal([]byte(body), &told); err != nil || told.Status != "stuck" || told.Stuck[0].Busy < 60 {
			t.Errorf("/healthz says %s (%v)", body, err)
		}
		// The scrape does not wait for the worker, and says how old the oldest record is.
		scrape(t, app).expect(t, series{`onceward_records_processed_total{worker="0"}`: 0})
		release.Do(func() { close(leave) })
		waitFor(t, "the process to be healthy again", healthy)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 3 })
	})
}

// TestReady walks through the life of a task: not ready before it is open, ready, and not ready
// with the reason once it has stopped.
func TestReady(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		builder := topology.NewBuilder("stopping")
		topology.From(builder, topology.Topic("in", schemas.String(), schemas.String())).Peek("stop", func(r topology.Record[string, string]) error {
			if r.Value == "stop" {
				return topology.Fail(topology.Fatal, schemas.Reason("told to"))
			}
			return nil
		}).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		// The group answers no join before the test lets it.
		var join atomic.Bool
		b.ControlKey(keyJoinGroup, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if join.Load() {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return resp, nil, true
		})
		var log syncBuffer
		app, stop := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		reason := func() (int, string) { return get(app, "/readyz") }
		waitFor(t, "the process to wait for the group", func() bool {
			status, body := reason()
			return status == http.StatusServiceUnavailable && strings.Contains(body, "not a member of the group yet")
		})
		waitFor(t, "the log to say what it waits for", func() bool {
			return strings.Contains(log.String(), "one that died holds it up until its session timeout")
		})
		if got := app.Status(); got.State != txn.Joining || !strings.Contains(got.Reason, "session timeout") {
			t.Errorf("the state is %s: %q, want joining and for what", got.State, got.Reason)
		}
		join.Store(true)
		waitFor(t, "the process to be ready", func() bool { status, _ := reason(); return status == http.StatusOK })
		if got := app.Status().Tasks; len(got) != 2 {
			t.Errorf("it is ready with the tasks %v", got)
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("stop")})
		waitFor(t, "a task to stop", func() bool { return scrape(t, app)[`onceward_tasks{state="stopped"}`] == 1 })
		status, body := reason()
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "task in_0 is stopped") || !strings.Contains(body, "told to") {
			t.Errorf("with a stopped task /readyz answers %d %s", status, body)
		}
		scrape(t, app).expect(t, series{`onceward_tasks{state="running"}`: 1})
		if err := stop(); err == nil {
			t.Error("Run returns no error although a task had stopped")
		}
	})
}
