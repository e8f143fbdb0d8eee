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

// chance cuts a connection before every twentieth statement or so.
type chance struct{ cuts atomic.Int64 }

func (c *chance) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if rand.N(20) == 0 {
		c.cuts.Add(1)
		_ = conn.PgConn().Conn().Close()
	}
	return ctx
}

func (*chance) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAnyInterleaving_M2: clients send copies of requests to two instances until each copy is
// answered, while connections are cut at any statement, COMMITs are lost, unanswered or late, and
// sessions are terminated. Each request has one effect and one answer in the end.
func TestAnyInterleaving_M2(t *testing.T) {
	const clients, keys = 6, 40
	db := pgtest.New(t)
	cut, chances := &pgtest.Cutter{}, &chance{}
	var instances []*service
	for i := range 2 {
		pool := cut.Pool(t, db, func(c *pgxpool.Config) {
			named(c)
			c.ConnConfig.Tracer = chances
		})
		s := newService(t, db, pool, pgrequests.HTTP{})
		s.calls = i * 1_000_000
		s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			if rand.N(10) == 0 {
				w.WriteHeader(http.StatusServiceUnavailable) // with an effect that is rolled back
				return nil
			}
			return created(w, rand.Int())
		}
		instances = append(instances, s)
	}

	var work sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]string{}
	for range clients {
		work.Go(func() {
			for _, k := range rand.Perm(keys) {
				key := fmt.Sprint("k", k)
				w := instances[rand.N(2)].post(key, "10")
				for w.Code != http.StatusCreated {
					if w.Code != http.StatusConflict && w.Code != http.StatusServiceUnavailable || t.Context().Err() != nil {
						t.Errorf("%s: the answer is %d, %s", key, w.Code, w.Body)
						return
					}
					w = instances[rand.N(2)].post(key, "10")
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
			cut.Next(0, 0, pgtest.CommitFault(1+rand.N(3)))
			if rand.N(10) == 0 {
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
