package txn

import (
	"bytes"
	"encoding/json"
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
	return served, http.HandlerFunc(rows.serveTexts)
}

// serveTexts is serveRows, with the keys and the values of the rows as texts. A script in a browser
// reads numbers as floating point, which rounds integers above 2^53.
func (h *queryHandler) serveTexts(w http.ResponseWriter, r *http.Request) {
	h.serveRowsAs(w, r, func(row json.RawMessage) (json.RawMessage, error) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(row, &fields); err != nil {
			return nil, err
		}
		for _, name := range []string{"key", "value"} {
			form := fields[name]
			if len(form) == 0 || form[0] == '"' {
				continue // a text already
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, form); err != nil {
				return nil, err
			}
			text, err := json.Marshal(compact.String())
			if err != nil {
				return nil, err
			}
			fields[name] = text
		}
		return json.Marshal(fields)
	})
}
