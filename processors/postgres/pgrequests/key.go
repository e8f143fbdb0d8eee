package pgrequests

import (
	"errors"
	"fmt"
	"strings"
)

// The headers.
const (
	// KeyHeader has the key of a request.
	KeyHeader = "Idempotency-Key"
	// ReplayedHeader is "true" in an answer that comes from the table.
	ReplayedHeader = "Idempotent-Replayed"
)

var (
	errKeyMissing = errors.New(`the request needs the header Idempotency-Key, such as "8e03978e-40d5-43e6-bc93-6894a57f9324" with the ` +
		`quotation marks. The key is new for each operation, and the same for each retry`)
	errKeyLines  = errors.New("the header Idempotency-Key is there more than once; send it once")
	errKeyEmpty  = errors.New("the key is empty")
	errKeySyntax = errors.New(`the header Idempotency-Key is not a string of a structured field (RFC 9651) without parameters. ` +
		`Send printable ASCII in quotation marks, with \ before \ and "`)
)

// keyOf returns the key of the field lines of a request. With unquoted it may stand without
// quotation marks.
func keyOf(lines []string, unquoted bool) (string, error) {
	switch len(lines) {
	case 0:
		return "", errKeyMissing
	case 1:
	default:
		return "", errKeyLines
	}
	line := strings.Trim(lines[0], " ")
	key, err := quoted(line)
	if err != nil && unquoted && isBare(line) {
		key, err = line, nil
	}
	switch {
	case err != nil:
	case key == "":
		err = errKeyEmpty
	case len(key) > keyBytesMax:
		err = fmt.Errorf("the key has %d characters, and may have %d", len(key), keyBytesMax)
	}
	return key, err
}

// quoted returns what a string of a structured field says.
func quoted(line string) (string, error) {
	if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
		return "", errKeySyntax
	}
	inner := line[1 : len(line)-1]
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' {
			if i++; i == len(inner) || inner[i] != '\\' && inner[i] != '"' {
				return "", errKeySyntax
			}
			c = inner[i]
		} else if c == '"' || c < ' ' || c > '~' {
			return "", errKeySyntax
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// isBare says whether a key can stand without quotation marks: what has a meaning in a structured
// field cannot.
func isBare(line string) bool {
	for i := range len(line) {
		if c := line[i]; c <= ' ' || c > '~' || strings.IndexByte(`"\,;`, c) >= 0 {
			return false
		}
	}
	return line != ""
}
