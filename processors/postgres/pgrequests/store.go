package pgrequests

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// Store has the requests of one service.
type Store struct {
	pool    *pgxpool.Pool
	service string
	holder  string // names this process for people
	settings
	metrics
}

// New returns the store of a service, which is a name of 1 to 200 bytes. It does not ask the
// database: a missing table shows at the first request. The pool is for [Store.Handler],
// [Store.Find] and [Store.Clean]; the other methods use the transaction of the caller.
func New(pool *pgxpool.Pool, service string, opts ...Option) (*Store, error) {
	s := &Store{
		pool: pool, service: service, holder: work.Owner(),
		settings: settings{ttl: DefaultTimeToLive, audit: DefaultAuditRetention, lock: DefaultLock},
	}
	var errs []error
	if pool == nil {
		errs = append(errs, errors.New("the pool is nil"))
	}
	if len(service) > nameBytesMax || service == "" || !storable(service) {
		errs = append(errs, fmt.Errorf("the service is valid UTF-8 of 1 to %d bytes without zero bytes, not %q", nameBytesMax, service))
	}
	for _, o := range opts {
		errs = append(errs, o(&s.settings))
	}
	if s.audit < s.ttl {
		errs = append(errs, fmt.Errorf("the audit retention of %s is shorter than the time to live of %s: a row stays as long as its answer",
			s.audit, s.ttl))
	}
	err := errors.Join(errs...)
	if err == nil {
		s.metrics, err = newMetrics(s.registerer, service)
	}
	if err != nil {
		return nil, fmt.Errorf("pgrequests: %w", err)
	}
	return s, nil
}

// storable says whether PostgreSQL takes s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// failed returns the error of an operation, nil for nil.
func (s *Store) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgrequests: %s: %s: %w", s.service, op, err)
}
