package pgrequests_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// points has a fault happen before or after a statement of a service, once. It is the tracer of its
// connections.
type points struct {
	mu      sync.Mutex
	seen    []string // the statements of the request, by their first words
	at      int      // counts points: two for each statement, 0 is none
	count   int
	fault   func(conn *pgx.Conn)
	reached bool
}

// arm has the fault happen at a point of the next request, counted from 1.
func (p *points) arm(at int, fault func(conn *pgx.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.at, p.count, p.fault, p.reached = nil, at, 0, fault, false
}

func (p *points) pass(conn *pgx.Conn) {
	p.mu.Lock()
	p.count++
	hit := p.count == p.at
	p.reached = p.reached || hit
	fault := p.fault
	p.mu.Unlock()
	if hit {
		fault(conn)
	}
}

func (p *points) TraceQueryStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	p.mu.Lock()
	p.seen = append(p.seen, strings.Join(strings.Fields(d.SQL)[:1], " "))
	p.mu.Unlock()
	p.pass(conn)
	return ctx
}

func (p *points) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	p.pass(conn)
}

// traced returns a pool with the tracer, whose dials can be refused.
func traced(t testing.TB, db *pgtest.Database, p *points, refuse func() bool) *pgxpool.Pool {
	return db.NewPool(t, func(c *pgxpool.Config) {
		named(c)
		c.ConnConfig.Tracer = p
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if refuse() {
				return nil, errors.New("the process is dead")
			}
			return dial(ctx, network, address)
		}
	})
}

// TestFaultAtEveryPoint_M2: whatever happens before or after any statement between a request and
// its answer, the client that retries until it is answered has one effect and one answer. A crash
// ends all connections of the process, which dials no more; another process gets the retry. The
// process survives a terminated session, which the server has ended. Rows of the failure matrix:
// crash before processing; crash after the apply; duplicate delivery. Row of the failure matrix:
// crash after processing before flush.
func TestFaultAtEveryPoint_M2(t *testing.T) {
	db := pgtest.New(t)
	n := 0
	for _, crash := range []bool{true, false} {
		name := map[bool]string{true: "crash", false: "terminated session"}[crash]
		for point := 1; ; point++ {
			n++
			var dead bool
			p := &points{}
			s := newService(t, db, traced(t, db, p, func() bool { return dead }), pgrequests.HTTP{})
			must(t, s.pool.Ping(t.Context()))
			p.arm(point, func(conn *pgx.Conn) {
				if crash {
					dead = true
					_ = conn.PgConn().Conn().Close() // the process would not ask either
					return
				}
				db.Terminate(t, application)
			})
			key := fmt.Sprint("k", n)
			answer := s.post(key, "10")
			if !p.reached {
				if point < 10 {
					t.Errorf("a request has %d points only: %v", point, p.seen)
				}
				break
			}
			if crash {
				if answer.Code == 201 && point < len(p.seen)*2-1 {
					t.Errorf("%s at point %d of %v: the answer is %d", name, point, p.seen, answer.Code)
				}
				s = newService(t, db, nil, pgrequests.HTTP{}) // another process
				s.calls = 100
			} else {
				is(t, fmt.Sprint(name, " at point ", point), answer, 201, "payment")
			}
			for attempts := 0; ; attempts++ {
				again := s.post(key, "10")
				if again.Code == 409 && attempts < 1000 { // the server has not noticed yet that the process is dead
					continue
				}
				is(t, fmt.Sprint(name, " at point ", point, ", retry"), again, 201, "payment")
				if answer.Code == 201 && again.Body.String() != answer.Body.String() {
					t.Errorf("%s at point %d: the answers are %q and %q", name, point, answer.Body, again.Body)
				}
				break
			}
			if effects := db.Int(t, `SELECT count(*) FROM effects WHERE key = $1`, `"`+key+`"`); effects != 1 {
				t.Errorf("%s at point %d of %v: %d effects", name, point, p.seen, effects)
			}
		}
	}
}

// TestUnansweredCommit_M2: a COMMIT without an answer may have taken effect or not. The handler
// finds out, and the client sees one answer. Row of the failure matrix: crash after end before the
// local apply.
func TestUnansweredCommit_M2(t *testing.T) {
	for fault, calls := range map[pgtest.CommitFault]int{pgtest.CommitLost: 2, pgtest.CommitUnanswered: 1} {
		t.Run(fmt.Sprint("calls ", calls), func(t *testing.T) {
			db, cut, registry := pgtest.New(t), &pgtest.Cutter{}, prometheus.NewRegistry()
			s := newService(t, db, cut.Pool(t, db, nil), pgrequests.HTTP{}, pgrequests.Metrics(registry))
			cut.Next(fault)
			is(t, "the first", s.post("a", "10"), 201, fmt.Sprint("payment ", calls))
			is(t, "the retry", s.post("a", "10"), 201, fmt.Sprint("payment ", calls))
			s.effects(1)
			if n := testutil.ToFloat64(retries(t, registry, "unknown-commit")); n != 1 || s.calls != calls || cut.Cuts != 1 {
				t.Errorf("%v unknown commits, %d calls, %d cuts", n, s.calls, cut.Cuts)
			}
		})
	}
}

