package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

var (
	testNow  = time.UnixMilli(1_800_000_000_000)
	testTask = graph.TaskID{Subtopology: "in", Partition: 3}
)

// everything is a snapshot with a value in every gauge.
func everything() Snapshot {
	return Snapshot{
		Now: testNow, Application: "app", Instance: "one",
		Tasks: []Task{
			{
				ID: testTask, State: "running", StreamTime: testNow.UnixMilli() - 500,
				Inputs: []Input{{
					Topic: "in", Partition: 3, Committed: 100, HighWatermark: 130, LastStable: 120, Oldest: testNow.UnixMilli() - 2500,
					QueueBytes: 4096,
				}},
				Parked: []graph.Parked{{Topic: "in", Keys: 2, Records: 9}},
				Store: &pebblestore.Metrics{
					DiskBytes: 1, MemTableBytes: 2, UnflushedBytes: 3, L0Sublevels: 4, ReadAmplification: 5, CompactionDebtBytes: 6,
					Compactions: 7, Flushes: 8, BufferBytes: 18, Waits: 19, WaitTime: 1500 * time.Millisecond,
				},
				Gauges: []graph.GaugeReading{{Node: "capture", Name: "overdue-milliseconds", Value: 32}},
			},
			{
				ID: graph.TaskID{Subtopology: "in", Partition: 4}, State: "stopped", StreamTime: state.NoTime,
				Restore: &Restoring{Remaining: 14, Rate: 15},
				Inputs: []Input{{
					Topic: "in", Partition: 4, Committed: 7, HighWatermark: Unknown, LastStable: 5, Oldest: state.NoTime,
				}},
			},
		},
		Workers: []WorkerGauges{{
			ID: 2, OverlayBytes: 10, RoundBytes: 20, CommitTime: 30 * time.Millisecond, TransactionSince: testNow.Add(-4 * time.Second),
		}},
		Paused: map[string]int{"queue_full": 1, "stopped": 2},
		Cache:  &pebblestore.CacheMetrics{Bytes: 11, Hits: 12, Misses: 13},
		Memory: &pebblestore.Spent{
			Budget: 21, Blocks: 22, MemTables: 23, Buffers: 24, Loads: 25, Kept: 31, InMemory: 32, Unflushed: 26, UnflushedMax: 27, Share: 28, Databases: 29, Held: 30,
		},
		Restoring:    &RestoreMemory{Bytes: 16, BytesMax: 17},
		Standbys:     []string{"warm", "warm", "failing"},
		GlobalTables: []GlobalTable{{Store: "rates", Remaining: 33, Lag: 34}},
		Problems:     []TopicProblem{{Topic: "in", Problem: "partitions_not_read", Unread: 2}, {Topic: "out", Problem: "deleted"}},
	}
}

// used are metrics of which every series has been moved.
func used() *Metrics {
	m := New(everything)
	m.Polled("in", 3, nil)
	m.Restored(Restore{Task: testTask, Full: true, Reason: "damaged", Records: 5, Bytes: 50, Took: time.Second})
	m.GlobalTable("rates", 5, 2)
	m.Queried("rates", QueryAnswered, time.Millisecond)
	w := m.Worker(0)
	w.Retried(testTask, topology.Transient)
	w.Contributed(&task.Contribution{
		Task:             task.New(task.Spec{ID: testTask, Inputs: []state.Input{{Topic: "in", Partition: 3}}}),
		DeadLetterCauses: map[task.DeadLetterCause]int64{{Node: "parse", Class: topology.Poison}: 2},
		Counts:           []graph.OutcomeCount{{Node: "inbox", Outcome: "duplicates", N: 3}}, Outputs: 4,
		Taken: []task.Taken{{Records: 5}},
	})
	return m
}

