package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// explainCommand shows the history of a row, from a topic of evidence.
type explainCommand struct {
	selection
	clusterFlags
	Row         string `required:"" placeholder:"KEY" help:"The row, by its key in the store."`
	Audit       string `required:"" placeholder:"TOPIC" env:"ONCEWARD_AUDIT" help:"Topic of evidence."`
	Store       string `placeholder:"STORE" help:"Show decisions about rows of this store only; its codec reads the key if the pipeline is named."`
	DeadLetters string `placeholder:"TOPIC" help:"Topic of dead letters, of which those with this record key are shown; default is the pipeline's."`
	KeyEncoding string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_KEY_ENCODING" help:"How the key is given: as the store's codec reads it where pipeline and store are named, otherwise as text; or text, hex or base64."`
	outputFlag
}

// Help is for --help.
func (c *explainCommand) Help() string {
	return "Decisions are shown in the order in which they were made: what was decided, by which program, about which " +
		"record. Evidence is written for processors that are recorded (processors/evidence). A record that failed has " +
		"no decision; its dead letter says why."
}

// explanation is the JSON form. Its fields are for programs and stay.
type explanation struct {
	Row       string          `json:"row"`
	Decisions []decided       `json:"decisions"`
	Letters   []explainedDead `json:"dead_letters"`
	// Malformed counts the dead letters of the topic, of any row, of which the headers cannot be read.
	Malformed int64 `json:"malformed_dead_letters"`
}

type decided struct {
	// Partition and Offset are where the evidence is, Written when the broker wrote it, if the topic says so.
	Partition int32      `json:"evidence_partition"`
	Offset    int64      `json:"evidence_offset"`
	Written   *time.Time `json:"written,omitempty"`
	evidence.Entry
}

type explainedDead struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Node      string    `json:"node"`
	Class     string    `json:"class"`
	Message   string    `json:"message"`
	Attempts  int       `json:"attempts"`
	Deaths    int       `json:"deaths"`
	Last      time.Time `json:"last_failure"`
	// Edition is how often the letter was edited, Redriven when it was redriven.
	Edition  int        `json:"edition"`
	Redriven *time.Time `json:"redriven,omitempty"`

	state string
}

