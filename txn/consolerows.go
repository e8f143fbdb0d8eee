package txn

import (
	"net/http"

	"github.com/onceward/onceward/topology/graph"
)

// consoleRows serves the rows of all stores that have codecs to the console, from whichever instance
// has them, and returns the names of these stores.
func (a *App) consoleRows(d graph.Description) (names []string, h http.Handler) {
	for _, sub := range d.Subtopologies {
		for _, s := range sub.Stores {
			names = append(names, s.Name)
		}
	}
	for _, g := range d.GlobalTables {
		names = append(names, g.Store)
	}
	served := names[:0]
	for _, name := range names {
		if _, known := a.topology.Rows(name); known {
			served = append(served, name)
		}
	}
	rows, err := a.newQueryHandler(served)
	if err != nil {
		return nil, nil // the stores are those of the topology
	}
	return served, http.HandlerFunc(rows.serveRows)
}
