package pgrequests_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

var rows = flag.Int("requests", 10_000, "how many requests the table has before a benchmark begins, such as 1000000")

// BenchmarkHandler is a request whose Func decodes a payment and writes a row, without a network,
// beside the same work in a plain transaction. The requests take turns, so that both meet the same
// machine. A replay writes nothing. Set ONCEWARD_POSTGRES_FSYNC=1 for a COMMIT that reaches the
// disk.
func BenchmarkHandler(b *testing.B) {
	db := pgtest.New(b)
	db.Exec(b, "CREATE TABLE payments (id bigserial PRIMARY KEY, account text, cents int)")
	db.Exec(b, `INSERT INTO onceward.requests (service, tenant, client, operation, resource, key, request_hash, status, attempt, external, holder,
			ended_at, expires_at, response_status, response_header_names, response_header_values, response_body)
		SELECT 'payments', '', 'c', 'POST /payments', '', gen_random_uuid()::text, sha256('x'), 'COMPLETED', 1, false, 'h',
			now(), now() + interval '1 day', 201, '{}', '{}', 'x' FROM generate_series(1, $1::int)`, *rows)
	db.Exec(b, "ANALYZE onceward.requests")
	pool := db.NewPool(b, func(c *pgxpool.Config) { c.MaxConns = 1 })
	pay := func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		var p struct {
			Account string
			Cents   int
		}
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			return err
		}
		var id int64
		if err := tx.QueryRow(r.Context(), "INSERT INTO payments (account, cents) VALUES ($1, $2) RETURNING id", p.Account, p.Cents).Scan(&id); err != nil {
			return err
		}
		w.WriteHeader(http.StatusCreated)
		_, err := io.WriteString(w, strconv.FormatInt(id, 10))
		return err
	}
	handler, err := newStore(b, pool).Handler(pgrequests.HTTP{Scope: func(*http.Request) pgrequests.Scope { return pgrequests.Scope{Client: "c"} }}, pay)
	must(b, err)
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var rec *httptest.ResponseRecorder
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			rec = httptest.NewRecorder()
			return pay(rec, r, tx)
		})
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
	ways := []struct {
		name    string
		handler http.Handler
		times   []time.Duration
	}{
		{name: "plain", handler: plain},
		{name: "first", handler: handler},
		{name: "replay", handler: handler}, // of the one before
	}
	for i := 0; b.Loop(); i++ {
		for n := range ways {
			way := &ways[n]
			r := httptest.NewRequestWithContext(context.WithoutCancel(b.Context()), http.MethodPost, "/payments", strings.NewReader(`{"account": "alice", "cents": 1250}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(pgrequests.KeyHeader, `"bench-`+strconv.Itoa(i)+`"`)
			w := httptest.NewRecorder()
			began := time.Now()
			way.handler.ServeHTTP(w, r)
			way.times = append(way.times, time.Since(began))
			if replayed := w.Header().Get(pgrequests.ReplayedHeader) != ""; w.Code != http.StatusCreated || replayed != (way.name == "replay") {
				b.Fatalf("%s: %d, %s", way.name, w.Code, w.Body)
			}
		}
	}
	for _, way := range ways {
		slices.Sort(way.times)
		b.ReportMetric(float64(way.times[len(way.times)/2].Nanoseconds())/1e3, "µs-median-"+way.name)
		b.ReportMetric(float64(way.times[len(way.times)*99/100].Nanoseconds())/1e3, "µs-p99-"+way.name)
	}
	b.ReportMetric(0, "ns/op") // is the sum of the three
}
