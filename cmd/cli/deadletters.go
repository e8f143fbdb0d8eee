package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// deadLettersCommand groups what is done with dead letters.
type deadLettersCommand struct {
	List    deadLettersListCommand    `cmd:"" help:"Show what is in a dead-letter topic."`
	Show    deadLettersShowCommand    `cmd:"" help:"Show a dead letter with its record."`
	Edit    deadLettersEditCommand    `cmd:"" help:"Put the record of a dead letter right, before it is redriven."`
	Redrive deadLettersRedriveCommand `cmd:"" help:"Write records again to where they died."`
}

// letterTopic says which dead-letter topic a command is about, and which topology knows the types
// in it.
type letterTopic struct {
	selection
	clusterFlags
	Topic string `placeholder:"NAME" env:"ONCEWARD_DEAD_LETTER_TOPIC" help:"Dead-letter topic; default is that of the pipeline."`
}

// letterOffice is an open dead-letter topic.
type letterOffice struct {
	*admin.DeadLetters
	client   *admin.Client
	topology *topology.Topology // nil without one
	name     string
}

// open connects. A topology is not needed if the topic is given: without one, records are bytes.
func (l letterTopic) open(p *process) (o letterOffice, err error) {
	if len(l.Brokers) == 0 {
		return o, usage("no broker is given; name at least one with --brokers")
	}
	o.name = l.Topic
	if l.Topic == "" || l.File != "" || l.Topology != "" || len(p.topologies) == 1 {
		if o.topology, err = l.topology(p); err != nil {
			return o, err
		}
	}
	if o.name == "" {
		if o.name = o.topology.DeadLetterTopic(); o.name == "" {
			return o, usage("topology %s has no dead-letter topic; name one with --topic", o.topology.Name())
		}
	}
	log := p.warnings() // what is waited for
	if o.client, err = l.connect(p.ctx, log); err != nil {
		return o, err
	}
	o.DeadLetters = o.client.DeadLetters(o.name)
	return o, nil
}

func (o letterOffice) close() { o.client.Close() }

// encoder returns how to show records of a topic.
func (o letterOffice) encoder(topic, encoding string) rowEncoder {
	e := rowEncoder{encoding: encoding}
	if o.topology != nil {
		e.rows, e.decodes = o.topology.Records(topic)
	}
	return e
}

// letterFlags choose dead letters.
type letterFlags struct {
	ID          []string `name:"id" placeholder:"ID" help:"Letters with this id. May be given several times, like all that follow; then one of the values is enough."`
	Key         []string `placeholder:"KEY" help:"Letters whose record has this key."`
	KeyEncoding string   `enum:"text,hex,base64" default:"text" placeholder:"ENCODING" env:"ONCEWARD_KEY_ENCODING" help:"How keys are given: text, hex or base64; default ${default}."`
	Class       []string `placeholder:"CLASS" help:"Letters of this error class, such as poison or validation."`
	Node        []string `placeholder:"NAME" help:"Letters of records that failed in this node."`
	From        []string `placeholder:"TOPIC" help:"Letters of records that died first in this topic, or come from it where an internal topic keeps that (topology.KeepOrigin)."`
	Of          []string `placeholder:"ID" help:"Letters of this application."`
	Since       string   `placeholder:"TIME" help:"Letters that failed last at this time or later: a time such as 2026-01-31T08:00:00Z, milliseconds since the epoch, or how long ago, such as 2h."`
	Until       string   `placeholder:"TIME" help:"Letters that failed last before this time."`
}

// filter returns the choice, and whether there is any.
func (f letterFlags) filter() (out admin.DeadLetterFilter, some bool, err error) {
	out = admin.DeadLetterFilter{IDs: f.ID, Nodes: f.Node, Topics: f.From, Applications: f.Of}
	for _, text := range f.Key {
		key, err := (rowEncoder{}).key("--key", f.KeyEncoding, text)
		if err != nil {
			return out, false, err
		}
		out.Keys = append(out.Keys, key)
	}
	for _, text := range f.Class {
		class, err := graph.ParseClass(text)
		if err != nil {
			return out, false, usage("--class: %w", err)
		}
		out.Classes = append(out.Classes, class)
	}
	if out.Since, err = timeOf("--since", f.Since); err != nil {
		return out, false, err
	}
	if out.Until, err = timeOf("--until", f.Until); err != nil {
		return out, false, err
	}
	some = len(f.ID)+len(f.Key)+len(f.Class)+len(f.Node)+len(f.From)+len(f.Of) > 0 || f.Since != "" || f.Until != ""
	return out, some, nil
}

