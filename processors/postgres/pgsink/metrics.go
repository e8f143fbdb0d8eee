package pgsink

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/instrument"
)

// metrics of a sink. Those of sinks that share a registerer are told apart by the label sink.
type metrics struct {
	name string

	applied, quarantined, deadLettered prometheus.Counter
	commits, commitFailures            prometheus.Counter
	tookEffect, hadNoEffect            prometheus.Counter // commits in doubt
	fenced                             prometheus.Counter
	retries                            *prometheus.CounterVec
	lag, pending                       *prometheus.GaugeVec
	batch, commit                      prometheus.Observer
}

func newMetrics(r prometheus.Registerer, sink string) (metrics, error) {
	m := metrics{name: sink}
	var failed error
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c, err := instrument.Register(r, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "onceward_postgres_sink_" + name, Help: help}, append([]string{"sink"}, labels...)))
		if err != nil {
			failed = err
		}
		return c
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		g, err := instrument.Register(r, prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "onceward_postgres_sink_" + name, Help: help}, []string{"sink", "topic", "partition"}))
		if err != nil {
			failed = err
		}
		return g
	}
	seconds := func(name, help string) prometheus.Observer {
		h, err := instrument.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onceward_postgres_sink_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"sink"}))
		if err != nil {
			failed = err
		}
		return h.WithLabelValues(sink)
	}
	records := counters("records_total", "Records whose offset was passed, by what became of them.", "outcome")
	m.applied = records.WithLabelValues(sink, "applied")
	m.quarantined = records.WithLabelValues(sink, "quarantined")
	m.deadLettered = records.WithLabelValues(sink, "dead-lettered")
	m.commits = counters("commits_total", "Transactions that have moved an offset.").WithLabelValues(sink)
	m.commitFailures = counters("commit_failures_total", "Commits that have failed, or had no answer and no effect.").WithLabelValues(sink)
	unknown := counters("unknown_commits_total", "Commits without an answer, by what the table of offsets said about them.", "resolved")
	m.tookEffect = unknown.WithLabelValues(sink, "committed")
	m.hadNoEffect = unknown.WithLabelValues(sink, "not-committed")
	m.fenced = counters("fenced_total", "Sessions that ended because a partition had another owner.").WithLabelValues(sink)
	m.retries = counters("retries_total", "Batches and records that were tried again, by the class of the failure.", "class")
	m.lag = gauges("lag_records", "Offsets between the last stable offset and the next one to apply. Ends of transactions and aborted records count.")
	m.pending = gauges("oldest_pending_seconds", "Age of the oldest record that is at work, by its timestamp; 0 where none is.")
	m.batch = seconds("batch_seconds", "Time from the begin of a transaction to its end.")
	m.commit = seconds("commit_seconds", "Time that a COMMIT takes.")
	return m, failed
}

// of returns a gauge of a partition.
func (m *metrics) of(g *prometheus.GaugeVec, w *worker) prometheus.Gauge {
	return g.WithLabelValues(m.name, w.topic, strconv.Itoa(int(w.n)))
}

// drop removes the gauges of a partition that has another owner.
func (m *metrics) drop(w *worker) {
	for _, g := range []*prometheus.GaugeVec{m.lag, m.pending} {
		g.DeleteLabelValues(m.name, w.topic, strconv.Itoa(int(w.n)))
	}
}
