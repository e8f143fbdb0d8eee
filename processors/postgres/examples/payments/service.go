package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/pgoutbox"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// service answers HTTP requests. A POST needs the header Idempotency-Key.
//
//	POST /payments                    {"account": "alice", "cents": 1250}; authorizes a payment
//	POST /payments/{payment}/capture  asks for a step, as do /cancel and /refund
//	GET  /payments/{payment}          the payment in the read model
//	GET  /accounts/{account}          the balance of an account in the read model
type service struct {
	pool   *pgxpool.Pool
	outbox *pgoutbox.Outbox
	topic  string
}

// middleware makes the handler of requests that have an effect, as pgrequests.Store.Handler does.
type middleware func(f pgrequests.Func) (http.Handler, error)

func (s settings) service(ctx context.Context, pool *pgxpool.Pool) error {
	requests, err := pgrequests.New(pool, s.prefix+"service")
	if err != nil {
		return err
	}
	handler, err := s.handler(pool, func(f pgrequests.Func) (http.Handler, error) {
		return requests.Handler(pgrequests.HTTP{Scope: clientOf, Logger: slog.Default()}, f)
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		clean(ctx, requests)
	}()
	err = serve(ctx, s.listen, handler)
	stop()
	<-cleaned
	return err
}

// clientOf returns the client that has chosen the key. A service in production verifies it first.
func clientOf(r *http.Request) pgrequests.Scope {
	user, _, _ := r.BasicAuth()
	return pgrequests.Scope{Client: user}
}

// clean removes answers and rows that are kept for long enough.
func clean(ctx context.Context, requests *pgrequests.Store) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := requests.Clean(ctx, 100_000); err != nil {
			slog.Warn("cleaning the requests failed; the service tries again in an hour", "error", err)
		}
	}
}

// serve answers requests until the context ends, and lets those at work finish.
func serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	finished := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { finished <- server.Shutdown(context.WithoutCancel(ctx)) })
	defer stop()
	slog.Info("serving", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-finished
}

// handler has all paths. Requests with an effect go through once.
func (s settings) handler(pool *pgxpool.Pool, once middleware) (http.Handler, error) {
	outbox, err := s.outbox(pool)
	if err != nil {
		return nil, err
	}
	v := &service{pool: pool, outbox: outbox, topic: topicsOf(s.prefix).steps.Name()}
	authorize, err := once(v.authorize)
	if err != nil {
		return nil, err
	}
	step, err := once(v.step)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", authorize)
	mux.Handle("POST /payments/{payment}/{step}", step)
	mux.HandleFunc("GET /payments/{payment}", v.payment)
	mux.HandleFunc("GET /accounts/{account}", v.account)
	return mux, nil
}

// The limits of a payment.
var accountName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

const centsMax = 100_000_000

// wish is the body of a request.
type wish struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// readWish returns the payment that a request asks for, unless it is no valid one.
func readWish(r *http.Request) (p wish, ok bool) {
	err := json.NewDecoder(r.Body).Decode(&p)
	return p, err == nil && accountName.MatchString(p.Account) && p.Cents >= 1 && p.Cents <= centsMax
}

// authorize creates a payment.
func (v *service) authorize(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
	p, ok := readWish(r)
	if !ok {
		http.Error(w, fmt.Sprintf("a payment has an account and from 1 to %d cents", centsMax), http.StatusUnprocessableEntity)
		return nil // the same answer for each retry
	}
	step := Step{Account: p.Account, Cents: p.Cents, To: authorized}
	err := tx.QueryRow(r.Context(), "INSERT INTO payments (account, cents) VALUES ($1, $2) RETURNING id", p.Account, p.Cents).Scan(&step.Payment)
	if err != nil {
		return err // left to a retry
	}
	w.Header().Set("Location", "/payments/"+step.Payment)
	return v.take(w, r, tx, step)
}

// step asks for the next step of a payment.
func (v *service) step(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
	s, ok := steps[r.PathValue("step")]
	if !ok {
		http.Error(w, "the steps are capture, cancel and refund", http.StatusNotFound)
		return nil
	}
	step := Step{Payment: r.PathValue("payment"), From: s.from, To: s.to}
	err := tx.QueryRow(r.Context(), "SELECT account, cents FROM payments WHERE id = $1", step.Payment).Scan(&step.Account, &step.Cents)
	if errors.Is(err, pgx.ErrNoRows) {
		http.Error(w, "there is no such payment", http.StatusNotFound)
		return nil
	}
	if err != nil {
		return err
	}
	return v.take(w, r, tx, step)
}

// take stores a step and its event, and answers. The handler commits all of it with the answer.
func (v *service) take(w http.ResponseWriter, r *http.Request, tx pgx.Tx, step Step) error {
	var id string
	err := tx.QueryRow(r.Context(), "INSERT INTO steps (payment, state) VALUES ($1, $2) RETURNING id", step.Payment, step.To).Scan(&id)
	if err != nil {
		return err
	}
	event, err := json.Marshal(step)
	if err != nil {
		return err
	}
	if err := v.outbox.Append(r.Context(), tx, pgoutbox.Event{ID: id, Topic: v.topic, Aggregate: step.Payment, Value: event}); err != nil {
		return err
	}
	return answer(w, http.StatusAccepted, accepted{step.Payment, id})
}

// accepted is the answer to a request whose step was stored.
type accepted struct {
	Payment string `json:"payment"`
	Step    string `json:"step"`
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
