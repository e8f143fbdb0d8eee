package pgrequests_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// dice make the random choices of a test: the same ones in each run, in the order in which the
// goroutines ask for them.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice() *dice { return &dice{r: rand.New(rand.NewPCG(1, 2))} }

// n returns a number from 0 to n-1.
func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// perm returns the numbers from 0 to n-1 in some order.
func (d *dice) perm(n int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Perm(n)
}

// chance cuts a connection before every twentieth statement or so.
type chance struct {
	dice *dice
	cuts atomic.Int64
}

func (c *chance) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if c.dice.n(20) == 0 {
		c.cuts.Add(1)
		_ = conn.PgConn().Conn().Close()
	}
	return ctx
}

func (*chance) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAnyInterleaving: clients send copies of requests to two instances until each copy is
// answered, while connections are cut at any statement, COMMITs are lost, unanswered or late, and
// sessions are terminated. Each request has one effect and one answer in the end. Requirement M2.
func TestAnyInterleaving(t *testing.T) {
	const clients, keys = 6, 40
	db := pgtest.New(t)
	random := newDice()
	cut, chances := &pgtest.Cutter{}, &chance{dice: random}
	var made atomic.Int64
	var instances []*service
	for i := range 2 {
		pool := cut.Pool(t, db, func(c *pgxpool.Config) {
			named(c)
			c.ConnConfig.Tracer = chances
		})
		s := newService(t, db, pool, pgrequests.HTTP{})
		s.calls = i * 1_000_000
		s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			if random.n(10) == 0 {
				w.WriteHeader(http.StatusServiceUnavailable) // with an effect that is rolled back
				return nil
			}
			return created(w, int(made.Add(1))) // every attempt has another answer
		}
		instances = append(instances, s)
	}

	var work sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]string{}
	for range clients {
		work.Go(func() {
			for _, k := range random.perm(keys) {
				key := fmt.Sprint("k", k)
				w := instances[random.n(2)].post(key, "10")
				for w.Code != http.StatusCreated {
					if w.Code != http.StatusConflict && w.Code != http.StatusServiceUnavailable || t.Context().Err() != nil {
						t.Errorf("%s: the answer is %d, %s", key, w.Code, w.Body)
						return
					}
					w = instances[random.n(2)].post(key, "10")
				}
				mu.Lock()
				if first, answered := answers[key]; answered && first != w.Body.String() {
					t.Errorf("%s: the answers are %q and %q", key, first, w.Body)
				}
				answers[key] = w.Body.String()
				mu.Unlock()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; cut.Deliver() {
		select {
		case <-ended:
			over = true
		case <-tick.C:
			cut.Next(0, 0, pgtest.CommitFault(1+random.n(3)))
			if random.n(10) == 0 {
				db.Terminate(t, application)
			}
		}
	}
	if n := db.Int(t, "SELECT count(DISTINCT key) FROM effects"); n != keys {
		t.Errorf("%d requests have an effect, want %d", n, keys)
	}
	instances[0].effects(keys)
	calls := instances[0].calls + instances[1].calls - 1_000_000
	t.Logf("%d calls, %d commits and %d other statements cut", calls, cut.Cuts, chances.cuts.Load())
	if calls <= keys || cut.Cuts == 0 || chances.cuts.Load() == 0 {
		t.Error("nothing has failed")
	}
}