func (c *explainCommand) Run(p *process) error {
	if len(c.Brokers) == 0 {
		return usage("no brokers are given; name them with --brokers")
	}
	key, letters, err := c.selected(p)
	if err != nil {
		return err
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	client, err := c.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	count, err := client.PartitionCount(ctx, c.Audit)
	if err != nil {
		return err
	}
	found := explanation{Row: c.Row, Decisions: []decided{}, Letters: []explainedDead{}}
	only := admin.EachOptions{Partitions: []int32{topology.PartitionOf(key, count)}}
	err = client.Each(ctx, c.Audit, only, func(r admin.Record) error {
		if !bytes.Equal(r.Key, key) {
			return nil
		}
		return found.addDecision(c.Audit, c.Store, r)
	})
	if err == nil && letters != "" {
		err = found.addLetters(ctx, client.DeadLetters(letters), key)
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(p.out, found)
	} else {
		_, err = io.WriteString(p.out, found.text())
	}
	if err == nil && len(found.Decisions)+len(found.Letters) == 0 {
		err = fmt.Errorf("%s has no evidence of that row", c.Audit)
	}
	return err
}

// selected returns the bytes of the key, and the topic of dead letters if there is one.
func (c *explainCommand) selected(p *process) (key []byte, letters string, err error) {
	var rows rowEncoder
	letters = c.DeadLetters
	if c.File != "" || c.Topology != "" || len(p.topologies) == 1 {
		t, err := c.topology(p)
		if err != nil {
			return nil, "", err
		}
		letters = cmp.Or(letters, t.DeadLetterTopic())
		if c.Store != "" {
			rows.rows, rows.decodes = t.Rows(c.Store)
		}
	}
	key, err = rows.key("--row", c.KeyEncoding, c.Row)
	return key, letters, err
}

func (x *explanation) addDecision(topic, store string, r admin.Record) error {
	e, err := evidence.Decode(r.Key, r.Value)
	if err != nil {
		return fmt.Errorf("%s[%d] at offset %d is no evidence: %w", topic, r.Partition, r.Offset, err)
	}
	if store != "" && e.Store != store {
		return nil
	}
	d := decided{Partition: r.Partition, Offset: r.Offset, Entry: e}
	if r.Appended {
		at := r.Timestamp.UTC()
		d.Written = &at
	}
	x.Decisions = append(x.Decisions, d)
	return nil
}

// addLetters adds the letters of the key, each once, however often it was edited.
func (x *explanation) addLetters(ctx context.Context, letters *admin.DeadLetters, key []byte) error {
	of := admin.LetterFilter{Keys: [][]byte{key}, Redriven: true}
	counts, err := letters.Each(ctx, of, func(l admin.DeadLetter) error {
		dead := explainedDead{
			ID: l.ID, Topic: l.Origin.Topic, Partition: l.Origin.Partition, Offset: l.Origin.Offset, Node: l.Node,
			Class: l.Class.String(), Message: l.Message, Attempts: l.Attempts, Deaths: l.Deaths, Last: l.LastFailure,
			Edition: l.Edition, state: stateText(l),
		}
		if !l.Redriven.IsZero() {
			at := l.Redriven.UTC()
			dead.Redriven = &at
		}
		x.Letters = append(x.Letters, dead)
		return nil
	})
	x.Malformed = counts.Malformed
	return err
}

func (x *explanation) text() string {
	var text strings.Builder
	for _, d := range x.Decisions {
		d.write(&text)
	}
	for _, l := range x.Letters {
		fmt.Fprintf(&text, "dead letter from %s[%d]@%d\n", l.Topic, l.Partition, l.Offset)
		fmt.Fprintf(&text, "  %s at node %s: %s; attempts %d, deaths %d, last %s; id %s, %s\n", l.Class, cmp.Or(l.Node, "none"),
			oneLine(l.Message), l.Attempts, l.Deaths, l.Last.Format(time.RFC3339), l.ID, l.state)
	}
	if x.Malformed > 0 {
		fmt.Fprintf(&text, "# %d dead letters, of any row, have headers that cannot be read\n", x.Malformed)
	}
	return text.String()
}

// write writes a decision for people: one line for what, and one for each of by whom, from where and under which ids.
func (d *decided) write(text *strings.Builder) {
	fmt.Fprintf(text, "%s by %s", d.Outcome, d.Node)
	if d.Subject != "" {
		fmt.Fprintf(text, ", about %s", oneLine(d.Subject))
	}
	if d.Before != nil || d.After != nil {
		fmt.Fprintf(text, ", version %s to %s", versionText(d.Before), versionText(d.After))
	}
	if d.Reason != "" {
		fmt.Fprintf(text, ": %s", oneLine(d.Reason))
	}
	fmt.Fprintf(text, "\n  program %s, version %s, task %s, mode %s, attempt %d\n",
		d.Application, d.Version, d.Task, d.Mode, d.Attempt)
	switch {
	case d.Topic == "":
		fmt.Fprintf(text, "  in the turn of %s", cmp.Or(d.Turn, "no record"))
	case d.Kept:
		fmt.Fprintf(text, "  from %s[%d]@%d, in the turn of %s", d.Topic, d.Entry.Partition, d.Entry.Offset, cmp.Or(d.Turn, "no record"))
	default:
		fmt.Fprintf(text, "  from %s[%d]@%d", d.Topic, d.Entry.Partition, d.Entry.Offset)
	}
	fmt.Fprintf(text, ", time %s", time.UnixMilli(d.Time).UTC().Format(time.RFC3339Nano))
	if d.AppendTime != 0 {
		fmt.Fprintf(text, ", appended %s", time.UnixMilli(d.AppendTime).UTC().Format(time.RFC3339Nano))
	}
	if d.Written != nil {
		fmt.Fprintf(text, ", processed %s", d.Written.Format(time.RFC3339Nano))
	}
	text.WriteString("\n")
	if d.By != "" {
		fmt.Fprintf(text, "  said by %s: %s\n", oneLine(d.By), oneLine(cmp.Or(d.Note, "no note")))
	}
	var ids []string
	for _, id := range [][2]string{
		{"event", d.EventID}, {"type", d.EventType}, {"schema", d.EventVersion}, {"message", d.MessageID},
		{"idempotency key", d.IdempotencyKey}, {"aggregate", d.AggregateID}, {"correlation", d.CorrelationID},
		{"causation", d.CausationID},
	} {
		if id[1] != "" {
			ids = append(ids, id[0]+" "+oneLine(id[1]))
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(text, "  %s\n", strings.Join(ids, ", "))
	}
}

func versionText(v *int64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}
