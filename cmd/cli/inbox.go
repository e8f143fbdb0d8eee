package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// inboxCommand groups what shows the statuses of an inbox.
type inboxCommand struct {
	List inboxListCommand `cmd:"" help:"Show the ids that an inbox knows, with their statuses."`
	Show inboxShowCommand `cmd:"" help:"Show what an inbox knows of an id."`
}

// inboxFlags say which inbox is meant. No topology is needed for it: all inboxes have rows of one
// form.
type inboxFlags struct {
	StateDir  string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine, running or not."`
	Inbox     string `placeholder:"NAME" help:"The inbox, by the name that its step or node has; default is the only one that the instance has."`
	Partition *int32 `placeholder:"N" help:"Partition to look in; default is every one that the instance has."`
	Stale     bool   `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	outputFlag
}

// openInbox is an inbox of an instance.
type openInbox struct {
	opened
	name  string
	place place
	stale bool
}

func (f inboxFlags) open(ctx context.Context) (o openInbox, err error) {
	s, err := openState(ctx, f.StateDir)
	if err != nil {
		return o, err
	}
	o = openInbox{opened: opened{State: s}, stale: f.Stale}
	if o.name, err = f.name(); err == nil {
		o.place, err = o.here(ctx, o.name, f.Partition)
	}
	if err != nil {
		return openInbox{}, errors.Join(err, s.Close())
	}
	return o, nil
}

// name returns the name of the inbox that is meant.
func (f inboxFlags) name() (string, error) {
	last, err := lastDescription(f.StateDir)
	if err != nil {
		return "", err
	}
	if last == nil && f.Inbox == "" {
		return "", usage("nothing in %s says which of its stores are inboxes; name one with --inbox", f.StateDir)
	}
	if last == nil {
		return f.Inbox, nil
	}
	return chosen("inbox", "--inbox", f.Inbox, inboxesOf(last))
}

// inboxesOf returns the names of the inboxes of a topology: of the stores with rows of that form.
func inboxesOf(d *graph.Description) (names []string) {
	for _, sub := range d.Subtopologies {
		for _, store := range sub.Stores {
			if store.ValueFormat == inbox.EntryCodec().Name() {
				names = append(names, store.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// chosen returns the given name, or the only one of those that the instance has.
func chosen(what, flag, given string, there []string) (string, error) {
	switch {
	case slices.Contains(there, given):
		return given, nil
	case given != "":
		return "", usage("the instance has no %s %q; it has %s", what, given, orNone(strings.Join(there, ", ")))
	case len(there) == 0:
		return "", usage("the instance has no %s", what)
	case len(there) > 1:
		return "", usage("the instance has more than one %s; choose with %s: %s", what, flag, strings.Join(there, ", "))
	}
	return there[0], nil
}

// entries hands what the inbox knows in a partition to take, in the order of the rows, until that
// fails. begin is told before where it is.
func (o openInbox) entries(
	ctx context.Context, partition int32, begin func(admin.At) error, take func(id string, e inbox.Entry) error,
) (err error) {
	scan, err := o.Scan(ctx, admin.ScanRequest{Store: o.name, Partition: partition, Stale: o.stale})
	if err != nil {
		return explainStale(err, o.stale)
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	if err := begin(scan.At); err != nil {
		return err
	}
	for row, err := range scan.Rows() {
		if err != nil {
			return err
		}
		id, e, known, err := o.entry(scan.At, row)
		if err == nil && known {
			err = take(id, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry reads a row. known is false for an expired one that is still on the disk.
func (o openInbox) entry(at admin.At, row state.Entry) (id string, e inbox.Entry, known bool, err error) {
	parts, err := o.place.layout.Parts(row.Key, row.Value)
	if err != nil {
		return "", e, false, fmt.Errorf("inbox %s: %w", o.name, err)
	}
	if e, err = inbox.EntryCodec().Decode(parts.Value); err != nil {
		return "", e, false, fmt.Errorf("inbox %s: %w: %w", o.name, state.ErrCorrupt, err)
	}
	known = true
	if o.place.layout.Kind.Expires() {
		positions, _ := at.Positions.Changelog(o.name) // at the zero time no row is expired
		known = o.place.layout.Live(parts.Time, positions.StreamTime)
	}
	return string(parts.Key), e, known, nil
}

// inboxEntry is the JSON form of what an inbox knows of an id. Its fields are for programs and
// stay.
type inboxEntry struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Outcome string `json:"outcome"`
	// Advances says that the position in the source may move past the message.
	Advances bool `json:"advances"`
	// FirstSeen is the time of the first record with the id, in milliseconds since the epoch.
	FirstSeen int64 `json:"first_seen"`
	// Payload is the SHA-256 of its payload in hexadecimal digits.
	Payload string `json:"payload"`
}

func inboxEntryOf(id string, e inbox.Entry) inboxEntry {
	status := e.Outcome.Status()
	return inboxEntry{id, status.String(), e.Outcome.String(), status.Advances(), e.FirstSeen, fmt.Sprintf("%x", e.Payload)}
}

// advancesText describes the effect on the position.
func (e inboxEntry) advancesText() string {
	if e.Advances {
		return "moves past"
	}
	return "stays"
}
