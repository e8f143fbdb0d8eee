package pginbox

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultRetention is how long a mark is remembered without [Retention].
const DefaultRetention = 180 * 24 * time.Hour

// Option is an option of [New].
type Option func(s *settings) error

type settings struct {
	retention    time.Duration
	replayWindow time.Duration
	archive      bool
	registerer   prometheus.Registerer
}

// Retention is how long a mark is remembered. All instances of a service have the same one.
func Retention(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Second {
			return fmt.Errorf("Retention(%s): a second is the least", d)
		}
		s.retention = d
		return nil
	}
}

// ReplayWindow is after how long a copy of an event can still come. [New] refuses a retention that
// is shorter.
func ReplayWindow(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("ReplayWindow(%s): it is a time above zero", d)
		}
		s.replayWindow = d
		return nil
	}
}

// Archive has [Inbox.Clean] move marks to onceward.inbox_archive instead of deleting them. Nothing
// of this package reads or shortens it.
func Archive() Option {
	return func(s *settings) error {
		s.archive = true
		return nil
	}
}

// Metrics registers counters: onceward_postgres_inbox_marks_total by service and outcome, and
// onceward_postgres_inbox_cleaned_total by service. Inboxes can share a registerer.
func Metrics(registerer prometheus.Registerer) Option {
	return func(s *settings) error {
		if registerer == nil {
			return fmt.Errorf("Metrics: the registerer is nil")
		}
		s.registerer = registerer
		return nil
	}
}
