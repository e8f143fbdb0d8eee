package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// inboxShowCommand shows what an inbox knows of an id.
type inboxShowCommand struct {
	ID string `arg:"" placeholder:"ID" help:"The id; a binary one in hexadecimal digits or as a UUID."`
	inboxFlags
}

// Help is for --help.
func (c *inboxShowCommand) Help() string {
	return "An id can be known in several partitions: an inbox by key knows it in that of the record's key, which need not be the id. It ends " +
		"with 1 if the id is not known here. A record that has failed has left no row; see deadletters list."
}

// inboxShown is the JSON form. Its fields are for programs and stay.
type inboxShown struct {
	Inbox string `json:"inbox"`
	Found bool   `json:"found"`
	// Answers has one for each partition that was asked.
	Answers []inboxAnswer `json:"answers"`
}

type inboxAnswer struct {
	At stateAt `json:"at"`
	// Entry is null where the id is not known.
	Entry *inboxEntry `json:"entry"`
}

func (c *inboxShowCommand) Run(p *process) (err error) {
	o, err := c.open(p.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	result := inboxShown{Inbox: o.name}
	var text strings.Builder
	if err := c.ask(p.ctx, o, c.ID, &result, &text); err != nil {
		return err
	}
	if stored, binary := binaryID(c.ID); binary && !result.Found {
		result.Answers = nil
		if err := c.ask(p.ctx, o, stored, &result, &text); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		err = writeJSON(p.out, result)
	} else {
		_, err = io.WriteString(p.out, text.String())
	}
	if err == nil && !result.Found {
		err = fmt.Errorf("inbox %s does not know the id in partition %s%s", o.name, numbers(o.place.partitions), o.place.others())
	}
	return err
}

// ask adds what each partition knows of an id, as it is stored.
func (c *inboxShowCommand) ask(ctx context.Context, o openInbox, id string, result *inboxShown, text *strings.Builder) error {
	for _, partition := range o.place.partitions {
		e, at, err := o.find(ctx, partition, id)
		if err != nil {
			return err
		}
		result.Answers = append(result.Answers, inboxAnswer{stateAtOf(at), e})
		if e == nil {
			continue
		}
		result.Found = true
		w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "id\t%s\nstatus\t%s\noutcome\t%s\nposition\t%s\nfirst seen\t%s\npayload\t%s\n",
			oneLine(e.ID), e.Status, e.Outcome, e.advancesText(), momentText(e.FirstSeen), e.Payload)
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(text, "# %s[%d]: %s\n", o.name, partition, atText(at))
	}
	return nil
}

// uuid is how other programs print 16 bytes.
var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// binaryID returns how an inbox of binary ids (inbox.ReadBinaryIDs) stores an id that is given as a
// UUID. Other texts are not converted: an inbox of texts could know another id by the result.
func binaryID(id string) (stored string, binary bool) {
	return strings.ToLower(strings.ReplaceAll(id, "-", "")), uuid.MatchString(id)
}

// find returns what is known of an id in a partition, nil if nothing is.
func (o openInbox) find(ctx context.Context, partition int32, id string) (found *inboxEntry, at admin.At, err error) {
	if o.place.layout.Kind != state.KeyValueKind { // its rows are in the order of time
		err = o.entries(ctx, partition, func(where admin.At) error { at = where; return nil }, func(known string, e inbox.Entry) error {
			if known == id {
				entry := inboxEntryOf(id, e)
				found = &entry
			}
			return nil
		})
		return found, at, err
	}
	row, err := o.Get(ctx, o.name, partition, []byte(id), o.stale)
	if err != nil || !row.Found {
		return nil, row.At, explainStale(err, o.stale)
	}
	_, e, _, err := o.entry(row.At, state.Entry{Key: []byte(id), Value: row.Value})
	if err != nil {
		return nil, row.At, err
	}
	entry := inboxEntryOf(id, e)
	return &entry, row.At, nil
}
