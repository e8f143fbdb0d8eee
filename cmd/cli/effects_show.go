package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// effectsShowCommand shows what is known of an effect.
type effectsShowCommand struct {
	ID string `arg:"" placeholder:"ID" help:"The id of the effect, as list shows it."`
	effectsFlags
	Stale    bool   `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	Payload  bool   `help:"Show also what was sent and answered: payload, key and headers of the request, and the response."`
	Encoding string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How these are shown: as JSON or text, or base64 where they are none; or text, hex or base64."`
	outputFlag
}

// Help is for --help.
func (c *effectsShowCommand) Help() string {
	return "The number of attempts is what effects resolve has to be given. It ends with 1 if the effect is not here."
}

// effectShown is the JSON form. Its fields are for programs and stay.
type effectShown struct {
	Ledger string `json:"ledger"`
	// Effects has one for each partition in which the id was requested.
	Effects []effectWithAt `json:"effects"`
}

type effectWithAt struct {
	At stateAt `json:"at"`
	shownEffect
	// Sent is left out unless it was asked for.
	Sent *shownRequest `json:"sent,omitempty"`
}

// shownRequest is what was sent, and what came back. Payload and Response are null where there is
// nothing, or nothing was kept.
type shownRequest struct {
	rowJSON                 // the key
	Payload  *rowJSON       `json:"payload"`
	Headers  []letterHeader `json:"headers"`
	Response *rowJSON       `json:"response"`
}

func (c *effectsShowCommand) Run(p *process) (err error) {
	o, err := c.open(p.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	found, err := o.find(p.ctx, c.ID, c.Stale)
	if err != nil {
		return explainStale(err, c.Stale)
	}
	now := time.Now()
	result := effectShown{Ledger: o.name}
	var text strings.Builder
	for _, e := range found {
		out := effectWithAt{At: stateAtOf(e.at), shownEffect: e.shown(now)}
		if c.Payload {
			out.Sent = c.sent(e)
		}
		result.Effects = append(result.Effects, out)
		if err := c.write(&text, e, now); err != nil {
			return err
		}
		fmt.Fprintf(&text, "# %s[%d]: %s\n", o.name, e.at.Task.Partition, atText(e.at))
	}
	if c.Output == "json" {
		return writeJSON(p.out, result)
	}
	_, err = io.WriteString(p.out, text.String())
	return err
}

// sent is the JSON form of what was sent and answered.
func (c *effectsShowCommand) sent(e effectAt) *shownRequest {
	encoder := rowEncoder{encoding: c.Encoding}
	value := func(b []byte) *rowJSON {
		shown := encoder.recordPart(b, nil)
		if shown == nil {
			return nil
		}
		return &rowJSON{Value: shown.decoded, ValueText: shown.text, ValueHex: shown.hex, ValueBase64: shown.base64}
	}
	out := &shownRequest{
		rowJSON: keyJSON(encoder.part(e.Key, nil)), Payload: value(e.Payload), Headers: []letterHeader{}, Response: value(e.ResponseBody),
	}
	for _, h := range e.Headers {
		header := letterHeader{Key: h.Key}
		if v := value(h.Value); v != nil {
			header.rowJSON = *v
		}
		out.Headers = append(out.Headers, header)
	}
	return out
}

// write is the form for people.
func (c *effectsShowCommand) write(text io.Writer, e effectAt, now time.Time) error {
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, oneLine(value))
		}
	}
	line("id", e.id)
	line("status", e.Status.String())
	line("reason", e.Reason)
	line("next", e.nextText())
	line("attempts", fmt.Sprintf("%d, and %d lookups", e.Attempts, e.Lookups))
	if e.Doubt {
		line("doubt", "a call may have had its effect, and nobody knows")
	}
	line("requested", momentText(e.Timestamp)+", "+e.age(now).Round(time.Second).String()+" ago")
	line("type", e.Type)
	line("target", e.Target)
	line("business key", e.BusinessKey)
	line("idempotency key", e.IdempotencyKey)
	line("resolved by", e.ResolvedBy)
	line("note", e.ResolvedNote)
	if c.Payload {
		encoder := rowEncoder{encoding: c.Encoding}
		line("key", encoder.part(e.Key, nil).String())
		for _, h := range e.Headers {
			line("header "+h.Key, partText(encoder.recordPart(h.Value, nil)))
		}
		line("payload", partText(encoder.recordPart(e.Payload, nil)))
		line("response", partText(encoder.recordPart(e.ResponseBody, nil)))
	}
	return w.Flush()
}
