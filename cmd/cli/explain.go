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
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// explainCommand shows the history of a row, from a topic of evidence, and what it has come to,
// from a state directory.
type explainCommand struct {
	selection
	clusterFlags
	Row         string `required:"" placeholder:"KEY" help:"The row, by its key in the store."`
	Audit       string `placeholder:"TOPIC" env:"ONCEWARD_AUDIT" help:"Topic of evidence; default is the one that the pipeline writes."`
	Store       string `placeholder:"STORE" help:"Show decisions about rows of this store only; its codec reads the key if the pipeline is named."`
	Follow      bool   `help:"Show also what was decided elsewhere about the same records and ids, as an inbox has before a ledger; it reads the whole topic of evidence."`
	StateDir    string `placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine, running or not, to show what the row holds now, and contributions with their amounts."`
	Stale       bool   `help:"Read also state that may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	DeadLetters string `placeholder:"TOPIC" help:"Topic of dead letters, of which those with this record key are shown; default is the pipeline's."`
	KeyEncoding string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_KEY_ENCODING" help:"How the key is given: as the store's codec reads it where pipeline and store are named, otherwise as text; or text, hex or base64."`
	Encoding    string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How rows are shown: as the store's codecs read them where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
	outputFlag
}

// Help is for --help.
func (c *explainCommand) Help() string {
	return "Decisions are shown in the order in which they were made: what was decided, by which program, about which " +
		"record. The version of a program is the fingerprint of its topology, which other code in the same nodes does not change. Evidence is written for processors that are recorded (processors/evidence). A record that failed has " +
		"no decision; its dead letter says why. With --follow each decision has behind it those of other processors " +
		"about the same record, or under the same id: ids that are equal are taken for the same. No amount is in the " +
		"evidence; --state-dir shows what has become of it, and --state-dir= leaves out what ONCEWARD_STATE_DIR names. When it was decided is known where the topic of evidence has " +
		"message.timestamp.type=LogAppendTime."
}

// explanation is the JSON form. Its fields are for programs and stay.
type explanation struct {
	Row       string    `json:"row"`
	Decisions []decided `json:"decisions"`
	// Followed are decisions about other rows, if they were asked for.
	Followed []followed `json:"followed,omitempty"`
	// Now has what each store holds in the row, if a state directory is given.
	Now     []presentRow    `json:"now,omitempty"`
	Letters []explainedDead `json:"dead_letters"`
	// Malformed counts the dead letters of the topic, of any row, of which the headers cannot be
	// read.
	Malformed int64 `json:"malformed_dead_letters"`
}

type decided struct {
	// Partition and Offset are where the evidence is, Written when the broker wrote it, if the
	// topic says so.
	Partition int32      `json:"evidence_partition"`
	Offset    int64      `json:"evidence_offset"`
	Written   *time.Time `json:"written,omitempty"`
	evidence.Entry
	// Holds is what a store holds of the subject, if a state directory is given: a contribution, or
	// an accepted transition.
	Holds *presentRow `json:"holds,omitempty"`
}

func (d *decided) at() evidenceAt { return evidenceAt{d.Partition, d.Offset} }

type explainedDead struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Source is the record of an input that it comes from, where it died in an internal topic that
	// keeps the origin.
	Source   *letterSource `json:"source,omitempty"`
	Node     string        `json:"node"`
	Class    string        `json:"class"`
	Message  string        `json:"message"`
	Attempts int           `json:"attempts"`
	Deaths   int           `json:"deaths"`
	Last     time.Time     `json:"last_failure"`
	// Edition is how often the dead letter was edited, Redriven when it was redriven.
	Edition  int        `json:"edition"`
	Redriven *time.Time `json:"redriven,omitempty"`

	state string
}

