package pgqueue

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// logged is what a queue has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// ways are the ways in which a claim ends while a worker has it. Each returns what the entry is
// afterwards.
var ways = []struct {
	name, because string
	end           func(s *stage) (status Status)
}{
	{"expired", "claim 1 has expired", func(s *stage) Status {
		s.expire()
		return Claimed
	}},
	{"claimed by another", "claim 2 of other has followed", func(s *stage) Status {
		s.db.Exec(s.t, "UPDATE onceward.queue SET claims = 2, claimed_by = 'other', due_at = now() + interval '1 hour'")
		return Claimed
	}},
	{"quarantined", "the entry is QUARANTINED, as decided by someone", func(s *stage) Status {
		s.decide(s.queue("person", nil).Quarantine)
		return Quarantined
	}},
	{"requeued", "the entry is RETRYABLE_FAILED, as decided by someone", func(s *stage) Status {
		s.decide(s.queue("person", nil).Quarantine)
		s.decide(s.queue("person", nil).Requeue)
		s.db.Exec(s.t, "UPDATE onceward.queue SET due_at = now() + interval '1 hour'")
		return RetryableFailed
	}},
	{"settled by others", "the entry is IGNORED, as decided by someone", func(s *stage) Status {
		s.decide(s.queue("person", nil).Quarantine)
		s.decide(s.queue("person", nil).Ignore)
		return Ignored
	}},
	{"removed", "the entry was settled by others and removed", func(s *stage) Status {
		s.decide(s.queue("person", nil).Quarantine)
		s.decide(s.queue("person", nil).Ignore)
		s.db.Exec(s.t, "UPDATE onceward.queue SET settled_at = now() - interval '1000 days'")
		if n, err := s.queue("person", nil).Clean(s.t.Context(), 10); n != 1 || err != nil {
			s.t.Errorf("%d entries are removed, %v", n, err)
		}
		return ""
	}},
}

// decide has a person decide on the only entry.
func (s *stage) decide(act func(ctx context.Context, entry int64, by, reason string) error) {
	s.t.Helper()
	if err := act(s.t.Context(), s.db.Int(s.t, "SELECT entry FROM onceward.queue"), "someone", ""); err != nil {
		s.t.Fatal(err)
	}
}

// is fails the test unless the only entry has the status; none is left if that is empty.
func (s *stage) is(status Status) {
	s.t.Helper()
	if status == "" {
		if n := s.db.Int(s.t, "SELECT count(*) FROM onceward.queue"); n != 0 {
			s.t.Errorf("%d entries are left", n)
		}
		return
	}
	if s.with(status) != 1 {
		s.t.Errorf("the entry is not %s", status)
	}
}

// TestClaimThatIsOver: a worker whose claim ends before it settles the entry, or before it records
// a failure, changes nothing, and its log says how the claim has ended.
func TestClaimThatIsOver(t *testing.T) {
	for _, w := range ways {
		for _, fails := range []bool{false, true} {
			name := w.name + " before it is settled"
			if fails {
				name = w.name + " before it fails"
			}
			t.Run(name, func(t *testing.T) {
				s, log := newStage(t), &logged{}
				q := s.queue("worker", func(c *Config) { c.Parallel, c.Logger = 1, log.logger() })
				begun, over := make(chan struct{}), make(chan struct{})
				q.config.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
					if _, err := effect(ctx, tx, e); err != nil || e.Claims > 1 {
						return Decision{}, err
					}
					close(begun)
					<-over
					if fails {
						return Decision{}, context.DeadlineExceeded
					}
					return Decision{}, nil
				}
				s.store(Event{ID: "a"})
				stop := s.start(q)
				<-begun
				want := w.end(s)
				close(over)
				if fails && w.name == "expired" { // an expired claim is good enough for the end of one that has failed
					pgtest.Await(t, "the failure is logged", func() bool { return log.has("an entry has failed") })
					return
				}
				pgtest.Await(t, "the log says why the claim is over", func() bool { return log.has(w.because) })
				stop()
				if n := s.effects(); n != 0 && w.name != "expired" {
					t.Errorf("%d effects of a claim that is over", n)
				}
				if w.name != "expired" { // the worker itself claims it again
					s.is(want)
				}
				if n := testutil.ToFloat64(q.metrics.fenced); (n == 1) == fails {
					t.Errorf("%v attempts were fenced", n)
				}
			})
		}
	}
}

// TestCommitInDoubtOfClaimThatIsOver: when the entry was changed by others since a COMMIT got no
// answer, the evidence says whether it took effect. Without the entry nothing does.
func TestCommitInDoubtOfClaimThatIsOver(t *testing.T) {
	for _, w := range ways[1:] {
		t.Run(w.name, func(t *testing.T) {
			s, log, cut := newStage(t), &logged{}, &pgtest.Cutter{}
			var ended sync.Once
			want := Status("")
			config := s.config("worker", func(c *Config) { c.Parallel, c.Logger, c.ClaimFor = 1, log.logger(), time.Hour })
			config.Pool = cut.Pool(t, s.db, func(c *pgxpool.Config) {
				c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
					if cut.Happened() > 0 { // between the COMMIT and the end of the claim; all others wait for it
						ended.Do(func() { want = w.end(s) })
					}
					return true, nil
				}
			})
			q, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			once(q, "settled", func(context.Context) error {
				cut.Next(pgtest.CommitLost)
				return nil
			})
			s.store(Event{ID: "a"})
			stop := s.start(q)
			pgtest.Await(t, "the log says why the claim is over", func() bool { return log.has(w.because) })
			stop()
			s.is(want)
			none, unknown := testutil.ToFloat64(q.metrics.hadNoEffect), testutil.ToFloat64(q.metrics.notKnown)
			if gone := want == ""; none+unknown != 1 || (unknown == 1) != gone || testutil.ToFloat64(q.metrics.tookEffect) != 0 {
				t.Errorf("%v commits had no effect, of %v it is not known", none, unknown)
			}
			if n := s.effects(); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}
