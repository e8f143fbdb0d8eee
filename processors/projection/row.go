package projection

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/onceward/onceward/schemas"
)

// Row is the state of one key. It has a JSON form, so that schemas.JSON[Row[S]] is a codec for
// Changes.
type Row[S any] struct {
	// Version is the one that was applied last.
	Version int64 `json:"version"`
	// Incarnation is that of the record that was applied last; see [Incarnation], without which it
	// is 0.
	Incarnation int64 `json:"incarnation,omitzero"`
	// Deleted says that the aggregate was deleted by that version. Value is the zero S then, and is
	// not stored.
	Deleted bool `json:"deleted,omitzero"`
	Value   S    `json:"value"`
}

func (r Row[S]) position() position { return position{Incarnation: r.Incarnation, Version: r.Version} }

// stored is a row with the definition that wrote it. Of another definition's row nothing else is
// known.
type stored[S any] struct {
	row        Row[S]
	definition uint16
	// other says that the row was read by another definition than the one that wrote it.
	other bool
}

// MarshalJSON is for tools that show the store.
func (s stored[S]) MarshalJSON() ([]byte, error) {
	if s.other {
		return json.Marshal(struct {
			Definition uint16 `json:"definition"`
		}{s.definition})
	}
	return json.Marshal(struct {
		Definition uint16 `json:"definition,omitzero"`
		Row[S]
	}{s.definition, s.row})
}

// otherDefinition says that a row cannot be used. The numbers are the program's, and no part of a
// payload.
func otherDefinition(wrote, reads uint16) string {
	return fmt.Sprintf("the row was written by definition %d of the projection, and this is definition %d; "+
		"build the next definition beside the old one", wrote, reads)
}

// The stored form is described in the package documentation.
const (
	rowFormat           = 1
	rowHeaderBytes      = 12
	rowIncarnationBytes = 8
	rowDeleted          = 1 << 0
	rowIncarnation      = 1 << 1 // there is one, and it is not 0
)

// rowCodec writes rows of one definition. It reads the header of others too, because the handler
// has more to say about them than that they cannot be decoded, which would count as corruption.
type rowCodec[S any] struct {
	state      schemas.Codec[S]
	definition uint16
}

// Name has the version of the definition, so that a topology with a new one has another
// fingerprint.
func (c rowCodec[S]) Name() string {
	return fmt.Sprintf("projection-row-1:%d:%s", c.definition, c.state.Name())
}

func (c rowCodec[S]) Append(dst []byte, s stored[S]) ([]byte, error) {
	if s.definition != c.definition {
		return dst, c.fail(schemas.OpAppend, -1, "the row is of another definition")
	}
	var flags byte
	if s.row.Deleted {
		flags |= rowDeleted
	}
	if s.row.Incarnation != 0 {
		flags |= rowIncarnation
	}
	b := append(dst, rowFormat)
	b = binary.BigEndian.AppendUint16(b, c.definition)
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(s.row.Version))
	if s.row.Incarnation != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(s.row.Incarnation))
	}
	if s.row.Deleted {
		return b, nil
	}
	b, err := c.state.Append(b, s.row.Value)
	if err != nil {
		return dst, c.fail(schemas.OpAppend, -1, "the state: "+schemas.ReasonOf(err))
	}
	return b, nil
}

func (c rowCodec[S]) Decode(b []byte) (stored[S], error) {
	switch {
	case len(b) > 0 && b[0] != rowFormat:
		return stored[S]{}, c.fail(schemas.OpDecode, 0, "the row has a format that this build does not read")
	case len(b) < rowHeaderBytes:
		return stored[S]{}, c.fail(schemas.OpDecode, len(b), "the row is shorter than its header")
	}
	s := stored[S]{definition: binary.BigEndian.Uint16(b[1:3])}
	if s.definition != c.definition {
		s.other = true
		return s, nil
	}
	s.row.Version = int64(binary.BigEndian.Uint64(b[4:rowHeaderBytes]))
	flags, rest := b[3], b[rowHeaderBytes:]
	if flags&^(rowDeleted|rowIncarnation) != 0 {
		return stored[S]{}, c.fail(schemas.OpDecode, 3, "unknown flags")
	}
	if flags&rowIncarnation != 0 {
		if len(rest) < rowIncarnationBytes {
			return stored[S]{}, c.fail(schemas.OpDecode, len(b), "the row is shorter than its header")
		}
		s.row.Incarnation = int64(binary.BigEndian.Uint64(rest))
		if rest = rest[rowIncarnationBytes:]; s.row.Incarnation == 0 {
			return stored[S]{}, c.fail(schemas.OpDecode, rowHeaderBytes, "the incarnation is 0, which is not stored")
		}
	}
	if flags&rowDeleted != 0 {
		if len(rest) > 0 {
			return stored[S]{}, c.fail(schemas.OpDecode, len(b)-len(rest), "a deleted row has a state")
		}
		s.row.Deleted = true
		return s, nil
	}
	value, err := c.state.Decode(rest)
	if err != nil {
		return stored[S]{}, c.fail(schemas.OpDecode, len(b)-len(rest), "the state: "+schemas.ReasonOf(err))
	}
	s.row.Value = value
	return s, nil
}

func (c rowCodec[S]) fail(op string, offset int, reason string) error {
	return &schemas.Error{Codec: c.Name(), Op: op, Offset: int64(offset), Reason: reason}
}

// ownRowCodec is the codec for everybody but the projection itself: a row of another definition is
// an error, and not a row without a state.
type ownRowCodec[S any] struct{ rows rowCodec[S] }

func (c ownRowCodec[S]) Name() string { return c.rows.Name() }

func (c ownRowCodec[S]) Append(dst []byte, row Row[S]) ([]byte, error) {
	return c.rows.Append(dst, stored[S]{row: row, definition: c.rows.definition})
}

func (c ownRowCodec[S]) Decode(b []byte) (Row[S], error) {
	s, err := c.rows.Decode(b)
	if err != nil {
		return Row[S]{}, err
	}
	if s.definition != c.rows.definition {
		return Row[S]{}, c.rows.fail(schemas.OpDecode, 1, otherDefinition(s.definition, c.rows.definition))
	}
	return s.row, nil
}
