package pginbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pginbox"
	"github.com/onceward/onceward/schemas"
)

// A consumer bills each event once, whatever the broker delivers twice.
func Example() {
	pool, done := pgtest.ExampleDatabase() // pgxpool.New and postgres.Migrate
	defer done()
	ctx := context.Background()
	if _, err := pool.Exec(ctx, "CREATE TABLE bills (account text, cents int)"); err != nil {
		log.Fatal(err)
	}

	inbox, err := pginbox.New(pool, "billing", pginbox.ReplayWindow(30*24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	handle := func(eventID, account string, cents int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			claimed, err := inbox.TryMark(ctx, tx, eventID, "payment.captured", account)
			if err != nil || !claimed {
				return err
			}
			_, err = tx.Exec(ctx, "INSERT INTO bills VALUES ($1, $2)", account, cents)
			return err
		})
	}
	for range 3 { // deliveries
		if err := handle("event-1", "alice", 1250); err != nil {
			log.Fatal(err) // not acknowledged: it comes again
		}
	}

	var bills int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM bills").Scan(&bills); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bills, "bill")
	// Output: 1 bill
}

// An event that says something else under the id of another one is a conflict. White space and the
// order of keys say nothing.
func ExampleInbox_Mark() {
	pool, done := pgtest.ExampleDatabase()
	defer done()
	ctx := context.Background()
	inbox, err := pginbox.New(pool, "billing")
	if err != nil {
		log.Fatal(err)
	}
	for _, document := range []string{`{"cents": 1250, "to": "alice"}`, `{"to":"alice","cents":1250.0}`, `{"cents": 9900, "to": "alice"}`} {
		hash, err := schemas.HashJSON([]byte(document))
		if err != nil {
			log.Fatal(err)
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			outcome, err := inbox.Mark(ctx, tx, pginbox.Event{ID: "event-1", Payload: hash})
			fmt.Println(outcome)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// claimed
	// duplicate
	// conflict
}

// A service cleans up every hour until it is stopped.
func ExampleInbox_Clean() {
	pool, done := pgtest.ExampleDatabase()
	defer done()
	inbox, err := pginbox.New(pool, "billing", pginbox.Retention(90*24*time.Hour), pginbox.Archive())
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for ctx.Err() == nil {
		forgotten, err := inbox.Clean(ctx, 100_000)
		if err != nil {
			log.Print(err) // the next hour tries again
		}
		fmt.Println(forgotten, "marks were forgotten")
		stop() // the example has no hour to spend
		select {
		case <-hourly.C:
		case <-ctx.Done():
		}
	}
	// Output: 0 marks were forgotten
}
