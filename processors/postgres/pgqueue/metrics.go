package pgqueue

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/instrument"
)

// metrics of a queue. Those of queues that share a registerer are told apart by the label queue.
type metrics struct {
	arrivals                map[Status]prometheus.Counter
	claims, expired, fenced prometheus.Counter
	settled                 map[Status]prometheus.Counter
	quarantined             prometheus.Counter
	failures                *prometheus.CounterVec
	tookEffect, hadNoEffect prometheus.Counter // commits in doubt
	notKnown                prometheus.Counter // the same
	cleaned                 prometheus.Counter
	oldest                  prometheus.Gauge
	handle, commit          prometheus.Observer
}

func newMetrics(r prometheus.Registerer, queue string) (metrics, error) {
	m := metrics{arrivals: map[Status]prometheus.Counter{}, settled: map[Status]prometheus.Counter{}}
	var failed error
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c, err := instrument.Register(r, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "onceward_postgres_queue_" + name, Help: help}, append([]string{"queue"}, labels...)))
		if err != nil {
			failed = err
		}
		return c
	}
	seconds := func(name, help string) prometheus.Observer {
		h, err := instrument.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onceward_postgres_queue_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"queue"}))
		if err != nil {
			failed = err
		}
		return h.WithLabelValues(queue)
	}
	arrivals := counters("arrivals_total", "Events that were stored, by what they are: also those of transactions that are rolled back afterwards.", "outcome")
	m.arrivals[Received] = arrivals.WithLabelValues(queue, "received")
	m.arrivals[Duplicate] = arrivals.WithLabelValues(queue, "duplicate")
	m.arrivals[Quarantined] = arrivals.WithLabelValues(queue, "conflict")
	m.claims = counters("claims_total", "Entries that were claimed.").WithLabelValues(queue)
	m.expired = counters("expired_claims_total", "Claims that another claim has found expired.").WithLabelValues(queue)
	m.fenced = counters("fenced_total", "Entries that were handled and could not be settled, because the claim was over.").WithLabelValues(queue)
	settled := counters("settled_total", "Entries that were settled, by their status.", "status")
	for _, s := range Statuses() {
		if s.Final() {
			m.settled[s] = settled.WithLabelValues(queue, string(s))
		}
	}
	m.quarantined = counters("quarantined_total", "Entries that workers have quarantined.").WithLabelValues(queue)
	m.failures = counters("failures_total", "Attempts that have failed, by the class of the failure.", "class")
	unknown := counters("unknown_commits_total", "Commits without an answer, by what the table said about them.", "resolved")
	m.tookEffect = unknown.WithLabelValues(queue, "committed")
	m.hadNoEffect = unknown.WithLabelValues(queue, "not-committed")
	m.notKnown = unknown.WithLabelValues(queue, "not-known")
	m.cleaned = counters("cleaned_total", "Settled entries that were removed because their retention was over.").WithLabelValues(queue)
	oldest, err := instrument.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "onceward_postgres_queue_oldest_pending_seconds", Help: "Age of the oldest entry that workers have to bring to an end; 0 where there is none.",
	}, []string{"queue"}))
	if err != nil {
		failed = err
	}
	m.oldest = oldest.WithLabelValues(queue)
	m.handle = seconds("handle_seconds", "Time from the begin of the transaction of an entry to its end.")
	m.commit = seconds("commit_seconds", "Time that a COMMIT takes.")
	return m, failed
}
