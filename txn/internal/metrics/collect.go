package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
)

// Unknown stands for an offset that is not known.
const Unknown int64 = -1

// Snapshot is what the gauges show.
type Snapshot struct {
	Now                         time.Time
	Application, Instance, Mode string
	Tasks                       []Task
	Workers                     []WorkerGauges
	// Paused counts the input partitions that are not fetched, by reason.
	Paused map[string]int
	// Cache is nil while there is none.
	Cache *pebblestore.CacheMetrics
	// Memory is what the budget of all databases is spent on, nil while there is none.
	Memory *pebblestore.Spent
	// Restoring is nil without a session.
	Restoring *RestoreMemory
	// Hanging is how many transactions of the application hang.
	Hanging int
	// Waits are the partitions with open transactions that tasks wait for.
	Waits []Wait
	// Problems are what is wrong with topics.
	Problems []TopicProblem
	// Standbys are the states of the copies that the process keeps.
	Standbys []string
	// GlobalTables are those of the process.
	GlobalTables []GlobalTable
}

// GlobalTable is one global table.
type GlobalTable struct {
	Store string
	// Remaining is in offsets, of a restore or a rebuild. Lag is in offsets up to the stable ends.
	Remaining, Lag int64
}

// TopicProblem is something that is wrong with a topic.
type TopicProblem struct {
	Topic string
	// Problem is a word of a closed set.
	Problem string
	// Unread is how many partitions of an input no task reads.
	Unread int32
}

// Wait is a partition with an open transaction that tasks wait for.
type Wait struct {
	// Kind is one of offsets, changelog and input.
	Kind string
	// Holder is one of hanging, ongoing and unknown.
	Holder string
	Since  time.Time
}

// The known facts about the transaction that a task waits for.
const (
	HeldByHanging = "hanging"
	HeldByOngoing = "ongoing"
	HeldByUnknown = "unknown"
)

// RestoreMemory is what restores hold of what they read, and the most that they may.
type RestoreMemory struct {
	Bytes, BytesMax int64
}

// The states of tasks, the reasons of pauses, and the waits, that are always shown.
var (
	taskStates   = []string{TaskRestoring, TaskRunning, TaskStopped}
	copyStates   = []string{"restoring", "warm", "failing"} // of package standby
	pauseReasons = []string{PausedQueueFull, PausedRestoring, PausedRetrying, PausedStopped}
	waitKinds    = []string{"offsets", "changelog", "input"}
	waitHolders  = []string{HeldByHanging, HeldByOngoing, HeldByUnknown}
)

// The states of a task.
const (
	TaskRestoring = "restoring"
	TaskRunning   = "running"
	TaskStopped   = "stopped"
)

// Why an input partition is not fetched.
const (
	PausedQueueFull = "queue_full"
	PausedRestoring = "restoring"
	PausedRetrying  = "retrying"
	PausedStopped   = "stopped"
)

// Task is one task.
type Task struct {
	ID graph.TaskID
	// State is one of restoring, running and stopped.
	State string
	// StreamTime is in milliseconds since the epoch, state.NoTime if there is none.
	StreamTime int64
	Inputs     []Input
	// Parked has one for each source with parked keys.
	Parked []graph.Parked
	// Store is nil for a task without an open database.
	Store *pebblestore.Metrics
	// Restore is nil for a task that does not restore.
	Restore *Restoring
	// Gauges are those of the nodes.
	Gauges []graph.GaugeReading
}

// Restoring is a restore that is under way.
type Restoring struct {
	// Remaining is in offsets, Rate in offsets a second.
	Remaining int64
	Rate      float64
}

// Input is one input partition of a task.
type Input struct {
	Topic     string
	Partition int32
	// Committed, HighWatermark and LastStable are offsets, or Unknown.
	Committed, HighWatermark, LastStable int64
	// Oldest is the timestamp of the oldest record that is fetched and not committed, state.NoTime
	// for none.
	Oldest     int64
	QueueBytes int64
}

// WorkerGauges is what a worker holds.
type WorkerGauges struct {
	ID                       int
	OverlayBytes, RoundBytes int64
	CommitTime               time.Duration
	// TransactionSince is zero without an open transaction.
	TransactionSince time.Time
}

