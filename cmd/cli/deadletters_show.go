package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/txn/admin"
)

// deadLettersShowCommand shows one dead letter with its record.
type deadLettersShowCommand struct {
	ID string `arg:"" placeholder:"ID" help:"The id of the letter, as list shows it."`
	letterTopic
	Encoding string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How the record is shown: as the codecs of its topic read it where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
	outputFlag
}

func (c *deadLettersShowCommand) Run(p *process) error {
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.close()
	l, err := o.Find(p.ctx, c.ID)
	if err != nil {
		return err
	}
	e := o.encoder(l.To.Topic, c.Encoding)
	key, value := e.recordPart(l.Key, e.rows.Key), e.recordPart(l.Value, e.rows.Value)
	if c.Output == "json" {
		out := o.letterJSONOf(l)
		if key != nil {
			out.rowJSON = keyJSON(*key)
		}
		if value != nil {
			out.Value, out.ValueText, out.ValueHex, out.ValueBase64 = value.decoded, value.text, value.hex, value.base64
		}
		for _, h := range l.Headers {
			shown := letterHeader{Key: h.Key}
			if part := (rowEncoder{encoding: c.Encoding}).recordPart(h.Value, nil); part != nil {
				shown.Value, shown.ValueText, shown.ValueHex, shown.ValueBase64 = part.decoded, part.text, part.hex, part.base64
			}
			out.Headers = append(out.Headers, shown)
		}
		return writeJSON(p.out, out)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	writeLetter(w, l)
	fmt.Fprintf(w, "key\t%s\nvalue\t%s\n", partText(key), partText(value))
	for _, h := range l.Headers {
		fmt.Fprintf(w, "header %s\t%s\n", oneLine(h.Key), partText((rowEncoder{encoding: c.Encoding}).recordPart(h.Value, nil)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprint(p.out, text.String())
	return err
}

// writeLetter writes for people what a dead letter says of the death.
func writeLetter(w *tabwriter.Writer, l admin.DeadLetter) {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
	fmt.Fprintf(w, "id\t%s\nstate\t%s\n", oneLine(l.ID), stateText(l))
	if !l.Redriven.IsZero() {
		fmt.Fprintf(w, "redriven\t%s\n", at(l.Redriven))
	}
	fmt.Fprintf(w, "application\t%s, version %s, task %s\n", oneLine(l.Application), oneLine(l.Version), oneLine(l.Task))
	fmt.Fprintf(w, "failed\t%s in node %s: %s\n", l.Class, oneLine(l.Node), oneLine(l.Message))
	fmt.Fprintf(w, "attempts\t%d, first failure %s, last failure %s\n", l.Attempts, at(l.FirstFailure), at(l.LastFailure))
	fmt.Fprintf(w, "deaths\t%d\n", l.Deaths)
	fmt.Fprintf(w, "from\t%s[%d] offset %d, %s %s\n",
		oneLine(l.Origin.Topic), l.Origin.Partition, l.Origin.Offset, l.Origin.TimestampType,
		at(time.UnixMilli(l.Origin.Timestamp)))
	if s := l.Source; s.Topic != "" {
		appended := ""
		if s.AppendTime != 0 {
			appended = ", appended " + at(time.UnixMilli(s.AppendTime))
		}
		fmt.Fprintf(w, "of record\t%s[%d] offset %d%s\n", oneLine(s.Topic), s.Partition, s.Offset, appended)
	}
	if record := l.RecordTime(); record.UnixMilli() != l.Origin.Timestamp {
		fmt.Fprintf(w, "time\t%s when it died last, which a redrive keeps\n", at(record))
	}
	fmt.Fprintf(w, "redrive to\t%s[%d]\n", oneLine(l.To.Topic), l.To.Partition)
	if l.Cut != "" {
		fmt.Fprintf(w, "cut\t%s\n", oneLine(l.Cut))
	}
}

// recordPart shows a key or a value of a record, which may be null. What is JSON is shown as JSON,
// whether a codec knows it or not.
func (e rowEncoder) recordPart(b []byte, decode func([]byte) (any, error)) *part {
	if b == nil {
		return nil
	}
	if e.encoding == encodingAuto && json.Valid(b) && len(b) > 0 && (b[0] == '{' || b[0] == '[') {
		return &part{decoded: b} // as it is: a codec could leave out what it does not know
	}
	shown := e.part(b, decode)
	return &shown
}

func partText(p *part) string {
	if p == nil {
		return "null"
	}
	return p.String()
}
