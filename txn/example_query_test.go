package txn_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/txn"
)

// Any instance answers for all rows, also of the tasks of other instances. Programs that are no
// instance ask the handler, which a server of the program's own serves, beside the handler of
// metrics and health.
func ExampleQuery() {
	app, _, send, stop := exampleOf(counting(anything), 1, txn.Config{})
	defer stop()
	for _, word := range []string{"cat", "dog", "cat"} {
		send(0, word, "")
	}
	until(func() bool { return app.Status().Totals.Records == 3 })
	ctx := context.Background()

	view, err := txn.Query(ctx, app, totals, txn.AtKey(schemas.String(), "cat"), txn.AtLeast("words", 0, 2))
	must(err)
	defer view.Close()
	n, _, err := view.Store().Get("cat")
	must(err)
	fmt.Println("cat", n)

	queries, err := app.QueryHandler(totals)
	must(err)
	mux := http.NewServeMux()
	mux.Handle("/queries/", http.StripPrefix("/queries", queries))
	mux.Handle("/", app.Handler()) // metrics, health, readiness
	server := httptest.NewServer(mux)
	defer server.Close()

	client, err := txn.NewClient(server.URL+"/queries", server.Client())
	must(err)
	remote, err := txn.Query(ctx, client, totals, txn.AtKey(schemas.String(), "dog"))
	must(err)
	defer remote.Close()
	n, _, err = remote.Store().Get("dog")
	must(err)
	fmt.Println("dog", n, "up to offset", remote.Positions().Inputs[0].Offset)

	answer, err := server.Client().Get(server.URL + "/queries/totals?key=dog")
	must(err)
	defer answer.Body.Close()
	_, err = io.ReadAll(answer.Body)
	must(err)
	fmt.Println(answer.Status)
	// Output:
	// cat 2
	// dog 1 up to offset 3
	// 200 OK
}
