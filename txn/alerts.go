package txn

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Alert is something that is wrong with a topic of the application and that an operator has to
// repair.
type Alert struct {
	Topic string `json:"topic"`
	// Problem is a word of a closed set, as in the metric onceward_topic_problems: deleted,
	// recreated, not_permitted, partitions_not_read, global_table_behind or
	// global_table_unreadable.
	Problem string `json:"problem"`
	// Text says what is wrong and what to do.
	Text string `json:"text"`
	// Since is when this process has found it.
	Since time.Time `json:"since"`
	// unread is how many partitions no task reads.
	unread int32
}

// alerts are what is wrong with topics now. The zero value has none. It is safe for concurrent use.
type alerts struct {
	mu  sync.Mutex
	now []Alert
}

// list returns the alerts by topic.
func (a *alerts) list() []Alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.now)
}

// has reports whether there is an alert of that kind for a topic.
func (a *alerts) has(topic string, kind topics.Kind) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.now, func(alert Alert) bool { return alert.Topic == topic && alert.Problem == string(kind) })
}

// set replaces the alerts, and returns those that were not there before and those that are over.
func (a *alerts) set(problems []topics.Problem, at time.Time) (begun, over []Alert) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := func(x Alert) func(Alert) bool {
		return func(y Alert) bool { return x.Topic == y.Topic && x.Problem == y.Problem }
	}
	before := a.now
	a.now = nil
	for _, p := range problems {
		alert := Alert{Topic: p.Topic, Problem: string(p.Kind), Text: p.Err.Error(), Since: at, unread: p.Unread}
		if i := slices.IndexFunc(before, same(alert)); i >= 0 {
			alert.Since = before[i].Since
			if before[i].Text != alert.Text {
				begun = append(begun, alert)
			}
		} else {
			begun = append(begun, alert)
		}
		a.now = append(a.now, alert)
	}
	for _, alert := range before {
		if !slices.ContainsFunc(a.now, same(alert)) {
			over = append(over, alert)
		}
	}
	return begun, over
}

// alert makes these problems the alerts of the process, and logs what has changed.
func (a *App) alert(problems []topics.Problem) {
	begun, over := a.alerts.set(problems, time.Now())
	for _, alert := range begun {
		a.log.Error("a topic is not as the application needs it", "topic", alert.Topic, "problem", alert.Problem, "error", errors.New(alert.Text))
	}
	for _, alert := range over {
		a.log.Info("a topic is as the application needs it again", "topic", alert.Topic, "problem", alert.Problem)
	}
}

// allAlerts are those of topics and of global tables.
func (a *App) allAlerts() []Alert { return append(a.alerts.list(), a.globalAlerts()...) }

// topicProblems are the alerts as metrics show them.
func (a *App) topicProblems() (out []metrics.TopicProblem) {
	for _, alert := range a.allAlerts() {
		out = append(out, metrics.TopicProblem{Topic: alert.Topic, Problem: alert.Problem, Unread: alert.unread})
	}
	return out
}
