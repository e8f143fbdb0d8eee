package security

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a password or a token. However it is printed, logged or marshalled, it shows only
// whether it is set. The zero Secret is not set.
type Secret struct {
	// text is a pointer, because fmt prints the fields of an enclosing struct without calling their
	// methods where they are not exported: it then shows an address.
	text *string
}

// NewSecret returns a Secret with that text. An empty text is one that is not set.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// IsSet says whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// Reveal returns the text, for whoever proves its knowledge to a broker.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

const redacted = "[secret]"

// String shows whether the secret is set.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return redacted
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format writes String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // fmt reports a failing writer by itself
}

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns String. There is no UnmarshalText: a secret comes from a file or the
// environment.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
