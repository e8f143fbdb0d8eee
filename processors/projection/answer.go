package projection

import (
	"encoding/binary"
	"strconv"

	"github.com/onceward/onceward/processors/internal/pairkey"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const (
	errAction         = schemas.Reason("the action of the command is neither verify nor switch")
	errSameDefinition = schemas.Reason("the command is about one definition alone")
	errNoDefinition   = schemas.Reason("the command is about a definition that is not declared")
	errOtherCommand   = schemas.Reason("the id of the command was seen before with another command")
)

// Action is what a command asks for. The actions have a form in JSON, which is their text.
type Action string

// The actions.
const (
	// Verify compares the rows of two definitions, and changes nothing.
	Verify Action = "verify"
	// Switch makes another definition the active one, if it holds up to the comparison.
	Switch Action = "switch"
)

// Command is what an operator asks of a choice. It has a JSON form, so that schemas.JSON[Command]
// is a codec for commands.
type Command struct {
	// ID names the command: one that comes again is not obeyed again.
	ID     string `json:"id"`
	Action Action `json:"action"`
	// From is the definition that has to be the active one, To that which is compared with it, and
	// is to follow it. To roll back is to switch the other way.
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
	// Force switches although rows are missing, behind or contrary.
	Force bool `json:"force,omitzero"`
}

// Comparison counts keys by what To is there, compared with From.
type Comparison struct {
	// Keys have a row in one of the two at least.
	Keys int64 `json:"keys"`
	// Missing have a row in From alone.
	Missing int64 `json:"missing"`
	// Behind have a row in To that has not applied what that in From has.
	Behind int64 `json:"behind"`
	// Contrary are deleted in one of them, and at the same position are not in the other.
	Contrary int64 `json:"contrary"`
	// Extra have a row in To alone.
	Extra int64 `json:"extra"`
	// Different have another row in To than in From, or have one in To alone: those that a switch
	// passes on.
	Different int64 `json:"different"`
}

// Answered is what has become of a command.
type Answered uint8

// The outcomes of commands.
const (
	// Switched: To is the active definition now.
	Switched Answered = iota + 1
	// Verified: To could follow From.
	Verified
	// Refused: it could not, or From is not the active definition.
	Refused
	// Repeated: the command was decided before, and nothing has changed.
	Repeated
)

var answeredTexts = [...]string{
	Switched: "switched", Verified: "verified", Refused: "refused", Repeated: "repeated",
}

// String returns the outcome in lower case, as it is counted: switched, verified, refused or
// repeated.
func (a Answered) String() string {
	if a < Switched || a > Repeated {
		return "answered(" + strconv.Itoa(int(a)) + ")"
	}
	return answeredTexts[a]
}

// MarshalText returns the text of String, so that JSON has words. Other values than the constants
// are errors.
func (a Answered) MarshalText() ([]byte, error) {
	if a < Switched || a > Repeated {
		return nil, schemas.Reason("unknown outcome of a command")
	}
	return []byte(answeredTexts[a]), nil
}

// UnmarshalText reads what MarshalText writes.
func (a *Answered) UnmarshalText(text []byte) error {
	for known := Switched; known <= Repeated; known++ {
		if answeredTexts[known] == string(text) {
			*a = known
			return nil
		}
	}
	return schemas.Reason("unknown outcome of a command; there are switched, verified, refused and repeated")
}

// Answer is what has become of a command in one partition. It has a JSON form, so that
// schemas.JSON[Answer] is a codec for Answers.
type Answer struct {
	Command Command  `json:"command"`
	Outcome Answered `json:"outcome"`
	// Reason is one sentence of this package.
	Reason string `json:"reason"`
	// Active is the active definition after the command.
	Active     uint16     `json:"active"`
	Comparison Comparison `json:"comparison"`
	// Timestamp is that of the command, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
}

// settle fills in what follows from the command, the active definition and the comparison.
func (a *Answer) settle() {
	c := a.Comparison
	faults := c.Missing > 0 || c.Behind > 0 || c.Contrary > 0
	switch {
	case a.Command.From != a.Active:
		a.Outcome, a.Reason = Refused, "another definition is the active one"
	case faults && (a.Command.Action == Verify || !a.Command.Force):
		a.Outcome, a.Reason = Refused, "rows are missing, behind or contrary"
	case a.Command.Action == Verify:
		a.Outcome, a.Reason = Verified, "the definition could follow"
	case faults:
		a.Outcome, a.Reason = Switched, "forced, although rows are missing, behind or contrary"
		a.Active = a.Command.To
	default:
		a.Outcome, a.Reason = Switched, "the definition holds up to the comparison"
		a.Active = a.Command.To
	}
}

// choiceStores are the stores of a choice.
type choiceStores[K, S any] struct {
	rows    topology.Store[state.KeyValue[definedKey[K], stored[S]]]
	answers topology.Store[state.KeyValue[string, Answer]]
	current topology.Store[state.KeyValue[string, int64]]
}

func choiceStoresOf[K, S any](name string, keys schemas.Codec[K], codec schemas.Codec[S]) choiceStores[K, S] {
	var at schemas.Codec[definedKey[K]]
	if keys != nil {
		at = definedKeyCodec[K]{keys}
	}
	var rows schemas.Codec[stored[S]]
	if codec != nil {
		rows = rowCodec[S]{state: codec} // the definition is in the key
	}
	return choiceStores[K, S]{
		rows:    topology.KeyValueStore(name+"-rows", at, rows),
		answers: topology.KeyValueStore(name+"-answers", schemas.String(), schemas.Codec[Answer](answerCodec{})),
		current: topology.KeyValueStore(name+"-active", schemas.String(), schemas.Int64()),
	}
}

func (s choiceStores[K, S]) in(t *topology.Setup, definitions []uint16) choiceState[K, S] {
	return choiceState[K, S]{
		definitions: definitions, rows: s.rows.In(t), answers: s.answers.In(t), current: s.current.In(t),
	}
}

// current is the key of the active definition in its store.
const current = "active"

// definedKey is the key of a row of one definition.
type definedKey[K any] struct {
	Key        K      `json:"key"`
	Definition uint16 `json:"definition"`
}

const definitionBytes = 2

type definedKeyCodec[K any] struct{ key schemas.Codec[K] }

func (c definedKeyCodec[K]) Name() string { return "projection-defined-key-1:" + c.key.Name() }

func (c definedKeyCodec[K]) Append(dst []byte, k definedKey[K]) ([]byte, error) {
	b, err := c.key.Append(dst, k.Key)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the key: "+schemas.ReasonOf(err))
	}
	return binary.BigEndian.AppendUint16(pairkey.Seal(b, len(dst)), k.Definition), nil
}

