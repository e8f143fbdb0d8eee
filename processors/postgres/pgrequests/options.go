package pgrequests

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults.
const (
	// DefaultTimeToLive is how long an answer is stored without [TimeToLive].
	DefaultTimeToLive = 24 * time.Hour
	// DefaultAuditRetention is how long a row stays without [AuditRetention].
	DefaultAuditRetention = 180 * 24 * time.Hour
	// DefaultLock is how long the lock of an attempt lasts without [Lock].
	DefaultLock = time.Minute
)

// Option is an option of [New]. All instances of a service have the same options.
type Option func(s *settings) error

type settings struct {
	ttl        time.Duration
	audit      time.Duration
	lock       time.Duration
	registerer prometheus.Registerer
}

// atLeast returns an option that sets a time.
func atLeast(name string, least, d time.Duration, set func(s *settings)) Option {
	return func(s *settings) error {
		if d < least {
			return fmt.Errorf("%s(%s): %s is the least", name, d, least)
		}
		set(s)
		return nil
	}
}

// TimeToLive is how long an answer is stored after its request has ended.
func TimeToLive(d time.Duration) Option {
	return atLeast("TimeToLive", time.Second, d, func(s *settings) { s.ttl = d })
}

// AuditRetention is how long a row stays after the start of its last attempt. [New] refuses one
// that is shorter than the time to live.
func AuditRetention(d time.Duration) Option {
	return atLeast("AuditRetention", time.Second, d, func(s *settings) { s.audit = d })
}

// Lock is how long a start that was committed keeps other copies from starting. Choose more than
// the work takes. A handler has its transactions ended by the server when they are idle for as
// long.
func Lock(d time.Duration) Option {
	return atLeast("Lock", time.Millisecond, d, func(s *settings) { s.lock = d })
}

// Metrics registers the store's metrics, whose names begin with onceward_postgres_requests_. Stores
// can share a registerer.
func Metrics(registerer prometheus.Registerer) Option {
	return func(s *settings) error {
		if registerer == nil {
			return errors.New("Metrics: the registerer is nil")
		}
		s.registerer = registerer
		return nil
	}
}