// collector reads the gauges when it is scraped.
type collector struct{ snapshot func() Snapshot }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	infoDesc    = desc("info", "The process; always 1.", "application", "instance", "mode")
	copiesDesc  = desc("standbys", "Copies that the process keeps of the state of other instances' tasks, by state.", "state")
	tasksDesc   = desc("tasks", "Tasks of the process by state.", "state")
	problemDesc = desc("topic_problems", "Something that is wrong with a topic; 1 as long as it is.", "topic", "problem")
	unreadDesc  = desc("input_partitions_unassigned", "Partitions of an input that no task reads.", "topic")
	pausedDesc  = desc("partitions_paused", "Input partitions that are not fetched, by reason.", "reason")

	hangingDesc   = desc("transactions_hanging", "Transactions of the application that nothing ends, those of other instances included: use the maximum of the instances, not the sum.")
	heldDesc      = desc("transaction_waits", "Partitions with an open transaction that tasks wait for.", "kind", "holder")
	waitedDesc    = desc("transaction_wait_seconds", "The longest of these waits.", "kind")
	committedDesc = desc("input_committed_offset", "Committed position in an input partition.", "task", "topic", "partition")
	lagDesc       = desc("input_lag_offsets", "Offsets from the committed position to the high watermark.", "task", "topic", "partition")
	stableLagDesc = desc("input_lag_stable_offsets", "Offsets from the committed position to the last stable offset.",
		"task", "topic", "partition")
	pendingDesc = desc("input_oldest_pending_age_seconds", "Age of the oldest record that is fetched and not committed.",
		"task", "topic", "partition")
	queueDesc = desc("input_queue_bytes", "Memory of records that are fetched and not committed.", "task", "topic", "partition")

	parkedKeysDesc    = desc("parked_keys", "Keys that are parked, by the last commit.", "task", "topic")
	parkedRecordsDesc = desc("parked_records", "Records that wait behind a failed one, that one included, by the last commit.", "task", "topic")
	nodeValueDesc     = desc("node_value", "Value that a node shows, in the unit that the gauge's name says.", "task", "node", "gauge")

	globalRemainingDesc = desc("global_table_remaining_offsets", "Offsets that a restore or rebuild of a global table has before it.", "store")
	globalLagDesc       = desc("global_table_lag_stable_offsets", "Offsets from the position of a global table to the last stable offsets.", "store")

	streamTimeDesc = desc("task_stream_time_seconds", "Stream time of the last commit, in Unix seconds.", "task")

	overlayDesc    = desc("worker_overlay_bytes", "Memory of the state writes of the open round.", "worker")
	roundDesc      = desc("worker_round_bytes", "Memory of the input and output of the open round.", "worker")
	commitTimeDesc = desc("worker_commit_time_seconds", "Smoothed time from seal to applied.", "worker")
	openDesc       = desc("worker_open_transaction_age_seconds", "Age of the older open transaction, 0 without one.", "worker")

	diskDesc        = desc("state_disk_bytes", "Disk space of a task's database.", "task")
	bufferDesc      = desc("state_buffer_bytes", "Memory of what a database holds above its memtables.", "task")
	memTableDesc    = desc("state_memtable_bytes", "Memory of a database's memtables.", "task")
	unflushedDesc   = desc("state_unflushed_bytes", "Applied bytes that are not on the disk yet.", "task")
	sublevelsDesc   = desc("state_l0_sublevels", "Overlapping tables in L0.", "task")
	readAmpDesc     = desc("state_read_amplification", "Tables that a read may have to look at.", "task")
	debtDesc        = desc("state_compaction_debt_bytes", "Estimate of what compactions still have to rewrite.", "task")
	compactionsDesc = desc("state_compactions_total", "Compactions since the database was opened.", "task")
	flushesDesc     = desc("state_flushes_total", "Flushes since the database was opened.", "task")
	waitsDesc       = desc("state_waits_total", "Waits of rounds and loads for the disk or for memory since the database was opened.", "task")
	waitTimeDesc    = desc("state_wait_seconds_total", "Time that rounds and loads waited for the disk or for memory.", "task")

	remainingDesc  = desc("restore_remaining_offsets", "Offsets that a restore has before it.", "task")
	rateDesc       = desc("restore_offsets_per_second", "Offsets that a restore has put behind lately, per second.", "task")
	memoryDesc     = desc("restore_memory_bytes", "Memory of what restores have read and not written yet.")
	memoryMostDesc = desc("restore_memory_limit_bytes", "The most memory that restores may hold for the records that they read.")

	cacheDesc  = desc("cache_bytes", "Size of the block cache that all databases share.")
	hitsDesc   = desc("cache_hits_total", "Hits of the block cache.")
	missesDesc = desc("cache_misses_total", "Misses of the block cache.")

	budgetDesc        = desc("memory_budget_bytes", "Memory that all databases share.")
	spentDesc         = desc("memory_bytes", "Memory of the budget by use.", "use")
	allUnflushedDesc  = desc("memory_unflushed_bytes", "Applied bytes of all databases that are not on the disk yet.")
	unflushedMostDesc = desc("memory_unflushed_limit_bytes", "From here on databases with their share of it hold back.")
	shareDesc         = desc("memory_share_bytes", "Unflushed bytes that each database may hold in any case.")
	openDatabasesDesc = desc("databases_open", "Open databases.")
	heldDatabasesDesc = desc("databases_held", "Databases that hold back now, because the budget is used up.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		infoDesc, tasksDesc, pausedDesc, problemDesc, unreadDesc, hangingDesc, heldDesc, waitedDesc, committedDesc, lagDesc, stableLagDesc,
		pendingDesc, queueDesc, nodeValueDesc, streamTimeDesc,
		parkedKeysDesc, parkedRecordsDesc, globalRemainingDesc, globalLagDesc,
		overlayDesc, roundDesc, commitTimeDesc, openDesc,
		diskDesc, bufferDesc, memTableDesc, unflushedDesc, sublevelsDesc, readAmpDesc, debtDesc, compactionsDesc, flushesDesc,
		waitsDesc, waitTimeDesc,
		remainingDesc, rateDesc, memoryDesc, memoryMostDesc,
		cacheDesc, hitsDesc, missesDesc,
		budgetDesc, spentDesc, allUnflushedDesc, unflushedMostDesc, shareDesc, openDatabasesDesc, heldDatabasesDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	out := sink{ch}
	out.gauge(infoDesc, 1, s.Application, s.Instance, s.Mode)
	states := map[string]int{}
	for _, t := range s.Tasks {
		states[t.State]++
		out.task(t, s.Now)
	}
	for _, state := range taskStates {
		out.gauge(tasksDesc, float64(states[state]), state)
	}
	copies := map[string]int{}
	for _, state := range s.Standbys {
		copies[state]++
	}
	for _, state := range copyStates {
		out.gauge(copiesDesc, float64(copies[state]), state)
	}
	for _, reason := range pauseReasons {
		out.gauge(pausedDesc, float64(s.Paused[reason]), reason)
	}
	out.gauge(hangingDesc, float64(s.Hanging))
	out.waits(s.Waits, s.Now)
	for _, p := range s.Problems {
		out.gauge(problemDesc, 1, p.Topic, p.Problem)
		if p.Unread > 0 {
			out.gauge(unreadDesc, float64(p.Unread), p.Topic)
		}
	}
	for _, t := range s.GlobalTables {
		out.gauge(globalRemainingDesc, float64(t.Remaining), t.Store)
		out.gauge(globalLagDesc, float64(t.Lag), t.Store)
	}
	for _, w := range s.Workers {
		out.worker(w, s.Now)
	}
	if s.Restoring != nil {
		out.gauge(memoryDesc, float64(s.Restoring.Bytes))
		out.gauge(memoryMostDesc, float64(s.Restoring.BytesMax))
	}
	if s.Cache != nil {
		out.gauge(cacheDesc, float64(s.Cache.Bytes))
		out.counter(hitsDesc, float64(s.Cache.Hits))
		out.counter(missesDesc, float64(s.Cache.Misses))
	}
	if s.Memory != nil {
		out.memory(s.Memory)
	}
}