// TestLint holds names, units and help texts against Prometheus' own rules.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(used().Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestDocumented, for requirement K1, compares the package comment with what is registered, both
// ways.
func TestDocumented(t *testing.T) {
	families, err := used().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	doc := documented(t)
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, namespace) {
			continue
		}
		switch {
		case strings.HasPrefix(name, "onceward_state_"), strings.HasPrefix(name, "onceward_cache_"):
			continue // documented as families
		case !doc[name]:
			t.Errorf("%s is not in the package comment", name)
		}
		delete(doc, name)
	}
	for name := range doc {
		t.Errorf("the package comment has %s, and nothing is registered under it", name)
	}
}

// TestGauges is requirements K1 and K2: lags, ages and what is held are shown, each apart from the
// others.
func TestGauges(t *testing.T) {
	want := `
# HELP onceward_cache_bytes Size of the block cache that all databases share.
# TYPE onceward_cache_bytes gauge
onceward_cache_bytes 11
# HELP onceward_databases_held Databases that hold back now, because the budget is used up.
# TYPE onceward_databases_held gauge
onceward_databases_held 30
# HELP onceward_databases_open Open databases.
# TYPE onceward_databases_open gauge
onceward_databases_open 29
# HELP onceward_global_table_lag_stable_offsets Offsets from the position of a global table to the last stable offsets.
# TYPE onceward_global_table_lag_stable_offsets gauge
onceward_global_table_lag_stable_offsets{store="rates"} 34
# HELP onceward_global_table_remaining_offsets Offsets that a restore or rebuild of a global table has before it.
# TYPE onceward_global_table_remaining_offsets gauge
onceward_global_table_remaining_offsets{store="rates"} 33
# HELP onceward_input_committed_offset Committed position in an input partition.
# TYPE onceward_input_committed_offset gauge
onceward_input_committed_offset{partition="3",task="in_3",topic="in"} 100
onceward_input_committed_offset{partition="4",task="in_4",topic="in"} 7
# HELP onceward_input_lag_offsets Offsets from the committed position to the high watermark.
# TYPE onceward_input_lag_offsets gauge
onceward_input_lag_offsets{partition="3",task="in_3",topic="in"} 30
# HELP onceward_input_lag_stable_offsets Offsets from the committed position to the last stable offset.
# TYPE onceward_input_lag_stable_offsets gauge
onceward_input_lag_stable_offsets{partition="3",task="in_3",topic="in"} 20
onceward_input_lag_stable_offsets{partition="4",task="in_4",topic="in"} 0
# HELP onceward_input_oldest_pending_age_seconds Age of the oldest record that is fetched and not committed.
# TYPE onceward_input_oldest_pending_age_seconds gauge
onceward_input_oldest_pending_age_seconds{partition="3",task="in_3",topic="in"} 2.5
onceward_input_oldest_pending_age_seconds{partition="4",task="in_4",topic="in"} 0
# HELP onceward_input_queue_bytes Memory of records that are fetched and not committed.
# TYPE onceward_input_queue_bytes gauge
onceward_input_queue_bytes{partition="3",task="in_3",topic="in"} 4096
onceward_input_queue_bytes{partition="4",task="in_4",topic="in"} 0
# HELP onceward_memory_budget_bytes Memory that all databases share.
# TYPE onceward_memory_budget_bytes gauge
onceward_memory_budget_bytes 21
# HELP onceward_memory_bytes Memory of the budget by use.
# TYPE onceward_memory_bytes gauge
onceward_memory_bytes{use="blocks"} 22
onceward_memory_bytes{use="buffers"} 24
onceward_memory_bytes{use="in_memory"} 32
onceward_memory_bytes{use="kept"} 31
onceward_memory_bytes{use="loads"} 25
onceward_memory_bytes{use="memtables"} 23
# HELP onceward_memory_share_bytes Unflushed bytes that each database may hold in any case.
# TYPE onceward_memory_share_bytes gauge
onceward_memory_share_bytes 28
# HELP onceward_memory_unflushed_bytes Applied bytes of all databases that are not on the disk yet.
# TYPE onceward_memory_unflushed_bytes gauge
onceward_memory_unflushed_bytes 26
# HELP onceward_memory_unflushed_limit_bytes From here on databases with their share of it hold back.
# TYPE onceward_memory_unflushed_limit_bytes gauge
onceward_memory_unflushed_limit_bytes 27
# HELP onceward_node_value Value that a node shows, in the unit that the gauge's name says.
# TYPE onceward_node_value gauge
onceward_node_value{gauge="overdue-milliseconds",node="capture",task="in_3"} 32
# HELP onceward_parked_keys Keys that are parked, by the last commit.
# TYPE onceward_parked_keys gauge
onceward_parked_keys{task="in_3",topic="in"} 2
# HELP onceward_parked_records Records that wait behind a failed one, that one included, by the last commit.
# TYPE onceward_parked_records gauge
onceward_parked_records{task="in_3",topic="in"} 9
# HELP onceward_partitions_paused Input partitions that are not fetched, by reason.
# TYPE onceward_partitions_paused gauge
onceward_partitions_paused{reason="queue_full"} 1
onceward_partitions_paused{reason="restoring"} 0
onceward_partitions_paused{reason="retrying"} 0
onceward_partitions_paused{reason="stopped"} 2
# HELP onceward_restore_memory_bytes Memory of what restores have read and not written yet.
# TYPE onceward_restore_memory_bytes gauge
onceward_restore_memory_bytes 16
# HELP onceward_restore_memory_limit_bytes The most memory that restores may hold for the records that they read.
# TYPE onceward_restore_memory_limit_bytes gauge
onceward_restore_memory_limit_bytes 17
# HELP onceward_restore_offsets_per_second Offsets that a restore has put behind lately, per second.
# TYPE onceward_restore_offsets_per_second gauge
onceward_restore_offsets_per_second{task="in_4"} 15
# HELP onceward_restore_remaining_offsets Offsets that a restore has before it.
# TYPE onceward_restore_remaining_offsets gauge
onceward_restore_remaining_offsets{task="in_4"} 14
# HELP onceward_state_buffer_bytes Memory of what a database holds above its memtables.
# TYPE onceward_state_buffer_bytes gauge
onceward_state_buffer_bytes{task="in_3"} 18
# HELP onceward_state_compactions_total Compactions since the database was opened.
# TYPE onceward_state_compactions_total counter
onceward_state_compactions_total{task="in_3"} 7
# HELP onceward_state_l0_sublevels Overlapping tables in L0.
# TYPE onceward_state_l0_sublevels gauge
onceward_state_l0_sublevels{task="in_3"} 4
# HELP onceward_state_wait_seconds_total Time that rounds and loads waited for the disk or for memory.
# TYPE onceward_state_wait_seconds_total counter
onceward_state_wait_seconds_total{task="in_3"} 1.5
# HELP onceward_state_waits_total Waits of rounds and loads for the disk or for memory since the database was opened.
# TYPE onceward_state_waits_total counter
onceward_state_waits_total{task="in_3"} 19
# HELP onceward_task_stream_time_seconds Stream time of the last commit, in Unix seconds.
# TYPE onceward_task_stream_time_seconds gauge
onceward_task_stream_time_seconds{task="in_3"} 1.7999999995e+09
# HELP onceward_standbys Copies that the process keeps of the state of other instances' tasks, by state.
# TYPE onceward_standbys gauge
onceward_standbys{state="failing"} 1
onceward_standbys{state="restoring"} 0
onceward_standbys{state="warm"} 2
# HELP onceward_tasks Tasks of the process by state.
# TYPE onceward_tasks gauge
onceward_tasks{state="restoring"} 0
onceward_tasks{state="running"} 1
onceward_tasks{state="stopped"} 1
# HELP onceward_worker_commit_time_seconds Smoothed time from seal to applied.
# TYPE onceward_worker_commit_time_seconds gauge
onceward_worker_commit_time_seconds{worker="2"} 0.03
# HELP onceward_worker_open_transaction_age_seconds Age of the older open transaction, 0 without one.
# TYPE onceward_worker_open_transaction_age_seconds gauge
onceward_worker_open_transaction_age_seconds{worker="2"} 4
# HELP onceward_worker_overlay_bytes Memory of the state writes of the open round.
# TYPE onceward_worker_overlay_bytes gauge
onceward_worker_overlay_bytes{worker="2"} 10
`
	var names []string
	for line := range strings.Lines(want) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "TYPE" {
			names = append(names, fields[2])
		}
	}
	if err := testutil.GatherAndCompare(New(everything).Gatherer(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestFailuresHaveSeries: every answer that is a failure or a resolution moves a series that was
// there before, with 0.
func TestFailuresHaveSeries(t *testing.T) {
	m := New(func() Snapshot { return Snapshot{} })
	w := m.Worker(0)
	count := func(name string) int {
		n, err := testutil.GatherAndCount(m.Gatherer(), name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	names := []string{"onceward_commit_failures_total", "onceward_rounds_aborted_total", "onceward_in_doubt_resolutions_total"}
	before := map[string]int{}
	for _, name := range names {
		before[name] = count(name)
	}
	for kind := protocol.Joined; kind <= protocol.ApplyFailed; kind++ {
		w.Answered(kind)
	}
	for _, kind := range []protocol.EventKind{
		protocol.FlushFailed, protocol.OffsetsRefused, protocol.ProducerLost, protocol.CommitUnknown,
	} {
		w.Aborted(CauseOf(kind), 1)
	}
	w.Aborted(CauseBase, 1)
	w.Aborted(CauseGivenUp, 1)
	for _, name := range names {
		if after := count(name); after != before[name] || after == 0 {
			t.Errorf("%s has %d series after every failure and had %d", name, after, before[name])
		}
	}
	if got := testutil.ToFloat64(m.failures.WithLabelValues("0", "commit_unknown")); got != 1 {
		t.Errorf("one unanswered commit counts %g times", got)
	}
	if got := testutil.ToFloat64(m.inDoubt.WithLabelValues("0")); got != 1 {
		t.Errorf("one unanswered commit is %g rounds in doubt", got)
	}
	if got := testutil.ToFloat64(m.rerun.WithLabelValues("0")); got != 6 {
		t.Errorf("six rounds of one record put %g back", got)
	}
}

// TestRestored covers the extents.
func TestRestored(t *testing.T) {
	m := New(func() Snapshot { return Snapshot{} })
	m.Restored(Restore{Task: testTask})
	m.Restored(Restore{Task: testTask, Records: 3, Bytes: 30, Took: time.Millisecond})
	m.Restored(Restore{Task: testTask, Records: 4, Bytes: 40, Took: time.Millisecond, Failed: true})
	m.Restored(Restore{Task: testTask, Records: 5, Bytes: 50, Took: time.Millisecond, Full: true, Reason: "damaged"})
	want := `
# HELP onceward_restore_bytes_total Bytes of keys and values read by restores.
# TYPE onceward_restore_bytes_total counter
onceward_restore_bytes_total{task="in_3"} 120
# HELP onceward_restore_records_total Changelog records read by restores.
# TYPE onceward_restore_records_total counter
onceward_restore_records_total{task="in_3"} 12
# HELP onceward_restores_total Restores done, by extent and reason.
# TYPE onceward_restores_total counter
onceward_restores_total{extent="full",reason="damaged",task="in_3"} 1
onceward_restores_total{extent="nothing",reason="",task="in_3"} 1
onceward_restores_total{extent="tail",reason="",task="in_3"} 1
`
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want),
		"onceward_restore_bytes_total", "onceward_restore_records_total", "onceward_restores_total"); err != nil {
		t.Error(err)
	}
}

// TestNilWorker: a worker without metrics works.
func TestNilWorker(*testing.T) {
	var w *Worker
	w.Slice(0, 1)
	w.Retried(testTask, topology.Poison)
	w.Answered(protocol.CommitUnknown)
	w.Aborted(CauseBase, 1)
	w.Carried(protocol.Flush, 0)
	w.TransactionEnded(0, 1)
	w.Applied(0, 1, 0)
	w.Contributed(nil)
}
