package pgoutbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/instrument"
)

// metrics of an outbox. Those of outboxes that share a registerer are told apart by the label
// outbox.
type metrics struct {
	appended, published, unmarked, cleaned prometheus.Counter
	failures                               *prometheus.CounterVec
	oldest, pending                        prometheus.Gauge
	publish                                prometheus.Observer
}

func newMetrics(r prometheus.Registerer, outbox string) (metrics, error) {
	var m metrics
	var failed error
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c, err := instrument.Register(r, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "onceward_postgres_outbox_" + name, Help: help}, append([]string{"outbox"}, labels...)))
		if err != nil {
			failed = err
		}
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g, err := instrument.Register(r, prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "onceward_postgres_outbox_" + name, Help: help}, []string{"outbox"}))
		if err != nil {
			failed = err
		}
		return g.WithLabelValues(outbox)
	}
	m.appended = counters("appended_total", "Events that were appended: also those of transactions that are rolled back afterwards.").WithLabelValues(outbox)
	m.published = counters("published_total", "Events that were published and marked.").WithLabelValues(outbox)
	m.unmarked = counters("unmarked_total", "Events that were published and could not be marked, and so may be published again.").WithLabelValues(outbox)
	m.cleaned = counters("cleaned_total", "Published entries that were removed because their retention was over.").WithLabelValues(outbox)
	m.failures = counters("failures_total", "Events that could not be published, by the class of the failure.", "class")
	m.oldest = gauge("oldest_pending_seconds", "Age of the oldest event that is not published; 0 where there is none.")
	m.pending = gauge("pending_events", "Events that are not published, counted up to 100000.")
	h, err := instrument.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "onceward_postgres_outbox_publish_seconds", Help: "Time from the append of an event to the answer of the brokers.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 20),
	}, []string{"outbox"}))
	if err != nil {
		failed = err
	}
	m.publish = h.WithLabelValues(outbox)
	return m, failed
}