// TestUnansweredCommitOfAFailure: the same of an answer that is an error, which is stored in a
// transaction of its own.
func TestUnansweredCommitOfAFailure(t *testing.T) {
	for fault, calls := range map[pgtest.CommitFault]int{pgtest.CommitLost: 2, pgtest.CommitUnanswered: 1} {
		t.Run(fmt.Sprint("calls ", calls), func(t *testing.T) {
			db, cut := pgtest.New(t), &pgtest.Cutter{}
			s := newService(t, db, cut.Pool(t, db, nil), pgrequests.HTTP{})
			s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, err := fmt.Fprint(w, "refused ", s.calls)
				return err
			}
			cut.Next(fault)
			for range 2 {
				is(t, "refused", s.post("a", "10"), 422, fmt.Sprint("refused ", calls))
			}
			s.effects(0)
		})
	}
}

// TestUnansweredCommitTakenForFailed is the negative control: a service that has the effect again
// without asking has it twice.
func TestUnansweredCommitTakenForFailed(t *testing.T) {
	db, cut := pgtest.New(t), &pgtest.Cutter{}
	db.Exec(t, "CREATE TABLE effects (key text, body text)")
	pool := cut.Pool(t, db, nil)
	cut.Next(pgtest.CommitUnanswered)
	pay := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ('a', '10')")
			return err
		})
	}
	if err := pay(); err == nil {
		t.Fatal("the commit was answered")
	}
	must(t, pay())
	if n := db.Int(t, "SELECT count(*) FROM effects"); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// TestCommitComesLate: a COMMIT that its sender takes for lost reaches the server later. Until then
// the request is in progress; then its answer is replayed.
func TestCommitComesLate(t *testing.T) {
	db, cut := pgtest.New(t), &pgtest.Cutter{}
	s := newService(t, db, cut.Pool(t, db, nil), pgrequests.HTTP{})
	cut.Next(pgtest.CommitLate)
	isProblem(t, "the first", s.post("a", "10"), 409, pgrequests.RequestInProgress)
	isProblem(t, "a copy", s.post("a", "10"), 409, pgrequests.RequestInProgress)
	s.effects(0)
	cut.Deliver()
	is(t, "the retry", s.post("a", "10"), 201, "payment 1")
	s.effects(1)
}

// onRollback calls a function before a connection rolls back.
type onRollback func()

func (f onRollback) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL == "rollback" {
		f()
	}
	return ctx
}

func (onRollback) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestCommitComesAMomentLater: a COMMIT without an answer that the server has not finished when the
// handler asks for the first time. The handler asks again, and the client has its answer.
func TestCommitComesAMomentLater(t *testing.T) {
	db, cut := pgtest.New(t), &pgtest.Cutter{}
	pool := cut.Pool(t, db, func(c *pgxpool.Config) { c.ConnConfig.Tracer = onRollback(cut.Deliver) })
	s := newService(t, db, pool, pgrequests.HTTP{})
	cut.Next(pgtest.CommitLate)
	is(t, "the first", s.post("a", "10"), 201, "payment 1")
	s.effects(1)
}

// TestFrozenInTransaction_M2: a process that freezes in its transaction holds up its copies until
// the server ends the transaction. Then a retry starts, and the frozen process cannot commit. Row
// of the failure matrix: worker frozen past its session and back.
func TestFrozenInTransaction_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newService(t, db, nil, pgrequests.HTTP{}, pgrequests.Lock(200*time.Millisecond))
	other := newService(t, db, nil, pgrequests.HTTP{})
	at, goOn := make(chan struct{}), make(chan struct{})
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		if s.calls == 1 {
			at <- struct{}{}
			<-goOn
		}
		return created(w, 7)
	}
	other.calls = 100
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- s.post("a", "10") }()
	<-at
	var second *httptest.ResponseRecorder
	pgtest.Await(t, "a copy starts", func() bool {
		second = other.post("a", "10")
		return second.Code != http.StatusConflict
	})
	is(t, "the copy", second, 201, "payment 101")
	close(goOn)
	is(t, "the frozen process", <-first, 201, "payment 101")
	s.effects(1)
}

