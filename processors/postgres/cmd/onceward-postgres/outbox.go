package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/processors/postgres/pgoutbox"
)

type outboxCommands struct {
	List       outboxListCommand       `cmd:"" help:"List entries, without keys and values."`
	Show       outboxShowCommand       `cmd:"" help:"Show an entry."`
	Requeue    outboxRequeueCommand    `cmd:"" help:"Have a relay publish entries at once that are QUARANTINED, or PENDING and wait to be tried again."`
	Quarantine outboxQuarantineCommand `cmd:"" help:"Take PENDING entries out, so that later ones of their aggregates pass."`
	Clean      outboxCleanCommand      `cmd:"" help:"Remove published entries that are old."`
}

func (p *process) outbox(name string, change func(c *pgoutbox.Config)) (*pgoutbox.Outbox, error) {
	c := pgoutbox.Config{Name: name, Pool: p.pool}
	if change != nil {
		change(&c)
	}
	return pgoutbox.New(c)
}

// outboxEntry is an entry as JSON. Its fields are for programs and stay.
type outboxEntry struct {
	Entry       int64  `json:"entry"`
	ID          string `json:"id"`
	Status      string `json:"status"`
	Topic       string `json:"topic"`
	Aggregate   string `json:"aggregate,omitempty"`
	AppendedAt  string `json:"appendedAt"`
	Attempts    int    `json:"attempts"`
	RetryAt     string `json:"retryAt,omitempty"`
	Class       string `json:"class,omitempty"`
	Reason      string `json:"reason,omitempty"`
	DecidedBy   string `json:"decidedBy,omitempty"`
	PublishedAt string `json:"publishedAt,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`
	KeyBytes    int    `json:"keyBytes"`
	Bytes       int    `json:"payloadBytes"`
	Key         []byte `json:"key,omitempty"` // base64, with --payload
	*shownPayload
}

func outboxEntryOf(e pgoutbox.Entry) outboxEntry {
	shown := outboxEntry{
		Entry: e.Number, ID: e.ID, Status: string(e.Status), Topic: e.Topic, Aggregate: e.Aggregate, AppendedAt: moment(e.AppendedAt), Attempts: e.Attempts,
		RetryAt: moment(e.RetryAt), Class: className(e.Class), Reason: e.Reason, DecidedBy: e.DecidedBy, PublishedAt: moment(e.PublishedAt),
		KeyBytes: len(e.Key), Bytes: len(e.Value),
	}
	if e.Status == pgoutbox.Published {
		shown.Partition, shown.Offset = &e.Partition, &e.Offset
	}
	return shown
}

type outboxListCommand struct {
	listFlags
	Failing bool `help:"Show PENDING entries that could not be published."`
}

// Help is for --help.
func (outboxListCommand) Help() string {
	return "The statuses are PENDING, PUBLISHED and QUARANTINED."
}

// Run is called by kong.
func (c *outboxListCommand) Run(p *process) error {
	statuses, err := parseAll(c.Status, pgoutbox.ParseStatus)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	o, err := p.outbox(c.Name, nil)
	if err != nil {
		return err
	}
	all, err := o.List(p.ctx, pgoutbox.Filter{Statuses: statuses, EventID: c.ID, Aggregate: c.Aggregate, After: c.After, Failing: c.Failing}, c.Limit)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, e := range all {
			if err := writeJSON(p.out, outboxEntryOf(e)); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(p.out, "ENTRY", "ID", "STATUS", "TOPIC", "AGGREGATE", "ATTEMPTS", "APPENDED", "RETRY", "REASON")
	for _, e := range all {
		t.row(strconv.FormatInt(e.Number, 10), e.ID, string(e.Status), e.Topic, e.Aggregate, strconv.Itoa(e.Attempts), moment(e.AppendedAt), moment(e.RetryAt),
			e.Reason)
	}
	return t.w.Flush()
}

type outboxShowCommand struct {
	nameArg
	Entry   int64 `arg:"" help:"Number of the entry, as list shows it."`
	Payload bool  `help:"Show the key, the value and the headers too."`
	outputFlag
}

// Run is called by kong.
func (c *outboxShowCommand) Run(p *process) error {
	o, err := p.outbox(c.Name, nil)
	if err != nil {
		return err
	}
	e, err := o.Show(p.ctx, c.Entry)
	if err != nil {
		return err
	}
	shown := outboxEntryOf(e)
	if c.Output == "json" {
		if c.Payload {
			shown.Key, shown.shownPayload = e.Key, payloadOf(e.Value, e.Headers)
		}
		return writeJSON(p.out, shown)
	}
	t := newTable(p.out, "entry", strconv.FormatInt(e.Number, 10))
	for _, row := range [][2]string{
		{"id", e.ID}, {"status", string(e.Status)}, {"topic", e.Topic}, {"aggregate", e.Aggregate}, {"appended", shown.AppendedAt},
		{"attempts", strconv.Itoa(e.Attempts)}, {"retry", shown.RetryAt}, {"class", shown.Class}, {"reason", e.Reason}, {"decided by", e.DecidedBy},
		{"published", shown.PublishedAt}, {"key bytes", strconv.Itoa(len(e.Key))}, {"payload bytes", strconv.Itoa(len(e.Value))},
	} {
		t.row(row[0], row[1])
	}
	if shown.Offset != nil {
		t.row("record", fmt.Sprintf("partition %d, offset %d", e.Partition, e.Offset))
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	if c.Payload {
		fmt.Fprintf(p.out, "\nkey: %q\n", e.Key)
		writePayload(p.out, e.Value, e.Headers)
	}
	return nil
}

type outboxRequeueCommand struct{ entriesArg }

// Help is for --help.
func (outboxRequeueCommand) Help() string {
	return "An entry from quarantine is published behind what was published of its aggregate since."
}

// Run is called by kong.
func (c *outboxRequeueCommand) Run(p *process) error {
	o, err := p.outbox(c.Name, nil)
	if err != nil {
		return err
	}
	return c.each(p, "was requeued", o.Requeue)
}

type outboxQuarantineCommand struct{ entriesArg }

// Run is called by kong.
func (c *outboxQuarantineCommand) Run(p *process) error {
	o, err := p.outbox(c.Name, nil)
	if err != nil {
		return err
	}
	return c.each(p, "was quarantined", o.Quarantine)
}

type outboxCleanCommand struct {
	cleanFlags
	Retention time.Duration `default:"24h" placeholder:"TIME" help:"Remove entries that were published longer ago; default ${default}."`
}

// Help is for --help.
func (outboxCleanCommand) Help() string { return "Relays do this every minute." }

// Run is called by kong.
func (c *outboxCleanCommand) Run(p *process) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Retention < time.Second {
		return usageError{fmt.Errorf("--retention: a second is the least, not %s", c.Retention)}
	}
	o, err := p.outbox(c.Name, func(config *pgoutbox.Config) { config.Retention = c.Retention })
	if err != nil {
		return err
	}
	n, err := o.Clean(p.ctx, c.Limit)
	fmt.Fprintf(p.out, "%d entries were removed\n", n)
	return err
}
