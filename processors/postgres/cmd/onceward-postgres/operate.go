package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/onceward/onceward/topology"
)

// nameArg is the queue or outbox.
type nameArg struct {
	Name string `arg:"" help:"Name of the queue or outbox."`
}

// entriesArg are entries to decide about.
type entriesArg struct {
	nameArg
	Entries []int64 `arg:"" name:"entry" help:"Numbers of entries, as list shows them."`
	Reason  string  `required:"" placeholder:"TEXT" help:"Why. It is kept with the entry."`
	By      string  `placeholder:"NAME" help:"Name of the person who decides; by default the user of this process."`
}

// each decides about the entries one by one.
func (c *entriesArg) each(p *process, did string, f func(ctx context.Context, entry int64, by, reason string) error) error {
	by := c.By
	if by == "" {
		by = userName()
	}
	if strings.TrimSpace(c.Reason) == "" {
		return usageError{errors.New("--reason: it has to say why")}
	}
	var errs []error
	for _, n := range c.Entries {
		if err := f(p.ctx, n, by, c.Reason); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(p.out, "entry %d %s\n", n, did)
	}
	return errors.Join(errs...)
}

// userName names the person for the evidence.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprint("user ", os.Getuid())
}

// listFlags select entries.
type listFlags struct {
	nameArg
	Status    []string `placeholder:"STATUS" help:"Show entries with this status. May be given several times; then one of them is enough."`
	ID        string   `name:"id" placeholder:"ID" help:"Show entries of this event."`
	Aggregate string   `placeholder:"NAME" help:"Show entries of this aggregate."`
	After     int64    `placeholder:"ENTRY" help:"Begin behind this entry."`
	Limit     int      `placeholder:"N" default:"100" help:"Most entries to show; default ${default}."`
	outputFlag
}

func (c *listFlags) check() error {
	if c.Limit < 1 {
		return usageError{fmt.Errorf("--limit: %d is no number of entries", c.Limit)}
	}
	return nil
}

// parseAll parses statuses.
func parseAll[S any](names []string, parse func(string) (S, error)) (all []S, err error) {
	for _, n := range names {
		s, err := parse(n)
		if err != nil {
			return nil, usageError{fmt.Errorf("--status: %w", err)}
		}
		all = append(all, s)
	}
	return all, nil
}

// outputFlag is the form of what is shown.
type outputFlag struct {
	Output string `enum:"text,json" default:"text" placeholder:"FORM" help:"text, or json: one line for each entry."`
}

// cleanFlags bound a clean-up.
type cleanFlags struct {
	nameArg
	Limit int `placeholder:"N" default:"100000" help:"Most entries to remove; default ${default}."`
}

func (c *cleanFlags) check() error {
	if c.Limit < 1 {
		return usageError{fmt.Errorf("--limit: %d is no number of entries", c.Limit)}
	}
	return nil
}

// writeJSON writes a line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table writes rows in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, columns ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = oneLine(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// oneLine returns a text of other people so that it does not break a row.
func oneLine(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // a terminal obeys some of these
			return '?'
		}
		return r
	}, s)
}

// moment is a time, or nothing.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// shownPayload is a payload with its headers, where --payload asks for them.
type shownPayload struct {
	Payload []byte        `json:"payload"` // base64
	Headers []shownHeader `json:"headers"` // in their order; keys can repeat
}

// shownHeader is a header as JSON.
type shownHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"` // base64
}

func payloadOf(payload []byte, headers []topology.Header) *shownPayload {
	s := &shownPayload{Payload: payload, Headers: []shownHeader{}}
	for _, h := range headers {
		s.Headers = append(s.Headers, shownHeader{h.Key, h.Value})
	}
	return s
}

// writePayload shows a payload with its headers to people.
func writePayload(w io.Writer, payload []byte, headers []topology.Header) {
	for _, h := range headers {
		fmt.Fprintf(w, "header %q: %q\n", h.Key, h.Value)
	}
	fmt.Fprintf(w, "payload: %q\n", payload)
}

// className is the name of a class, "" for none.
func className(c topology.Class) string {
	if c == 0 {
		return ""
	}
	return c.String()
}
