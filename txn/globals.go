package txn

import (
	"encoding/json"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/metrics"
)

// startGlobals begins to read the global tables of the topology. They go on through all
// memberships.
func (in *instance) startGlobals() {
	tables := in.app.topology.GlobalTables()
	if len(tables) == 0 {
		return
	}
	in.globals = globaltable.Start(globaltable.Config{
		Tables: tables, Cluster: in.cluster, Directory: in.dir,
		Open: func(store, path string) (state.Database, error) {
			options := pebblestore.Options{Shared: in.shared, Logger: in.app.log.With("global_table", store)}
			if change := in.app.cfg.databases; change != nil {
				change(&options)
			}
			return pebblestore.Open(path, options)
		},
		Logger: in.app.log, Metrics: in.app.metrics, Failpoints: in.app.cfg.failpoints,
	})
	in.app.setGlobals(in.globals)
}

// closeGlobals ends the global tables.
func (in *instance) closeGlobals() error {
	if in.globals == nil {
		return nil
	}
	in.app.setGlobals(nil)
	return in.globals.Close()
}

func (a *App) setGlobals(tables *globaltable.Tables) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.globals = tables
}

// globals returns the global tables, nil while they are not read.
func (a *App) globals() *globaltable.Tables {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.globals
}

// removeOldGlobals removes the rows of global tables that the topology does not have, or declares
// in another way than the one that ran last on the directory. It runs before the new description is
// stored: the description says what the rows are. fingerprint is that of the topology that ran
// last.
func (in *instance) removeOldGlobals(now graph.Description, fingerprint string) error {
	stores, err := in.dir.Globals()
	if err != nil || len(stores) == 0 {
		return err
	}
	var before graph.Description
	text, err := in.dir.Description()
	if err != nil || json.Unmarshal(text, &before) != nil || before.Fingerprint != fingerprint {
		before = graph.Description{} // the rows may be of any declaration
	}
	for _, store := range stores {
		same := slices.ContainsFunc(now.GlobalTables, func(t graph.GlobalTableDescription) bool {
			return t.Store == store && slices.Contains(before.GlobalTables, t)
		})
		if same {
			continue
		}
		in.app.log.Warn("the rows of a global table are removed, because the topology does not declare it as the one that ran last",
			"global_table", store, "cause", globaltable.Declaration)
		if err := in.dir.RemoveGlobal(store); err != nil {
			return err
		}
	}
	return nil
}

// GlobalTableStatus is one global table of the process.
type GlobalTableStatus struct {
	Store string `json:"store"`
	Topic string `json:"topic"`
	// State is restoring, running or rebuilding. A table that is rebuilt serves the rows of before.
	State string `json:"state"`
	// Cause is why it is read from the start of the topic.
	Cause string `json:"cause,omitempty"`
	// Records were read since the process started. Skipped of them make no row.
	Records int64 `json:"records"`
	Skipped int64 `json:"skipped,omitempty"`
	// Remaining is how many offsets are left of a restore or rebuild, Lag how many the table was
	// behind the stable ends a few seconds ago.
	Remaining int64 `json:"remaining,omitempty"`
	Lag       int64 `json:"lag,omitempty"`
}

// globalStatus describes the global tables.
func (a *App) globalStatus() (out []GlobalTableStatus) {
	for _, t := range a.globals().Status() {
		out = append(out, GlobalTableStatus{
			Store: t.Store, Topic: t.Topic, State: string(t.State), Cause: string(t.Cause),
			Records: t.Records, Skipped: t.Skipped, Remaining: t.Remaining, Lag: t.Lag,
		})
	}
	return out
}

// globalAlerts are what is wrong with global tables.
func (a *App) globalAlerts() (out []Alert) {
	for _, t := range a.globals().Status() {
		if p := t.Problem; p != nil {
			out = append(out, Alert{Topic: t.Topic, Problem: p.Kind, Text: p.Text, Since: p.Since})
		}
	}
	return out
}

// globalGauges are what the gauges show of the global tables.
func (a *App) globalGauges() (out []metrics.GlobalTable) {
	for _, t := range a.globals().Status() {
		out = append(out, metrics.GlobalTable{Store: t.Store, Remaining: t.Remaining, Lag: t.Lag})
	}
	return out
}
