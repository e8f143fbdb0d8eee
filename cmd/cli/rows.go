package cli

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// The encodings of keys and values. auto shows what the store's codec makes of them where the
// topology is known, otherwise text where it is UTF-8, otherwise base64.
const (
	encodingAuto   = "auto"
	encodingText   = "text"
	encodingHex    = "hex"
	encodingBase64 = "base64"
)

// encodingFlags say how keys are read and rows are shown.
type encodingFlags struct {
	KeyEncoding string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_KEY_ENCODING" help:"How keys are given: as the store's codec reads them where the pipeline is named, otherwise as text; or text, hex or base64."`
	Encoding    string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How rows are shown: as the store's codecs read them where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
}

// rowEncoder shows the rows of one store.
type rowEncoder struct {
	encoding string
	layout   state.Layout
	// rows has the codecs if decodes is set.
	rows    graph.Rows
	decodes bool
	// only are the keys to show, as the store's codec has made them; nil is all.
	only *state.Range
}

// key returns the bytes of a key that was given on the command line.
func (e rowEncoder) key(flag, encoding, text string) ([]byte, error) {
	var b []byte
	var err error
	switch {
	case encoding == encodingHex:
		b, err = hex.DecodeString(text)
	case encoding == encodingBase64:
		b, err = base64.StdEncoding.DecodeString(text)
	case encoding == encodingAuto && e.decodes:
		b, err = e.rows.ParseKey(text)
	default:
		b = []byte(text)
	}
	if err != nil {
		return nil, usage("%s: %w; --key-encoding says how keys are given", flag, err)
	}
	return b, nil
}

// part is the JSON form of a key or a value: one of its fields is set, whose name says what it is.
type part struct {
	decoded json.RawMessage
	text    *string
	hex     *string
	base64  *string
}

// single reports whether a key has one row at most, which is found by the key alone.
func (e rowEncoder) single() bool {
	return e.layout.Kind == state.KeyValueKind || e.layout.Kind == state.TimestampedKind
}

// shows reports whether a row is among those to show. One that cannot be taken apart is: somebody
// should see it.
func (e rowEncoder) shows(row state.Entry) bool {
	if e.only == nil {
		return true
	}
	p, err := e.layout.Parts(row.Key, row.Value)
	return err != nil || e.only.Contains(p.Key)
}

// toRead returns how many rows have to be read to show so many; 0 is all.
func (e rowEncoder) toRead(shown int64) int64 {
	if e.only != nil {
		return 0 // those that are not shown are not known before
	}
	return shown
}

// shownRow is a row as it is shown.
type shownRow struct {
	key, value part
	// deleted says that it is a version that has no value.
	deleted bool
	// inKey are the times in the row's key, inValue the one in its value.
	inKey, inValue []shownTime
}

// shownTime is a time under the name of its field in JSON.
type shownTime struct {
	name string
	ms   int64
}

// row takes a row apart. One that its layout cannot have is shown as it is.
func (e rowEncoder) row(key, value []byte) shownRow {
	p, err := e.layout.Parts(key, value)
	if err != nil {
		e.decodes = false
		return shownRow{key: e.part(key, nil), value: e.part(value, nil)}
	}
	r := shownRow{key: e.keyPart(p.Key), deleted: p.Value == nil}
	if !r.deleted {
		r.value = e.part(p.Value, e.rows.Value)
	}
	start := "window_start"
	if p.End != state.NoTime {
		start = "session_start"
	}
	for _, t := range []shownTime{{start, p.Start}, {"session_end", p.End}, {"valid_from", p.ValidFrom}} {
		if t.ms != state.NoTime {
			r.inKey = append(r.inKey, t)
		}
	}
	if p.Time != state.NoTime {
		r.inValue = []shownTime{{"timestamp", p.Time}}
	}
	return r
}

// keyPart shows a key as the store's codec has made it.
func (e rowEncoder) keyPart(b []byte) part { return e.part(b, e.rows.Key) }

