package pgsink

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

// quarantined returns how many records are in quarantine.
func (s *stage) quarantined() int64 {
	return s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine")
}

// TestPoolIsClosed: a pool that is closed too early ends Run, and no record is to blame.
func TestPoolIsClosed(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 1)
		dead := s.c.Name(s.t, "dead")
		s.c.CreateTopics(s.t, 1, dead)
		a := s.sink("a", func(c *Config) { c.DeadLetterTopic = dead })
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "received" {
				a.config.Pool.Close()
			}
			return nil
		})
		if err := a.Run(s.t.Context()); !errors.Is(err, puddle.ErrClosedPool) {
			s.t.Fatal(err)
		}
		if n := len(s.c.Records(s.t, dead)); n != 0 {
			s.t.Errorf("%d dead letters", n)
		}
	})
}

// TestNoNewConnections: a hook of the pool that fails for a while is not the fault of a record.
func TestNoNewConnections(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 1)
		var failures atomic.Int32
		a := s.sink("a", func(c *Config) {
			c.Attempts = 2
			c.Pool = s.db.NewPool(s.t, func(c *pgxpool.Config) {
				c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
					if failures.Add(-1) >= 0 {
						return errors.New("the token service does not answer")
					}
					return nil
				}
			})
		})
		var once atomic.Bool
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "received" && once.CompareAndSwap(false, true) {
				failures.Store(3)
				a.config.Pool.Reset()
			}
			return nil
		})
		s.start(a)
		pgtest.Await(s.t, "the record is handled", func() bool { return s.effects()+s.quarantined() > 0 })
		if n := s.quarantined(); n != 0 {
			s.t.Errorf("%d records are in quarantine", n)
		}
	})
}

// TestOffsetIsLocked: a lock on the row of the offset that outlasts lock_timeout is not the fault
// of a record.
func TestOffsetIsLocked(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 1)
		a := s.sink("a", func(c *Config) {
			c.Attempts = 2
			c.Pool = s.db.NewPool(s.t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "50ms" })
		})
		holder, err := s.db.Pool.Acquire(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		defer holder.Release()
		hold := func(sql string) {
			if _, err := holder.Exec(s.t.Context(), sql); err != nil {
				s.t.Error(err)
			}
		}
		var tries atomic.Int32
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "begun" {
				switch tries.Add(1) {
				case 1:
					hold("BEGIN; SELECT 1 FROM onceward.sink_offsets FOR UPDATE")
				case 4:
					hold("COMMIT")
				}
			}
			return nil
		})
		s.start(a)
		pgtest.Await(s.t, "the record is handled", func() bool { return s.effects()+s.quarantined() > 0 })
		if n := s.quarantined(); n != 0 || tries.Load() < 4 {
			s.t.Errorf("%d records are in quarantine after %d tries", n, tries.Load())
		}
	})
}

// TestRecordEndsConnection: a record that ends its connection every time is refused, and the others
// are applied.
func TestRecordEndsConnection(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, s *stage, tx pgx.Tx) error{
		"context of Apply ends": func(ctx context.Context, s *stage, tx pgx.Tx) error {
			return s.db.Interrupted(ctx, s.t, tx)
		},
		"pause": func(ctx context.Context, s *stage, tx pgx.Tx) error {
			session := tx.Conn().PgConn().PID()
			pgtest.Await(s.t, "the server ends the transaction", func() bool {
				return s.db.Int(s.t, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", session) == 0
			})
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		},
		"terminates its session": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		},
		"serialization failure": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$")
			return err
		},
		"deferred constraint": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO late VALUES (1), (1)")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				s.db.Exec(s.t, "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
				s.produce(1, 8)
				a := s.sink("a", func(c *Config) {
					c.Attempts = 2
					if name == "pause" { // the others must not pause by accident
						c.IdleInTransaction = 300 * time.Millisecond
					}
					c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
						if string(r.Value) == "0-5" {
							if err := fail(ctx, s, tx); err != nil {
								return err
							}
						}
						return effect(ctx, tx, r)
					})
				})
				a.contendedCounts = 5
				s.start(a)
				s.count--
				s.awaitEnd()
				pgtest.Await(s.t, "the record is refused", func() bool { return s.quarantined() == 1 })
				s.judge()
			})
		})
	}
}

// TestClassThatApplyGives: a class that Apply gives an error is not overridden by what the error
// wraps, and a broken contract ends Run.
func TestClassThatApplyGives(t *testing.T) {
	for name, test := range map[string]struct {
		apply Apply
		want  string
	}{
		"fatal": {func(context.Context, pgx.Tx, []*kgo.Record) error {
			return topology.Fail(topology.Fatal, &pgconn.PgError{Code: "40P01"})
		}, "fatal"},
		"open rows": {func(ctx context.Context, tx pgx.Tx, _ []*kgo.Record) error {
			_, err := tx.Query(ctx, "SELECT 1") //nolint:rowserrcheck,sqlclosecheck // the mistake of this test
			return err
		}, "has left the rows of a query open"},
		"COMMIT": {func(ctx context.Context, tx pgx.Tx, _ []*kgo.Record) error {
			_, err := tx.Exec(ctx, "COMMIT")
			return err
		}, "has ended the transaction"},
		"ROLLBACK": {func(ctx context.Context, tx pgx.Tx, _ []*kgo.Record) error {
			_, err := tx.Exec(ctx, "ROLLBACK")
			return err
		}, "has ended the transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				s.produce(1, 1)
				ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
				defer cancel()
				err := s.sink("a", func(c *Config) { c.Apply = test.apply }).Run(ctx)
				if f, ok := errors.AsType[*Failure](err); !ok || !strings.Contains(f.Error()+f.Err.Error(), test.want) {
					s.t.Fatal(err)
				}
				if n := s.db.Int(s.t, "SELECT next_offset FROM onceward.sink_offsets"); n != 0 {
					s.t.Errorf("the offset is %d", n)
				}
			})
		})
	}
}