// letterJSON is the JSON form of a dead letter. Its fields are for programs and stay.
type letterJSON struct {
	ID           string    `json:"id"`
	Deaths       int       `json:"deaths"`
	Edition      int       `json:"edition"`
	Redriven     *timeJSON `json:"redriven,omitempty"`
	Application  string    `json:"application"`
	Version      string    `json:"version"`
	Task         string    `json:"task"`
	Node         string    `json:"node"`
	Class        string    `json:"class"`
	Message      string    `json:"message"`
	Attempts     int       `json:"attempts"`
	FirstFailure timeJSON  `json:"first_failure"`
	LastFailure  timeJSON  `json:"last_failure"`
	Origin       letterAt  `json:"origin"`
	// Source is the record of an input that the one at Origin comes from, where that is in an
	// internal topic which keeps it.
	Source *letterSource `json:"source,omitempty"`
	// RecordTimestamp is that of the record when it died last, which a redrive keeps; that of its
	// first death is in Origin.
	RecordTimestamp timeJSON `json:"record_timestamp"`
	// To is where a redrive writes the record, Letter where the dead letter is.
	To     letterPlace `json:"to"`
	Letter letterAt    `json:"letter"`
	Cut    string      `json:"cut,omitempty"`
	// KeyBytes and ValueBytes are the sizes, null for a null.
	KeyBytes   *int `json:"key_bytes"`
	ValueBytes *int `json:"value_bytes"`
	rowJSON
	// Headers are the record's own; only show has them.
	Headers []letterHeader `json:"headers,omitempty"`
}

type (
	letterPlace struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
	}
	letterAt struct {
		letterPlace
		Offset    int64    `json:"offset"`
		Timestamp timeJSON `json:"timestamp"`
	}
	letterSource struct {
		letterPlace
		Offset int64 `json:"offset"`
		// AppendTime is missing if it is unknown.
		AppendTime *timeJSON `json:"append_time,omitempty"`
	}
	letterHeader struct {
		Key string `json:"key"`
		rowJSON
	}
)

// letterJSONOf returns the JSON form without the record.
func (o letterOffice) letterJSONOf(l admin.DeadLetter) letterJSON {
	out := letterJSON{
		ID: l.ID, Deaths: l.Deaths, Edition: l.Edition,
		Application: l.Application, Version: l.Version, Task: l.Task, Node: l.Node,
		Class: l.Class.String(), Message: l.Message, Attempts: l.Attempts,
		FirstFailure: timeJSON(l.FirstFailure), LastFailure: timeJSON(l.LastFailure),
		Origin: letterAt{
			letterPlace{l.Origin.Topic, l.Origin.Partition}, l.Origin.Offset, timeJSON(time.UnixMilli(l.Origin.Timestamp)),
		},
		Source:          letterSourceOf(l.Source),
		RecordTimestamp: timeJSON(l.RecordTime()),

		To:     letterPlace{l.To.Topic, l.To.Partition},
		Letter: letterAt{letterPlace{o.name, l.Partition}, l.Offset, timeJSON(l.Timestamp)},
		Cut:    l.Cut, KeyBytes: sizeOf(l.Key), ValueBytes: sizeOf(l.Value),
	}
	if !l.Redriven.IsZero() {
		at := timeJSON(l.Redriven)
		out.Redriven = &at
	}
	return out
}

// letterSourceOf returns the JSON form, nil for a dead letter that does not say it.
func letterSourceOf(s graph.DeadLetterSource) *letterSource {
	if s.Topic == "" {
		return nil
	}
	out := &letterSource{letterPlace: letterPlace{s.Topic, s.Partition}, Offset: s.Offset}
	if s.AppendTime != 0 {
		at := timeJSON(time.UnixMilli(s.AppendTime))
		out.AppendTime = &at
	}
	return out
}

func sizeOf(b []byte) *int {
	if b == nil {
		return nil
	}
	n := len(b)
	return &n
}

// sizeText is a size for people.
func sizeText(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(b))
}

// stateText says for people how far a dead letter is.
func stateText(l admin.DeadLetter) string {
	text := "waiting"
	if !l.Redriven.IsZero() {
		text = "redriven"
	}
	if l.Edition > 0 {
		text += fmt.Sprintf(", edition %d", l.Edition)
	}
	if l.Cut != "" {
		text += ", cut"
	}
	return text
}

// oneLine makes a text from a header, which any producer can write, one line without control
// characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