// TestDiskFull: while the disk of the server is full clients are told to come back, and there is no
// effect. Row of the failure matrix: disk full.
func TestDiskFull(t *testing.T) {
	db := pgtest.New(t)
	s := newService(t, db, nil, pgrequests.HTTP{})
	for _, tables := range [][]string{{"effects"}, {"onceward.requests"}, {"effects", "onceward.requests"}} {
		key := strings.Join(tables, " ")
		heal := db.Full(t, tables...)
		w := s.post(key, "")
		isProblem(t, key, w, 503, pgrequests.Failed)
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: the client is not told when to come back", key)
		}
		s.effects(0)
		heal()
		is(t, key, s.post(key, ""), 201, "payment")
		s.effects(1)
		db.Exec(t, "TRUNCATE effects")
	}
}

// TestServerCrash: after a crash of the server, a request that was answered has its answer, and one
// at work has left nothing. While the server is down, the client is told to come back. Row of the
// failure matrix: broker restart.
func TestServerCrash(t *testing.T) {
	server, db := pgtest.Own(t)
	if _, err := postgres.Migrate(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	s := newService(t, db, nil, pgrequests.HTTP{})
	is(t, "answered", s.post("a", "10"), 201, "payment 1")
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		server.Kill(t)
		s.do = nil
		return created(w, 2)
	}
	down := s.post("b", "10")
	isProblem(t, "while the server is down", down, 503, pgrequests.Failed)
	if down.Header().Get("Retry-After") != "1" {
		t.Errorf("the headers are %v", down.Header())
	}
	server.Resume(t)
	for key, want := range map[string]string{"a": "payment 1", "b": "payment 3"} {
		again := s.post(key, "10")
		for attempts := 0; again.Code == 503 && attempts < 10; attempts++ { // connections of the pool are dead
			again = s.post(key, "10")
		}
		is(t, key, again, 201, want)
	}
	db.Pool.Reset() // connections that died
	if n := db.Int(t, "SELECT count(*) FROM effects"); n != 2 {
		t.Errorf("%d effects", n)
	}
}

// stages are the points between a request and its answer, of a service with two transactions.
var stages = []string{"received", "started", "start committed", "effected", "completed", "committed"}

// twoTransactions starts a request, commits, and has its effect in another transaction. at is
// called at each stage.
func twoTransactions(ctx context.Context, pool *pgxpool.Pool, s *pgrequests.Store, r pgrequests.Request, at func(stage string, tx pgx.Tx) error) (pgrequests.Start, error) {
	var start pgrequests.Start
	if err := at("received", nil); err != nil {
		return start, err
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if start, err = s.StartOrReplay(ctx, tx, r); err != nil {
			return err
		}
		return at("started", tx)
	})
	if err != nil || start.Outcome != pgrequests.Started {
		return start, err
	}
	if err := at("start committed", nil); err != nil {
		return start, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", r.Scope.Key); err != nil {
			return err
		}
		if err := at("effected", tx); err != nil {
			return err
		}
		if err := s.Complete(ctx, tx, start.Claim, pgrequests.Response{Status: 201}); err != nil {
			return err
		}
		return at("completed", tx)
	})
	if err != nil {
		return start, err
	}
	return start, at("committed", nil)
}

var errCrash = errors.New("crash")

// TestTwoTransactionsFaultAtEveryStage_M2: the same with two transactions. A start that the crash
// leaves behind is in progress until its lock has expired.
func TestTwoTransactionsFaultAtEveryStage_M2(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE effects (id text)")
	pool := db.NewPool(t, named)
	s := newStore(t, pool)
	n := 0
	for name, fault := range map[string]func(tx pgx.Tx) error{
		"crash": func(tx pgx.Tx) error {
			if tx != nil {
				_ = tx.Conn().PgConn().Conn().Close()
			}
			return errCrash
		},
		"terminated session": func(pgx.Tx) error {
			db.Terminate(t, application)
			return nil
		},
	} {
		for _, stage := range stages {
			n++
			r, where := request(fmt.Sprint("k", n), "10"), name+" when "+stage
			hit := false
			at := func(now string, tx pgx.Tx) error {
				if now != stage || hit {
					return nil
				}
				hit = true
				return fault(tx)
			}
			replayed := false
			for attempts := 0; !replayed && attempts < 10; attempts++ {
				start, err := twoTransactions(t.Context(), pool, s, r, at)
				replayed = err == nil && start.Outcome == pgrequests.Replayed
				if start.Outcome == pgrequests.InProgress {
					db.Exec(t, "UPDATE onceward.requests SET locked_until = now() WHERE key = $1", r.Scope.Key)
				}
			}
			if !replayed || !hit {
				t.Errorf("%s: replayed %v, hit %v", where, replayed, hit)
			}
			if effects := db.Int(t, "SELECT count(*) FROM effects WHERE id = $1", r.Scope.Key); effects != 1 {
				t.Errorf("%s: %d effects", where, effects)
			}
		}
	}
}
