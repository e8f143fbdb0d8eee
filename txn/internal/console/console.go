// Package console is a web page that shows what the instances of an application do. It has the
// topology with rates and lags, instances, tasks, standbys, restores, peers, transactions that hang,
// dead letters, and settings.
//
// # Contract
//
// [Handler] serves the page, its style and its scripts from the binary, and one JSON document with
// what they show (GET data). Every two seconds the page asks for that document. The instance that
// serves the page asks the others for it ([Source].Group), so that a browser reaches one instance.
// While there is no new answer, the page shows the old one, marked as such. It computes rates from
// its own answers, so they need no state at the server.
//
// GET dead-letters lists the newest dead letters. POST dead-letters/redrive redrives some of them,
// where the source allows it. Both are asked for by a person, and read the cluster ([Letters]).
//
// # Invariants
//
//   - Nothing changes anything unless [Source].Actions is set. All other requests are GET.
//   - Nothing shows the content of records unless [Source].Content or [Source].Rows is set, and
//     nothing a secret. Texts of errors quote no record.
//   - A request that changes something is refused if it comes from a page of another site
//     (http.CrossOriginProtection), or is not JSON. It is logged with what it did.
//   - Data are not served to pages of other sites, which could have lists read for nothing: requests
//     whose Sec-Fetch-Site names another site are refused.
//   - The page loads nothing from another place, and its Content-Security-Policy allows no script
//     but its own. Names are put into the page as text and never as markup.
//   - Sums are of the instances that answer. An older answer is in no sum.
//
// # Concurrency
//
// A handler may be called from any number of goroutines. It calls the functions of its [Source] for
// each request. Two lists of dead letters are read at a time, rows are looked up for four requests,
// and one redrive is at work; further requests are refused. Handlers with the same [Work] share these
// bounds.
//
// # What it is not
//
// It has no authentication and no history. The server that it is mounted in controls the access,
// and Prometheus keeps history.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/report"
)

//go:embed page
var files embed.FS

// Source is where the handler gets what the page shows.
type Source struct {
	// Topology describes what the application runs.
	Topology graph.Description
	// Group returns the instances of the application. It is safe for concurrent use, and waits for
	// a second at most.
	Group func(ctx context.Context) Group
	// Settings are the settings of the process.
	Settings []Setting
	// DeadLetterTopic is the topic of dead letters, empty if the topology has none.
	DeadLetterTopic string
	// Letters reads it; nil: the page lists no dead letters.
	Letters Letters
	// Stores are those whose rows are shown, and Rows serves the rows of one that the path value
	// store names, as txn.App.QueryHandler does, but with keys and values as texts. Nil: no rows are
	// shown.
	Stores []string
	Rows   http.Handler
	// Content returns the key and the value of a record in words. Nil: no content is shown.
	Content ContentFunc
	// Actions allows requests that change something.
	Actions bool
	// Work is what handlers of one application have under way. Nil: the handler is the only one.
	Work *Work
	// Logger gets a line for each action, and for each dead letter that it was about. It is needed
	// with Actions.
	Logger *slog.Logger
}

// Group is the instances of an application.
type Group struct {
	// Self is the name of the instance that answers; empty before it has one.
	Self string `json:"instance"`
	// Alone says why other instances are not known; empty if they are.
	Alone string `json:"alone,omitempty"`
	// Instances begin with the one that answers.
	Instances []report.Instance `json:"instances"`
	// Planned are the tasks of the group's plan. Instances that answer know better what they have.
	Planned []PlannedTask `json:"planned,omitempty"`
}

// PlannedTask is a task in the plan of the group.
type PlannedTask struct {
	Task graph.TaskID `json:"id"`
	// Instance has the task. To is set while the task is to move there.
	Instance string `json:"instance"`
	To       string `json:"to,omitempty"`
}

// Setting is a setting with its value, in words.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// document is what the page shows.
type document struct {
	Topology graph.Description `json:"topology"`
	Settings []Setting         `json:"settings"`
	Letters  letterState       `json:"letters"`
	Stores   []string          `json:"stores,omitempty"`
	Group
}

// policy allows the page its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at its root. It has to be mounted at a path that ends with a slash.
func Handler(src Source) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name is a constant
	}
	if src.Work == nil {
		src.Work = NewWork()
	}
	mux, letters := http.NewServeMux(), &deadLetters{src}
	mux.Handle("GET /", http.FileServerFS(page))
	letters.route(mux)
	mux.Handle("GET /rows/{store}", ownSite(src.rows))
	mux.Handle("GET /data", ownSite(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The only way to fail is a client that has gone away.
		_ = json.NewEncoder(w).Encode(document{src.Topology, src.Settings, letters.state(), src.Stores, src.Group(r.Context())})
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store") // files of another build do not fit to this one's document
		mux.ServeHTTP(w, r)
	})
}

// ownSite refuses requests that a browser sends for a page of another site. Requests without the
// header are of other programs, or of browsers that do not send it.
func ownSite(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			serve(w, r)
		default:
			refuse(w, http.StatusForbidden, "a page of another site asks for this")
		}
	})
}

// rowsTime bounds a lookup of rows.
const rowsTime = 8 * time.Second

// rows serves the rows of a store under a key, where that is allowed.
func (src Source) rows(w http.ResponseWriter, r *http.Request) {
	if src.Rows == nil {
		refuse(w, http.StatusForbidden, "this console shows no content of records (Config.Console.Contents, --console-contents)")
		return
	}
	if !r.URL.Query().Has("key") { // a scan would be another question
		refuse(w, http.StatusBadRequest, "there is no key")
		return
	}
	select {
	case src.Work.rows <- struct{}{}:
		defer func() { <-src.Work.rows }()
	default:
		refuse(w, http.StatusServiceUnavailable, "other rows are being looked up; try again")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), rowsTime)
	defer cancel()
	src.Rows.ServeHTTP(w, r.WithContext(ctx))
}