// part encodes bytes. What the codec cannot read is shown as it is.
func (e rowEncoder) part(b []byte, decode func([]byte) (any, error)) part {
	if e.encoding == encodingAuto && e.decodes {
		if v, err := decode(b); err == nil {
			if text, err := marshal(v); err == nil {
				return part{decoded: text}
			}
		}
	}
	switch {
	case e.encoding == encodingHex:
		text := hex.EncodeToString(b)
		return part{hex: &text}
	case e.encoding == encodingBase64, !utf8.Valid(b), e.encoding == encodingAuto && !printable(string(b)):
		text := base64.StdEncoding.EncodeToString(b)
		return part{base64: &text}
	}
	text := string(b)
	return part{text: &text}
}

func marshal(v any) (json.RawMessage, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSuffix(out.String(), "\n")), nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// String is the form for people: a text stands for itself, everything else says what it is.
func (p part) String() string {
	var text string
	switch {
	case p.hex != nil:
		return "hex:" + *p.hex
	case p.base64 != nil:
		return "base64:" + *p.base64
	case p.text != nil:
		text = *p.text
	case json.Unmarshal(p.decoded, &text) != nil:
		return string(p.decoded)
	}
	if text == "" || !printable(text) {
		return fmt.Sprintf("%q", text)
	}
	return text
}

// keyText and valueText are the forms for people: key and value, and what times go along with them.
func (r shownRow) keyText() string { return r.key.String() + timesText(r.inKey) }

func (r shownRow) valueText() string {
	if r.deleted {
		return "deleted" + timesText(r.inValue)
	}
	return r.value.String() + timesText(r.inValue)
}

func timesText(times []shownTime) string {
	text := ""
	for _, t := range times {
		text += " " + t.name + "=" + momentText(t.ms)
	}
	return text
}

// momentText is a time in milliseconds since the epoch, for people.
func momentText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// rowJSON is the JSON form of a row. Its fields are for programs and stay. Times are in
// milliseconds since the epoch; those that the kind of the store does not have are left out.
type rowJSON struct {
	Key         json.RawMessage `json:"key,omitempty"`
	KeyText     *string         `json:"key_text,omitempty"`
	KeyHex      *string         `json:"key_hex,omitempty"`
	KeyBase64   *string         `json:"key_base64,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueText   *string         `json:"value_text,omitempty"`
	ValueHex    *string         `json:"value_hex,omitempty"`
	ValueBase64 *string         `json:"value_base64,omitempty"`

	WindowStart  *int64 `json:"window_start,omitempty"`
	SessionStart *int64 `json:"session_start,omitempty"`
	SessionEnd   *int64 `json:"session_end,omitempty"`
	ValidFrom    *int64 `json:"valid_from,omitempty"`
	Timestamp    *int64 `json:"timestamp,omitempty"`
	// Deleted is set for a version that says that the key has no value from then on.
	Deleted bool `json:"deleted,omitempty"`
}

// keyJSON is the part of a row that is its key, without times.
func keyJSON(key part) rowJSON {
	return rowJSON{Key: key.decoded, KeyText: key.text, KeyHex: key.hex, KeyBase64: key.base64}
}

// valueJSON is the part of a row that is its value, with its time.
func (r shownRow) valueJSON() rowJSON {
	v := r.value
	out := rowJSON{Value: v.decoded, ValueText: v.text, ValueHex: v.hex, ValueBase64: v.base64, Deleted: r.deleted}
	out.setTimes(r.inValue)
	return out
}

// json is the whole row.
func (r shownRow) json() rowJSON {
	out := r.valueJSON()
	out.Key, out.KeyText, out.KeyHex, out.KeyBase64 = r.key.decoded, r.key.text, r.key.hex, r.key.base64
	out.setTimes(r.inKey)
	return out
}

func (r *rowJSON) setTimes(times []shownTime) {
	for _, t := range times {
		switch t.name {
		case "window_start":
			r.WindowStart = &t.ms
		case "session_start":
			r.SessionStart = &t.ms
		case "session_end":
			r.SessionEnd = &t.ms
		case "valid_from":
			r.ValidFrom = &t.ms
		case "timestamp":
			r.Timestamp = &t.ms
		}
	}
}
