package txn_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// Console gives the console of an application its dead letters, and lets its users redrive them. The
// handler is for a server that controls the access.
func ExampleConsole() {
	b := topology.NewBuilder("relaying", topology.DeadLetters("relay-dead"))
	text := schemas.String()
	topology.From(b, topology.Topic("in", text, text)).Into(topology.Topic("out", text, text))
	t, err := b.Build()
	must(err)

	cfg := txn.Config{Brokers: []string{"localhost:9092"}, StateDir: "state"}
	cfg.Console = txn.Console{DeadLetters: admin.ConsoleLetters(admin.Config{Brokers: cfg.Brokers, Security: cfg.Security})}
	cfg.Console.Actions = true
	app, err := txn.New(t, cfg)
	must(err)

	page := httptest.NewRecorder()
	app.Handler().ServeHTTP(page, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/console/", http.NoBody))
	fmt.Println(page.Code, page.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
