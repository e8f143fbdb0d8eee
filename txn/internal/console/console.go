// Package console is a web page that shows what an instance of an application does. It has the
// topology with rates and lags, tasks, standbys, restores, peers, transactions that hang, and
// settings.
//
// # Contract
//
// [Handler] serves the page, its style and its scripts from the binary, and one JSON document with
// what they show (GET data). Every two seconds the page asks for that document and for the metrics
// of the process (GET ../metrics). While there is no new answer, it shows the old one, marked as
// such. It computes rates from its own answers, so they need no state at the server.
//
// # Invariants
//
//   - Nothing changes anything: all requests are GET.
//   - Nothing shows the content of records, or a secret. Texts of errors quote no record.
//   - The page loads nothing from another place, and its Content-Security-Policy allows no script
//     but its own. Names are put into the page as text and never as markup.
//
// # Concurrency
//
// A handler may be called from any number of goroutines. It calls the functions of its [Source] for
// each request.
//
// # What it is not
//
// It has no authentication and no history. The server that it is mounted in controls the access,
// and Prometheus keeps history.
package console

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"

	"github.com/onceward/onceward/topology/graph"
)

//go:embed page
var files embed.FS

// Source is where the handler gets what the page shows. All functions are safe for concurrent use
// and do not block.
type Source struct {
	// Topology describes what the application runs.
	Topology graph.Description
	// Status is the status of the process, in its JSON form.
	Status func() any
	// NotReady says why the process does not do its share; nothing if it does.
	NotReady func() []string
	// Settings are the settings of the process.
	Settings []Setting
}

// Setting is a setting with its value, in words.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// document is what the page shows.
type document struct {
	Topology graph.Description `json:"topology"`
	Status   any               `json:"status"`
	NotReady []string          `json:"not_ready"`
	Settings []Setting         `json:"settings"`
}

// policy allows the page its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at its root. It has to be mounted at a path that ends with a slash, beside
// /metrics in the parent of that path.
func Handler(src Source) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /data", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		notReady := src.NotReady()
		if notReady == nil {
			notReady = []string{}
		}
		// The only way to fail is a client that has gone away.
		_ = json.NewEncoder(w).Encode(document{src.Topology, src.Status(), notReady, src.Settings})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store") // files of another build do not fit to this one's document
		mux.ServeHTTP(w, r)
	})
}
