package graph

import (
	"fmt"

	"github.com/onceward/onceward/state"
)

// Rows turns the keys and values of a store or a topic into bytes and back, for tools that know it
// by its name only. In a key-value store these are the rows. Rows of every other kind have times
// beside them, and are taken apart by [state.Layout.Parts]. It is immutable and safe for concurrent
// use. The zero Rows has no codecs, and must not be used.
type Rows struct{ Keys, Values RowCodec }

// RowCodec is the codec of keys or values, without its Go type.
type RowCodec struct {
	// Parse returns the bytes for a text. Its error does not contain the text.
	Parse func(text string) ([]byte, error)
	// Decode returns a value that has a JSON form.
	Decode func(b []byte) (any, error)
	// Format is the name of the codec, and Type that of the Go type.
	Format, Type string
}

// ParseKey returns the bytes of a key that a user typed: the text itself where the Go type is a
// string or []byte, and otherwise its JSON form. The error does not contain the text.
func (r Rows) ParseKey(text string) ([]byte, error) {
	b, err := r.Keys.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the key is no %s (%s): %w", r.Keys.Type, r.Keys.Format, err)
	}
	return b, nil
}

// ParseValue returns the bytes of a value that a user typed, as ParseKey does for a key.
func (r Rows) ParseValue(text string) ([]byte, error) {
	b, err := r.Values.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the value is no %s (%s): %w", r.Values.Type, r.Values.Format, err)
	}
	return b, nil
}

// Key decodes a key. The result has a JSON form.
func (r Rows) Key(b []byte) (any, error) { return r.Keys.Decode(b) }

// Value decodes a value. The result has a JSON form.
func (r Rows) Value(b []byte) (any, error) { return r.Values.Decode(b) }

// SourceRows makes the rows of a table from the records of its topic. It is immutable and safe for
// concurrent use.
type SourceRows struct {
	reader  func() RowReader
	written func(key []byte) bool
}

// NewSourceRows returns SourceRows that call reader for each Reader, and written for Written.
func NewSourceRows(reader func() RowReader, written func(key []byte) bool) *SourceRows {
	return &SourceRows{reader: reader, written: written}
}

// Reader returns a reader for one goroutine.
func (r *SourceRows) Reader() RowReader { return r.reader() }

// Written reports whether the key of a record has the bytes that its codec writes for it. A codec
// that reads several forms of one key makes one row of records that compaction keeps apart. It is
// true for a key that makes no row, because it is null or cannot be decoded.
func (r *SourceRows) Written(key []byte) bool { return r.written(key) }

// RowReader returns the write to the store that processing a record makes. Key and value are nil
// where the log has null. The timestamp is in milliseconds since the epoch.
//
// ok is false for a record that does not change the table: one without a key, without a valid
// timestamp, or that its codecs refuse. The Key of the write is then that of the row that stays, or
// nil if no record with that key has a row. The write has no Store, and its Key is valid until
// the next call. At an error, processing would have stopped.
type RowReader func(key, value []byte, timestamp int64) (w state.Write, ok bool, err error)