// sink takes the values of one scrape.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) waits(waits []Wait, now time.Time) {
	for _, kind := range waitKinds {
		partitions, longest := map[string]int{}, time.Duration(0)
		for _, w := range waits {
			if w.Kind == kind {
				partitions[w.Holder]++
				longest = max(longest, now.Sub(w.Since))
			}
		}
		for _, holder := range waitHolders {
			s.gauge(heldDesc, float64(partitions[holder]), kind, holder)
		}
		s.gauge(waitedDesc, longest.Seconds(), kind)
	}
}

func (s sink) task(t Task, now time.Time) {
	id := t.ID.String()
	for _, in := range t.Inputs {
		labels := []string{id, in.Topic, strconv.Itoa(int(in.Partition))}
		s.gauge(queueDesc, float64(in.QueueBytes), labels...)
		if in.Committed != Unknown {
			s.gauge(committedDesc, float64(in.Committed), labels...)
			s.lag(lagDesc, in.Committed, in.HighWatermark, labels)
			s.lag(stableLagDesc, in.Committed, in.LastStable, labels)
		}
		var age time.Duration
		if in.Oldest != state.NoTime {
			age = max(now.Sub(time.UnixMilli(in.Oldest)), 0)
		}
		s.gauge(pendingDesc, age.Seconds(), labels...)
	}
	for _, p := range t.Parked {
		s.gauge(parkedKeysDesc, float64(p.Keys), id, p.Topic)
		s.gauge(parkedRecordsDesc, float64(p.Records), id, p.Topic)
	}
	if t.StreamTime != state.NoTime {
		s.gauge(streamTimeDesc, float64(t.StreamTime)/1000, id)
	}
	for _, g := range t.Gauges {
		s.gauge(nodeValueDesc, float64(g.Value), id, g.Node, g.Name)
	}
	if r := t.Restore; r != nil {
		s.gauge(remainingDesc, float64(r.Remaining), id)
		s.gauge(rateDesc, r.Rate, id)
	}
	if m := t.Store; m != nil {
		s.gauge(diskDesc, float64(m.DiskBytes), id)
		s.gauge(bufferDesc, float64(m.BufferBytes), id)
		s.gauge(memTableDesc, float64(m.MemTableBytes), id)
		s.gauge(unflushedDesc, float64(m.UnflushedBytes), id)
		s.gauge(sublevelsDesc, float64(m.L0Sublevels), id)
		s.gauge(readAmpDesc, float64(m.ReadAmplification), id)
		s.gauge(debtDesc, float64(m.CompactionDebtBytes), id)
		s.counter(compactionsDesc, float64(m.Compactions), id)
		s.counter(flushesDesc, float64(m.Flushes), id)
		s.counter(waitsDesc, float64(m.Waits), id)
		s.counter(waitTimeDesc, m.WaitTime.Seconds(), id)
	}
}

