package main

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// paymentView is a payment in the read model. State is "" until the read model has the first step.
type paymentView struct {
	Payment string   `json:"payment"`
	Account string   `json:"account"`
	Cents   int64    `json:"cents"`
	State   string   `json:"state"`
	Refused []string `json:"refused"` // ids of steps
}

// payment answers GET /payments/{payment}.
func (v *service) payment(w http.ResponseWriter, r *http.Request) {
	p := paymentView{Payment: r.PathValue("payment")}
	err := v.pool.QueryRow(r.Context(), `
		SELECT account, cents, coalesce(state, ''),
		       ARRAY(SELECT step FROM refusals WHERE refusals.payment = payments.id ORDER BY step)
		FROM payments LEFT JOIN payment_states ON payment_states.payment = payments.id
		WHERE id = $1`, p.Payment).Scan(&p.Account, &p.Cents, &p.State, &p.Refused)
	show(w, p, err)
}

// accountView is the balance of an account in the read model.
type accountView struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// account answers GET /accounts/{account}.
func (v *service) account(w http.ResponseWriter, r *http.Request) {
	a := accountView{Account: r.PathValue("account")}
	err := v.pool.QueryRow(r.Context(), "SELECT cents FROM balances WHERE account = $1", a.Account).Scan(&a.Cents)
	show(w, a, err)
}

// show answers a GET.
func show(w http.ResponseWriter, view any, err error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "not found", http.StatusNotFound)
	case err != nil:
		slog.Error("reading the read model failed", "error", err)
		http.Error(w, "the read model cannot be read at the moment", http.StatusServiceUnavailable)
	default:
		_ = answer(w, http.StatusOK, view) // the client is gone, if it fails
	}
}
