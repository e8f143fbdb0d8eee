package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/processors/postgres/pgqueue"
)

type queueCommands struct {
	List       queueListCommand       `cmd:"" help:"List entries, without payloads."`
	Show       queueShowCommand       `cmd:"" help:"Show an entry and the decisions on it."`
	Requeue    queueRequeueCommand    `cmd:"" help:"Have workers try entries again that are QUARANTINED or RETRYABLE_FAILED."`
	Quarantine queueQuarantineCommand `cmd:"" help:"Keep workers from entries."`
	Ignore     queueIgnoreCommand     `cmd:"" help:"Settle entries without an effect, so that later ones of their aggregates pass."`
	Clean      queueCleanCommand      `cmd:"" help:"Remove settled entries that are old."`
}

func (p *process) queue(name string, change func(c *pgqueue.Config)) (*pgqueue.Queue, error) {
	c := pgqueue.Config{Name: name, Pool: p.pool}
	if change != nil {
		change(&c)
	}
	return pgqueue.New(c)
}

// queueEntry is an entry as JSON. Its fields are for programs and stay.
type queueEntry struct {
	Entry      int64  `json:"entry"`
	ID         string `json:"id"`
	Status     string `json:"status"`
	CopyOf     int64  `json:"copyOf,omitempty"`
	Type       string `json:"type,omitempty"`
	Subject    string `json:"subject,omitempty"`
	Aggregate  string `json:"aggregate,omitempty"`
	Source     string `json:"source,omitempty"`
	ReceivedAt string `json:"receivedAt"`
	DueAt      string `json:"dueAt,omitempty"`
	Attempts   int    `json:"attempts"`
	Claims     int    `json:"claims"`
	ClaimedBy  string `json:"claimedBy,omitempty"`
	ClaimedAt  string `json:"claimedAt,omitempty"`
	SettledAt  string `json:"settledAt,omitempty"`
	Class      string `json:"class,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Bytes      int    `json:"payloadBytes"`
	*shownPayload
	Evidence []queueEvidence `json:"evidence,omitempty"`
}

type queueEvidence struct {
	At     string `json:"at"`
	Claim  int    `json:"claim"`
	Status string `json:"status"`
	By     string `json:"by"`
	Class  string `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func queueEntryOf(e pgqueue.Entry) queueEntry {
	return queueEntry{
		Entry: e.Number, ID: e.ID, Status: string(e.Status), CopyOf: e.CopyOf, Type: e.Type, Subject: e.Subject, Aggregate: e.Aggregate, Source: e.Source,
		ReceivedAt: moment(e.ReceivedAt), DueAt: moment(e.DueAt), Attempts: e.Attempts, Claims: e.Claims, ClaimedBy: e.ClaimedBy,
		ClaimedAt: moment(e.ClaimedAt), SettledAt: moment(e.SettledAt), Class: className(e.Class), Reason: e.Reason, Bytes: len(e.Payload),
	}
}

type queueListCommand struct{ listFlags }

// Help is for --help.
func (queueListCommand) Help() string {
	return "The statuses are RECEIVED, CLAIMED, PROCESSED, DUPLICATE, RETRYABLE_FAILED, QUARANTINED, IGNORED and SUPERSEDED. DUE is when an entry can be claimed, " +
		"or its claim expires."
}

// Run is called by kong.
func (c *queueListCommand) Run(p *process) error {
	statuses, err := parseAll(c.Status, pgqueue.ParseStatus)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	q, err := p.queue(c.Name, nil)
	if err != nil {
		return err
	}
	all, err := q.List(p.ctx, pgqueue.Filter{Statuses: statuses, EventID: c.ID, Aggregate: c.Aggregate, After: c.After}, c.Limit)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, e := range all {
			if err := writeJSON(p.out, queueEntryOf(e)); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(p.out, "ENTRY", "ID", "STATUS", "AGGREGATE", "ATTEMPTS", "RECEIVED", "DUE", "REASON")
	for _, e := range all {
		t.row(strconv.FormatInt(e.Number, 10), e.ID, string(e.Status), e.Aggregate, strconv.Itoa(e.Attempts), moment(e.ReceivedAt), moment(e.DueAt), e.Reason)
	}
	return t.w.Flush()
}

type queueShowCommand struct {
	nameArg
	Entry   int64 `arg:"" help:"Number of the entry, as list shows it."`
	Payload bool  `help:"Show the payload and the headers too."`
	outputFlag
}

// Run is called by kong.
func (c *queueShowCommand) Run(p *process) error {
	q, err := p.queue(c.Name, nil)
	if err != nil {
		return err
	}
	e, evidence, err := q.Show(p.ctx, c.Entry)
	if err != nil {
		return err
	}
	shown := queueEntryOf(e)
	for _, d := range evidence {
		shown.Evidence = append(shown.Evidence, queueEvidence{moment(d.At), d.Claim, string(d.Status), d.By, className(d.Class), d.Reason})
	}
	if c.Output == "json" {
		if c.Payload {
			shown.shownPayload = payloadOf(e.Payload, e.Headers)
		}
		return writeJSON(p.out, shown)
	}
	t := newTable(p.out, "entry", strconv.FormatInt(e.Number, 10))
	for _, row := range [][2]string{
		{"id", e.ID}, {"status", string(e.Status)}, {"type", e.Type}, {"subject", e.Subject}, {"aggregate", e.Aggregate}, {"source", e.Source},
		{"received", shown.ReceivedAt}, {"due", shown.DueAt}, {"attempts", strconv.Itoa(e.Attempts)}, {"claims", strconv.Itoa(e.Claims)},
		{"claimed by", e.ClaimedBy}, {"claimed", shown.ClaimedAt}, {"settled", shown.SettledAt}, {"class", shown.Class}, {"reason", e.Reason},
		{"payload bytes", strconv.Itoa(len(e.Payload))},
	} {
		t.row(row[0], row[1])
	}
	if e.CopyOf != 0 {
		t.row("copy of entry", strconv.FormatInt(e.CopyOf, 10))
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	if len(evidence) > 0 {
		fmt.Fprintln(p.out)
		t = newTable(p.out, "AT", "CLAIM", "STATUS", "BY", "CLASS", "REASON")
		for _, d := range shown.Evidence {
			t.row(d.At, strconv.Itoa(d.Claim), d.Status, d.By, d.Class, d.Reason)
		}
		if err := t.w.Flush(); err != nil {
			return err
		}
	}
	if c.Payload {
		fmt.Fprintln(p.out)
		writePayload(p.out, e.Payload, e.Headers)
	}
	return nil
}

type queueRequeueCommand struct{ entriesArg }

// Run is called by kong.
func (c *queueRequeueCommand) Run(p *process) error {
	q, err := p.queue(c.Name, nil)
	if err != nil {
		return err
	}
	return c.each(p, "was requeued", q.Requeue)
}

type queueQuarantineCommand struct{ entriesArg }

// Help is for --help.
func (queueQuarantineCommand) Help() string {
	return "They are RECEIVED, CLAIMED or RETRYABLE_FAILED. A worker that has claimed one cannot settle it any more. Later entries of its aggregate wait."
}

// Run is called by kong.
func (c *queueQuarantineCommand) Run(p *process) error {
	q, err := p.queue(c.Name, nil)
	if err != nil {
		return err
	}
	return c.each(p, "was quarantined", q.Quarantine)
}

type queueIgnoreCommand struct{ entriesArg }

// Help is for --help.
func (queueIgnoreCommand) Help() string {
	return "They are RECEIVED, RETRYABLE_FAILED or QUARANTINED. It cannot be taken back."
}

// Run is called by kong.
func (c *queueIgnoreCommand) Run(p *process) error {
	q, err := p.queue(c.Name, nil)
	if err != nil {
		return err
	}
	return c.each(p, "is ignored", q.Ignore)
}

type queueCleanCommand struct {
	cleanFlags
	Retention        time.Duration `default:"4320h" placeholder:"TIME" help:"Remove entries that were settled longer ago; default ${default}. A copy that comes later has its effect again."`
	PayloadRetention time.Duration `default:"168h" placeholder:"TIME" help:"Drop payloads of entries that were settled longer ago; default ${default}."`
}

// Help is for --help.
func (queueCleanCommand) Help() string {
	return "Entries that are not settled stay, also in quarantine."
}

// Run is called by kong.
func (c *queueCleanCommand) Run(p *process) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Retention < time.Second || c.PayloadRetention < time.Second {
		return usageError{fmt.Errorf("--retention and --payload-retention: a second is the least, not %s and %s", c.Retention, c.PayloadRetention)}
	}
	q, err := p.queue(c.Name, func(config *pgqueue.Config) {
		config.Retention, config.PayloadRetention = c.Retention, c.PayloadRetention
	})
	if err != nil {
		return err
	}
	n, err := q.Clean(p.ctx, c.Limit)
	fmt.Fprintf(p.out, "%d entries were removed\n", n)
	return err
}
