package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// RebuildRequest names the tasks whose databases are made anew from their changelogs, none for all
// of the instance, and the stores, none for all. A dry run only says which tasks they are.
type RebuildRequest struct {
	Tasks, Stores []string
	DryRun        bool
}

// serveRebuild answers POST /rebuild?task=...&store=...&dry_run=true with the names of the tasks.
func (in Instance) serveRebuild(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	tasks, err := in.Rebuild(RebuildRequest{Tasks: q["task"], Stores: q["store"], DryRun: q.Get("dry_run") == "true"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(tasks) // it only fails for a client that has gone away
}

// Rebuild asks the instance that runs on a state directory to make databases anew, and returns the
// tasks that it is about.
func Rebuild(ctx context.Context, dir string, req RebuildRequest) ([]string, error) {
	q := url.Values{"task": req.Tasks, "store": req.Stores}
	if req.DryRun {
		q.Set("dry_run", "true")
	}
	resp, err := ask(ctx, dir, http.MethodPost, "/rebuild?"+q.Encode())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var tasks []string
	if err := json.NewDecoder(resp.Body).Decode(&tasks); err != nil {
		return nil, fmt.Errorf("the answer of the instance on %s: %w", dir, err)
	}
	return tasks, nil
}
