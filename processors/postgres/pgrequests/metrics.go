package pgrequests

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/instrument"
)

// metrics of a store. Those of stores that share a registerer are told apart by the label service.
type metrics struct {
	outcomes                                [Expired + 1]prometheus.Counter
	ended                                   map[Status]prometheus.Counter
	takenOver, fenced                       prometheus.Counter
	answersCleaned, rowsCleaned             prometheus.Counter
	retryContention, retryLost, retryCommit prometheus.Counter
}

func newMetrics(r prometheus.Registerer, service string) (metrics, error) {
	m := metrics{ended: map[Status]prometheus.Counter{}}
	var failed error
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c, err := instrument.Register(r, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "onceward_postgres_requests_" + name, Help: help}, append([]string{"service"}, labels...)))
		if err != nil {
			failed = err
		}
		return c
	}
	outcomes := counters("total", "Requests, by what the store said.", "outcome")
	for o := Started; o <= Expired; o++ {
		m.outcomes[o] = outcomes.WithLabelValues(service, o.String())
	}
	ended := counters("ended_total", "Attempts that have ended, by the status of the request.", "status")
	for _, s := range []Status{StatusCompleted, StatusFailedRetryable, StatusFailedTerminal, StatusUnknown} {
		m.ended[s] = ended.WithLabelValues(service, string(s))
	}
	m.takenOver = counters("expired_locks_total", "Attempts that were started because the lock of the one before had expired.").WithLabelValues(service)
	m.fenced = counters("fenced_total", "Attempts that could not end their request, because it had a later attempt or an end.").WithLabelValues(service)
	cleaned := counters("cleaned_total", "Answers and rows that were removed because their retention was over.", "what")
	m.answersCleaned = cleaned.WithLabelValues(service, "answer")
	m.rowsCleaned = cleaned.WithLabelValues(service, "row")
	retries := counters("retries_total", "Transactions of the HTTP handler that were tried again, by what had failed.", "reason")
	m.retryContention = retries.WithLabelValues(service, "contention")
	m.retryLost = retries.WithLabelValues(service, "connection")
	m.retryCommit = retries.WithLabelValues(service, "unknown-commit")
	return m, failed
}
