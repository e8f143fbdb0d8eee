package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Metrics are the counters and histograms of a process, and the registry with everything that a
// scrape returns.
type Metrics struct {
	registry *prometheus.Registry
	counts   *prometheus.Registry // those that Counts reads

	polled, processed, committed, outputs, changelog, deadLetters, outcomes         *prometheus.CounterVec
	rounds, aborted, rerun, retries, failures, inDoubt, resolutions, markers, moved *prometheus.CounterVec
	globalRecords, globalSkipped                                                    *prometheus.CounterVec
	restores, restoreRecords, restoreBytes                                          *prometheus.CounterVec
	memberships, peersFenced, repaired                                              prometheus.Counter
	slice, roundRecords, commit, transactionOpen, recordAge, restore                prometheus.Histogram
	phase, query                                                                    *prometheus.HistogramVec
}

// namespace is the first word of every name.
const namespace = "onceward"

// New returns metrics whose gauges are read by snapshot, which is called for every scrape, from its
// goroutine, and must not block.
func New(snapshot func() Snapshot) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.makeCounters()
	m.makeHistograms()
	m.counts = countsOf(m.committed, m.outcomes, m.commit)
	m.registry.MustRegister(collector{snapshot}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) makeCounters() {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.polled = counter("records_polled_total", "Records fetched, control records aside.", "topic", "partition")
	m.processed = counter("records_processed_total", "Records run through the graph, runs of aborted rounds included.", "worker")
	m.committed = counter("records_committed_total", "Records of applied rounds.", "task", "topic", "partition")
	m.outputs = counter("outputs_committed_total", "Output records of applied rounds, dead letters included.", "task")
	m.changelog = counter("changelog_records_committed_total", "Changelog records of applied rounds.", "task")
	m.deadLetters = counter("dead_letters_total", "Dead letters of applied rounds.", "task", "node", "class")
	m.outcomes = counter("node_outcomes_total", "Outcomes that nodes counted, of applied rounds.", "task", "node", "outcome")
	m.rounds = counter("rounds_committed_total", "Rounds applied.", "worker")
	m.aborted = counter("rounds_aborted_total", "Rounds whose work was dropped and put back.", "worker", "cause")
	m.rerun = counter("records_rerun_total", "Records put back by aborted rounds.", "worker")
	m.retries = counter("retries_total", "Records postponed by the policy of a node.", "task", "class")
	m.failures = counter("commit_failures_total", "Answers of a commit that were not the one hoped for.", "worker", "kind")
	m.inDoubt = counter("rounds_in_doubt_total", "Commits that were not answered with success.", "worker")
	m.resolutions = counter("in_doubt_resolutions_total", "Ends of commits in doubt, as the log showed them.", "worker", "resolution")
	m.markers = counter("control_markers_total", "Partitions touched by transactions that ended.", "worker")
	m.moved = counter("partitions_moved_total", "Input partitions assigned, revoked and lost.", "event")
	m.restores = counter("restores_total", "Restores done, by extent and reason.", "task", "extent", "reason")
	m.restoreRecords = counter("restore_records_total", "Changelog records read by restores.", "task")
	m.restoreBytes = counter("restore_bytes_total", "Bytes of keys and values read by restores.", "task")
	m.globalRecords = counter("global_table_records_total", "Records read into a global table.", "store")
	m.globalSkipped = counter("global_table_skipped_total", "Records of a global table that make no row.", "store")
	m.memberships = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "memberships_total", Help: "Memberships of the group begun by this process.",
	})
	m.peersFenced = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "peers_fenced_total", Help: "Instances that this process took for dead, and whose transactions and membership it ended.",
	})
	m.repaired = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "transactions_repaired_total",
		Help: "Partitions in which this process has ended a transaction that hung.",
	})
	m.registry.MustRegister(m.memberships, m.peersFenced, m.repaired)
	for _, event := range []string{assigned, revoked, lost} {
		m.moved.WithLabelValues(event)
	}
}

var (
	// latencyBuckets span half a millisecond to 16 s: a commit takes about one, and the transaction
	// timeout is 10 s.
	latencyBuckets = prometheus.ExponentialBuckets(0.0005, 2, 16)
	// sliceBuckets span 10 us (a few records of a stateless graph) to 10 s.
	sliceBuckets = prometheus.ExponentialBuckets(1e-5, 4, 11)
	// ageBuckets are fine where the latency is judged, and go far enough to tell minutes of lag
	// from hours.
	ageBuckets = []float64{
		0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8, 16, 60, 300, 1800, 7200,
	}
	// recordBuckets span one record to a quarter of a million.
	recordBuckets = prometheus.ExponentialBuckets(1, 4, 10)
	// restoreBuckets span 10 ms to about an hour.
	restoreBuckets = prometheus.ExponentialBuckets(0.01, 3.5, 11)
)

