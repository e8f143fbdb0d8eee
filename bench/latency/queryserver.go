package latency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/txn"
)

const (
	// queriesPath is where an instance serves App.QueryHandler, and measurePath where it measures
	// queries of its own.
	queriesPath, measurePath = "/queries", "/measure"
	// headerTime bounds the reading of a request's head.
	headerTime = 10 * time.Second
)

// serveQueries answers queries at a free port, whose address it writes to the file. The server ends
// with the process.
func serveQueries(app *txn.App, s Settings) error {
	handler, err := app.QueryHandler(workload.Balances())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(queriesPath+"/", http.StripPrefix(queriesPath, handler))
	mux.HandleFunc("POST "+measurePath, func(w http.ResponseWriter, r *http.Request) {
		var plan QueryPlan
		err := json.NewDecoder(r.Body).Decode(&plan)
		var result QueryResult
		if err == nil {
			result, err = MeasureQueries(r.Context(), plan, AskIn(app, s.Topics))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(result) // the only way to fail is a client that has gone away
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
	go func() { _ = server.Serve(listener) }() // until the process ends
	return writeWhole(s.Queries, listener.Addr().String())
}

// writeWhole writes a file that no reader sees in part.
func writeWhole(path, text string) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// QueryHandler returns the URL of the process's App.QueryHandler. It fails while the process does
// not serve yet.
func (i *Instance) QueryHandler() (string, error) {
	address, err := os.ReadFile(i.Settings.Queries)
	return "http://" + strings.TrimSpace(string(address)) + queriesPath, err
}

// MeasureQueries makes the process ask by txn.Query, over the connections of peers where the task
// is another instance's. The plan's Topics are those of the settings.
func (i *Instance) MeasureQueries(ctx context.Context, plan QueryPlan) (result QueryResult, err error) {
	handler, err := i.QueryHandler()
	if err != nil {
		return result, err
	}
	plan.Topics = i.Settings.Topics
	text, err := json.Marshal(plan)
	if err != nil {
		return result, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(handler, queriesPath)+measurePath, bytes.NewReader(text))
	if err != nil {
		return result, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return result, fmt.Errorf("instance %s answered %s", i.Settings.Instance, resp.Status)
	}
	return result, json.NewDecoder(resp.Body).Decode(&result)
}