func (c *explainCommand) Run(p *process) error {
	if len(c.Brokers) == 0 {
		return usage("no brokers are given; name them with --brokers")
	}
	top, err := c.chosen(p)
	if err != nil {
		return err
	}
	key, err := c.rows(top, c.Store).key("--row", c.KeyEncoding, c.Row)
	if err != nil {
		return err
	}
	if c.Audit == "" {
		if c.Audit, err = evidenceTopic(top); err != nil {
			return err
		}
	}
	letters := c.DeadLetters
	if top != nil {
		letters = cmp.Or(letters, top.DeadLetterTopic())
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
	only := admin.EachOptions{Partitions: []int32{graph.PartitionOf(key, count)}}
	looked := false
	err = client.Each(ctx, c.Audit, only, func(r admin.Record) error {
		if looked && !bytes.Equal(r.Key, key) {
			return nil // the first record shows whether this is a topic of evidence
		}
		looked = true
		d, err := decisionOf(c.Audit, r)
		if !bytes.Equal(r.Key, key) {
			return err
		}
		if err == nil && (c.Store == "" || d.Store == c.Store) {
			found.Decisions = append(found.Decisions, d)
		}
		return err
	})
	if err == nil && c.Follow {
		err = found.follow(ctx, client, c.Audit, func(store string) rowEncoder { return c.rows(top, store) })
	}
	if err == nil && c.StateDir != "" {
		err = c.addState(ctx, p, top, &found, key)
	}
	if err == nil && letters != "" {
		err = found.addLetters(ctx, client.DeadLetters(letters), key)
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(p.out, found)
	} else {
		_, err = io.WriteString(p.out, found.text(c.Audit))
	}
	if err == nil && len(found.Decisions)+len(found.Letters) == 0 {
		err = fmt.Errorf("%s has no evidence of that row", c.Audit)
	}
	return err
}

// chosen returns the topology whose codecs are used, nil if none is named.
func (c *explainCommand) chosen(p *process) (*topology.Topology, error) {
	if c.File == "" && c.Topology == "" && len(p.topologies) != 1 {
		return nil, nil //nolint:nilnil // rows are readable without
	}
	return c.topology(p)
}

// evidenceTopic returns the topic to which a topology writes evidence.
func evidenceTopic(t *topology.Topology) (string, error) {
	var found []string
	if t != nil {
		found = evidence.Topics(t)
	}
	switch len(found) {
	case 0:
		return "", usage("no topic of evidence is given, and no pipeline writes evidence; name the topic with --audit")
	case 1:
		return found[0], nil
	}
	return "", usage("the pipeline writes evidence to several topics; name one with --audit: %s", strings.Join(found, ", "))
}

// rows returns how the keys of a store are read and shown, which may be no store of the topology.
func (c *explainCommand) rows(t *topology.Topology, store string) rowEncoder {
	e := rowEncoder{encoding: c.Encoding}
	if t != nil && store != "" {
		e.rows, e.decodes = t.Rows(store)
	}
	return e
}

func decisionOf(topic string, r admin.Record) (decided, error) {
	e, err := evidence.Decode(r.Key, r.Value)
	if err != nil {
		return decided{}, usage("--audit: %s is not a topic of evidence, or holds other records too: %s[%d] at offset %d: %w", topic, topic,
			r.Partition, r.Offset, err)
	}
	d := decided{Partition: r.Partition, Offset: r.Offset, Entry: e}
	if r.Appended {
		at := r.Timestamp.UTC()
		d.Written = &at
	}
	return d, nil
}

// addLetters adds the dead letters of the key, each once, however often it was edited.
func (x *explanation) addLetters(ctx context.Context, letters *admin.DeadLetters, key []byte) error {
	of := admin.DeadLetterFilter{Keys: [][]byte{key}, Redriven: true}
	counts, err := letters.Each(ctx, of, func(l admin.DeadLetter) error {
		dead := explainedDead{
			ID: l.ID, Topic: l.Origin.Topic, Partition: l.Origin.Partition, Offset: l.Origin.Offset,
			Source: letterSourceOf(l.Source), Node: l.Node,
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

func (x *explanation) text(audit string) string {
	var text strings.Builder
	led := map[evidenceAt][]*followed{}
	for i := range x.Followed {
		f := &x.Followed[i]
		led[f.from()] = append(led[f.from()], f)
	}
	for i := range x.Decisions {
		d := &x.Decisions[i]
		writeLines(&text, "", d.lines(""))
		writeFollowed(&text, "    ", led, d.at())
	}
	for i := range x.Now {
		writeLines(&text, "", x.Now[i].lines())
	}
	for _, l := range x.Letters {
		fmt.Fprintf(&text, "dead letter from %s[%d]@%d", l.Topic, l.Partition, l.Offset)
		if s := l.Source; s != nil {
			fmt.Fprintf(&text, ", of the record %s[%d]@%d", oneLine(s.Topic), s.Partition, s.Offset)
		}
		text.WriteString("\n")
		fmt.Fprintf(&text, "  %s at node %s: %s; attempts %d, deaths %d, last %s; id %s, %s\n", l.Class, cmp.Or(l.Node, "none"),
			oneLine(l.Message), l.Attempts, l.Deaths, l.Last.Format(time.RFC3339), l.ID, l.state)
	}
	if len(x.Decisions) > 0 && x.Decisions[0].Written == nil {
		fmt.Fprintf(&text, "# %s does not say when it was decided; with message.timestamp.type=LogAppendTime it would\n", audit)
	}
	if x.Malformed > 0 {
		fmt.Fprintf(&text, "# %d dead letters, of any row, have headers that cannot be read\n", x.Malformed)
	}
	return text.String()
}

func writeLines(text *strings.Builder, indent string, lines []string) {
	for _, line := range lines {
		text.WriteString(indent + line + "\n")
	}
}

// lines is a decision for people: one for what, and one for each of by whom, from where, under
// which ids, and what a store holds of it. whose is said behind what was decided: which row it is
// about, and what has led there.
func (d *decided) lines(whose string) []string {
	lines := []string{
		d.what() + whose,
		fmt.Sprintf("  program %s, version %s, task %s, mode %s, attempt %d", d.Application, d.Version, d.Task, d.Mode, d.Attempt),
		"  " + d.when(),
	}
	if d.By != "" {
		lines = append(lines, fmt.Sprintf("  said by %s: %s", oneLine(d.By), oneLine(cmp.Or(d.Note, "no note"))))
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
		lines = append(lines, "  "+strings.Join(ids, ", "))
	}
	if d.Holds != nil {
		lines = append(lines, d.Holds.values("  in ")...)
	}
	return lines
}

// what was decided, and about what.
func (d *decided) what() string {
	text := d.Outcome + " by " + d.Node
	if d.Subject != "" {
		text += ", about " + oneLine(d.Subject)
	}
	if d.Names != "" {
		text += ", which names " + oneLine(d.Names)
	}
	if d.Given != nil {
		text += fmt.Sprintf(", record of version %d", *d.Given)
	}
	switch {
	case d.Before == nil && d.After == nil:
	case d.Before != nil && d.After != nil && *d.Before == *d.After:
		text += fmt.Sprintf(", version stays %d", *d.After)
	default:
		text += fmt.Sprintf(", version %s to %s", versionText(d.Before), versionText(d.After))
	}
	if d.Reason != "" {
		text += ": " + oneLine(d.Reason)
	}
	return text
}

// when says from where the record came, and when.
func (d *decided) when() string {
	from, turn := fmt.Sprintf("from %s[%d]@%d", d.Topic, d.Entry.Partition, d.Entry.Offset), "in the turn of "+cmp.Or(d.Turn, "no record")
	text := from
	switch {
	case d.Topic == "":
		text = turn
	case d.Deferred, d.Turn != "":
		text += ", " + turn
	}
	text += ", time " + time.UnixMilli(d.Time).UTC().Format(time.RFC3339Nano)
	if d.AppendTime != 0 {
		text += ", appended " + time.UnixMilli(d.AppendTime).UTC().Format(time.RFC3339Nano)
	}
	if d.Written != nil {
		text += ", processed " + d.Written.Format(time.RFC3339Nano)
	}
	return text
}

func versionText(v *int64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}