func (m *Metrics) makeHistograms() {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	m.slice = histogram("slice_seconds", "Time to process a slice of up to 256 records.", sliceBuckets)
	m.roundRecords = histogram("round_records", "Records per applied round.", recordBuckets)
	m.commit = histogram("commit_seconds", "Time from the seal of a round until it is applied.", latencyBuckets)
	m.transactionOpen = histogram("transaction_open_seconds", "Time that transactions were open.", latencyBuckets)
	m.recordAge = histogram("record_age_seconds", "Age of the oldest record of a round, by its timestamp, when the round is applied.",
		ageBuckets)
	m.restore = histogram("restore_seconds", "Duration of restores that had something to read.", restoreBuckets)
	m.phase = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "commit_phase_seconds", Help: "Time of each phase of a commit.", Buckets: latencyBuckets,
	}, []string{"phase"})
	m.query = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "query_seconds",
		Help: "Time until a query had its view, or an error. The outcome is answered by this instance, forwarded to one that has answered, " +
			"refused because no instance serves the partition now, or failed.", Buckets: latencyBuckets,
	}, []string{"store", "outcome"})
	m.registry.MustRegister(m.phase, m.query)
}

// The outcomes of queries.
const (
	QueryAnswered  = "answered"
	QueryForwarded = "forwarded"
	QueryRefused   = "refused"
	QueryFailed    = "failed"
)

// Queried counts a query of a store of the topology, with one of the outcomes. The time is until
// its view was there.
func (m *Metrics) Queried(store, outcome string, took time.Duration) {
	m.query.WithLabelValues(store, outcome).Observe(took.Seconds())
}

// scrapesMax is how many scrapes are answered at a time; further ones are told to come back (503).
const scrapesMax = 4

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax})
}

// Gatherer returns what a scrape returns.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Polled counts what was fetched of one partition.
func (m *Metrics) Polled(topic string, partition int32, records []*broker.Record) {
	n := 0
	for _, r := range records {
		if !r.Attrs.IsControl() {
			n++
		}
	}
	m.polled.WithLabelValues(topic, strconv.Itoa(int(partition))).Add(float64(n))
}

// The ways in which partitions move.
const (
	assigned = "assigned"
	revoked  = "revoked"
	lost     = "lost"
)

// Assigned counts partitions that came.
func (m *Metrics) Assigned(partitions map[string][]int32) { m.move(assigned, partitions) }

// Revoked counts partitions that were handed over.
func (m *Metrics) Revoked(partitions map[string][]int32) { m.move(revoked, partitions) }

// Lost counts partitions that another member has taken over.
func (m *Metrics) Lost(partitions map[string][]int32) { m.move(lost, partitions) }

func (m *Metrics) move(event string, partitions map[string][]int32) {
	n := 0
	for _, ps := range partitions {
		n += len(ps)
	}
	m.moved.WithLabelValues(event).Add(float64(n))
}

// Membership counts a membership that begins.
func (m *Metrics) Membership() { m.memberships.Inc() }

// PeerFenced counts an instance that this process has taken for dead.
func (m *Metrics) PeerFenced() { m.peersFenced.Inc() }

// TransactionRepaired counts a partition in which this process has ended a transaction that hung.
func (m *Metrics) TransactionRepaired() { m.repaired.Inc() }

// Restore is what a try to restore a task has done.
type Restore struct {
	Task graph.TaskID
	// Full says that the database was emptied first, and Reason why, in a word of a closed set.
	Full   bool
	Reason string
	// Records and Bytes are what was read.
	Records, Bytes int64
	Took           time.Duration
	// Failed says that the task is not open: what was read counts, the restore does not.
	Failed bool
}

// Restored counts a restore; a nil pointer counts nothing.
func (m *Metrics) Restored(r Restore) {
	if m == nil {
		return
	}
	task := r.Task.String()
	m.restoreRecords.WithLabelValues(task).Add(float64(r.Records))
	m.restoreBytes.WithLabelValues(task).Add(float64(r.Bytes))
	if r.Failed {
		return
	}
	extent := "nothing"
	switch {
	case r.Full:
		extent = "full"
	case r.Records > 0:
		extent = "tail"
	}
	m.restores.WithLabelValues(task, extent, r.Reason).Inc()
	if r.Records > 0 {
		m.restore.Observe(r.Took.Seconds())
	}
}

// GlobalTable counts records that a global table has read, and those of them that make no row; a
// nil pointer counts nothing.
func (m *Metrics) GlobalTable(store string, records, skipped int64) {
	if m == nil {
		return
	}
	m.globalRecords.WithLabelValues(store).Add(float64(records))
	m.globalSkipped.WithLabelValues(store).Add(float64(skipped))
}
