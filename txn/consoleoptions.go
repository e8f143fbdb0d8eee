package txn

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/txn/internal/console"
)

// Console is what the console of an application shows and does beside its defaults. The zero value
// shows no dead letters and no content of records, and changes nothing.
type Console struct {
	// DeadLetters gives the console access to the dead-letter topic of the topology. Make it with
	// ConsoleLetters of package txn/admin. With nil there is no list of dead letters. Every client of
	// the console can have a list read, also at an exposed HTTP address.
	DeadLetters DeadLetters
	// Contents shows keys and values of dead letters, in the form of the codecs of their topics, and
	// the rows of all stores under a key. Rows of other instances are read over the connections of
	// peers ([Query]).
	Contents bool
	// Actions allows to redrive dead letters, and needs DeadLetters. Every client of the console can
	// do so. Requests from pages of other sites are refused, and each action is logged.
	//
	// Contents and Actions are refused together with an HTTP address that other machines reach. With
	// them, a server of the program that serves [App.Handler] has to check who asks. It has to check the
	// Host header at least, because any web site can have a name that resolves to the server's address.
	Actions bool
}

// DeadLetters reads and redrives dead letters. Package txn/admin implements it.
type DeadLetters interface{ console.Letters }

// contentMax is how much of a key or a value is shown.
const contentMax = 4 << 10

// content returns a record of a topic in words.
func (a *App) content(topic string, key, value []byte) console.Content {
	rows, known := a.topology.Records(topic)
	if !known {
		return console.Content{Key: contentText(key, nil), Value: contentText(value, nil)}
	}
	return console.Content{Key: contentText(key, rows.Key), Value: contentText(value, rows.Value)}
}

// contentText returns bytes as their codec reads them, else as text, or as base64 where they are
// none.
func contentText(b []byte, decode func([]byte) (any, error)) (text string) {
	if b == nil {
		return "null"
	}
	switch decoded, ok := decodedText(b, decode); {
	case ok:
		text = decoded
	case utf8.Valid(b):
		text = string(b)
	default:
		text = "base64 " + base64.StdEncoding.EncodeToString(b)
	}
	if len(text) > contentMax {
		text = strings.ToValidUTF8(text[:contentMax], "") + " …"
	}
	return text
}

// decodedText returns the JSON form that a codec makes.
func decodedText(b []byte, decode func([]byte) (any, error)) (string, bool) {
	if decode == nil {
		return "", false
	}
	v, err := decode(b)
	if err != nil {
		return "", false
	}
	if text, is := v.(string); is {
		return text, true
	}
	text, err := json.Marshal(v)
	return string(text), err == nil
}
