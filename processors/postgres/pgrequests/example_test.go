package pgrequests_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// A service takes payments. A client that gets no answer sends its request again.
func Example() {
	pool, done := pgtest.ExampleDatabase() // pgxpool.New and postgres.Migrate
	defer done()
	if _, err := pool.Exec(context.Background(), "CREATE TABLE payments (id bigserial, account text, cents int)"); err != nil {
		log.Fatal(err)
	}

	store, err := pgrequests.New(pool, "payments")
	if err != nil {
		log.Fatal(err)
	}
	scope := func(r *http.Request) pgrequests.Scope {
		user, _, _ := r.BasicAuth() // which the service has verified
		return pgrequests.Scope{Client: user}
	}
	type payment struct {
		Account string `json:"account"`
		Cents   int    `json:"cents"`
	}
	read := func(r *http.Request) (p payment, ok bool) {
		err := json.NewDecoder(r.Body).Decode(&p)
		return p, err == nil && p.Cents > 0
	}
	pay := func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		p, ok := read(r)
		if !ok {
			http.Error(w, "a payment has an account and cents above zero", http.StatusUnprocessableEntity)
			return nil // the same answer for each retry
		}
		var id int
		err := tx.QueryRow(r.Context(), "INSERT INTO payments (account, cents) VALUES ($1, $2) RETURNING id", p.Account, p.Cents).Scan(&id)
		if err != nil {
			return err // left to a retry
		}
		w.WriteHeader(http.StatusCreated)
		_, err = fmt.Fprintf(w, "payment %d", id)
		return err
	}
	handler, err := store.Handler(pgrequests.HTTP{Scope: scope}, pay)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", handler)

	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(key, body string) {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/payments", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.SetBasicAuth("alice", "")
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", `"`+key+`"`)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		replayed := response.Header.Get("Idempotent-Replayed") == "true"
		if response.Header.Get("Content-Type") == "application/problem+json" {
			answer = []byte("a problem")
		}
		fmt.Printf("%d, replayed: %t, %s\n", response.StatusCode, replayed, strings.TrimSpace(string(answer)))
	}
	post("8e03978e", `{"account": "bob", "cents": 1250}`)
	post("8e03978e", `{"cents":1250, "account":"bob"}`)
	post("8e03978e", `{"account": "bob", "cents": 9900}`)
	post("5d5ea5a1", `{"account": "bob", "cents": 0}`)
	// Output:
	// 201, replayed: false, payment 1
	// 201, replayed: true, payment 1
	// 409, replayed: false, a problem
	// 422, replayed: false, a payment has an account and cents above zero
}

// A service without HTTP starts, has the effect, and completes in its transaction.
func ExampleStore_StartOrReplay() {
	pool, done := pgtest.ExampleDatabase()
	defer done()
	ctx := context.Background()
	if _, err := pool.Exec(ctx, "CREATE TABLE payments (account text, cents int)"); err != nil {
		log.Fatal(err)
	}
	store, err := pgrequests.New(pool, "payments")
	if err != nil {
		log.Fatal(err)
	}
	pay := func(client, key, account string, cents int) (answer string, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			start, err := store.StartOrReplay(ctx, tx, pgrequests.Request{
				Scope: pgrequests.Scope{Client: client, Operation: "pay", Key: key},
				Hash:  sha256.Sum256(fmt.Appendf(nil, "%q %d", account, cents)),
			})
			if err != nil {
				return err
			}
			switch start.Outcome {
			case pgrequests.Started:
			case pgrequests.Replayed:
				answer = string(start.Response.Body)
				return nil
			default:
				return fmt.Errorf("the request is refused: %s", start.Outcome)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO payments VALUES ($1, $2)", account, cents); err != nil {
				return err
			}
			answer = fmt.Sprintf("%d cents for %s", cents, account)
			return store.Complete(ctx, tx, start.Claim, pgrequests.Response{Body: []byte(answer)})
		})
		return answer, err
	}
	fmt.Println(pay("alice", "k1", "bob", 1250))
	fmt.Println(pay("alice", "k1", "bob", 1250))
	fmt.Println(pay("alice", "k1", "bob", 9900))
	var payments int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM payments").Scan(&payments); err != nil {
		log.Fatal(err)
	}
	fmt.Println(payments, "payment")
	// Output:
	// 1250 cents for bob <nil>
	// 1250 cents for bob <nil>
	//  the request is refused: conflict
	// 1 payment
}

// Work that calls another system starts in a transaction of its own. When the answer of the other
// system is lost, the outcome of the request is unknown until an operator has asked the other
// system.
func ExampleStore_Fail() {
	pool, done := pgtest.ExampleDatabase()
	defer done()
	ctx := context.Background()
	store, err := pgrequests.New(pool, "payments")
	if err != nil {
		log.Fatal(err)
	}
	request := pgrequests.Request{
		Scope:    pgrequests.Scope{Client: "alice", Operation: "capture", Key: "k1"},
		Hash:     sha256.Sum256([]byte("1250 cents")),
		External: true,
	}
	errLost := errors.New("no answer")
	capture := func() error { return errLost } // with the key, for a gateway that knows it again
	handle := func() error {
		var start pgrequests.Start
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			start, err = store.StartOrReplay(ctx, tx, request)
			return err
		})
		fmt.Println(start.Outcome)
		if err != nil || start.Outcome != pgrequests.Started {
			return err
		}
		err = capture()
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if errors.Is(err, errLost) {
				return store.Fail(ctx, tx, start.Claim, pgrequests.StatusUnknown, pgrequests.Response{})
			}
			return store.Complete(ctx, tx, start.Claim, pgrequests.Response{Status: http.StatusCreated})
		})
	}
	for range 2 {
		if err := handle(); err != nil {
			log.Fatal(err)
		}
	}

	// The operator has asked the gateway: the money was captured.
	entry, _, err := store.Find(ctx, request.Scope)
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return store.Complete(ctx, tx, entry.Claim, pgrequests.Response{Status: http.StatusCreated})
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := handle(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// started
	// unknown
	// replayed
}