func (s sink) memory(m *pebblestore.Spent) {
	s.gauge(budgetDesc, float64(m.Budget))
	for use, bytes := range map[string]int64{
		"blocks": m.Blocks, "memtables": m.MemTables, "buffers": m.Buffers, "loads": m.Loads, "kept": m.Kept, "in_memory": m.InMemory,
	} {
		s.gauge(spentDesc, float64(bytes), use)
	}
	s.gauge(allUnflushedDesc, float64(m.Unflushed))
	s.gauge(unflushedMostDesc, float64(m.UnflushedMax))
	s.gauge(shareDesc, float64(m.Share))
	s.gauge(openDatabasesDesc, float64(m.Databases))
	s.gauge(heldDatabasesDesc, float64(m.Held))
}

// lag leaves an unknown end out. A position ahead of an end that was listed before is no lag.
func (s sink) lag(d *prometheus.Desc, committed, end int64, labels []string) {
	if end != Unknown {
		s.gauge(d, float64(max(end-committed, 0)), labels...)
	}
}

func (s sink) worker(w WorkerGauges, now time.Time) {
	id := strconv.Itoa(w.ID)
	s.gauge(overlayDesc, float64(w.OverlayBytes), id)
	s.gauge(roundDesc, float64(w.RoundBytes), id)
	s.gauge(commitTimeDesc, w.CommitTime.Seconds(), id)
	var age time.Duration
	if !w.TransactionSince.IsZero() {
		age = max(now.Sub(w.TransactionSince), 0)
	}
	s.gauge(openDesc, age.Seconds(), id)
}