func (c definedKeyCodec[K]) Decode(b []byte) (definedKey[K], error) {
	key, definition, ok := pairkey.Split(b)
	if !ok || len(definition) != definitionBytes {
		return definedKey[K]{}, codecError(c.Name(), schemas.OpDecode, len(b), "the key is not that of a row")
	}
	k, err := c.key.Decode(key)
	if err != nil {
		return definedKey[K]{}, codecError(c.Name(), schemas.OpDecode, 0, "the key: "+schemas.ReasonOf(err))
	}
	return definedKey[K]{Key: k, Definition: binary.BigEndian.Uint16(definition)}, nil
}

// answerCodec writes a byte for the format, and JSON.
type answerCodec struct{}

const answerFormat = 1

func (answerCodec) Name() string { return "projection-answer-1" }

func (c answerCodec) Append(dst []byte, d Answer) ([]byte, error) {
	b, err := schemas.JSON[Answer]().Append(append(dst, answerFormat), d)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, schemas.ReasonOf(err))
	}
	return b, nil
}

func (c answerCodec) Decode(b []byte) (Answer, error) {
	if len(b) == 0 || b[0] != answerFormat {
		return Answer{}, codecError(c.Name(), schemas.OpDecode, 0, "the answer has a format that this build does not read")
	}
	d, err := schemas.JSON[Answer]().Decode(b[1:])
	if err != nil {
		return Answer{}, codecError(c.Name(), schemas.OpDecode, 1, schemas.ReasonOf(err))
	}
	return d, nil
}
