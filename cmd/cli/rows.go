package cli

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/topology"
)

// The encodings of keys and values. auto shows what the store's codec makes of them where the topology is known, otherwise text where it
// is UTF-8, otherwise base64.
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
	// rows has the codecs if decodes is set.
	rows    topology.Rows
	decodes bool
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

func (e rowEncoder) keyPart(b []byte) part   { return e.part(b, e.rows.Key) }
func (e rowEncoder) valuePart(b []byte) part { return e.part(b, e.rows.Value) }

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

// rowJSON is the JSON form of a row. Its fields are for programs and stay.
type rowJSON struct {
	Key         json.RawMessage `json:"key,omitempty"`
	KeyText     *string         `json:"key_text,omitempty"`
	KeyHex      *string         `json:"key_hex,omitempty"`
	KeyBase64   *string         `json:"key_base64,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueText   *string         `json:"value_text,omitempty"`
	ValueHex    *string         `json:"value_hex,omitempty"`
	ValueBase64 *string         `json:"value_base64,omitempty"`
}

func rowOf(key, value part) rowJSON {
	return rowJSON{key.decoded, key.text, key.hex, key.base64, value.decoded, value.text, value.hex, value.base64}
}
