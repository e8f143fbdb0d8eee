// Package identity has the rules about ids, keys and nulls that all processors share, so that an id
// which one of them refuses is not an id to another.
//
// It holds no state, and everything in it is safe for concurrent use.
package identity

import (
	"errors"
	"unicode/utf8"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// IDBytesMax is the length of the longest id. An id is a key of a store for ever, and part of a
// changelog record; without a limit a producer could make one record too large for the changelog.
const IDBytesMax = 1024

// The reasons for which a record has no usable identity. They quote nothing of it.
const (
	errMissing = schemas.Reason("the id is missing")
	errTooLong = schemas.Reason("the id has more than 1024 bytes")
	errUTF8    = schemas.Reason("the id is not valid UTF-8")
	errNullKey = schemas.Reason("the key is null, and the state is kept by key")
)

// CheckID returns a Validation failure if id cannot be one.
func CheckID(id string) error {
	switch {
	case id == "":
		return topology.Fail(topology.Validation, errMissing)
	case len(id) > IDBytesMax:
		return topology.Fail(topology.Validation, errTooLong)
	case !utf8.ValidString(id):
		return topology.Fail(topology.Validation, errUTF8)
	}
	return nil
}

// NullKey returns the Validation failure of a record without a key.
func NullKey() error { return topology.Fail(topology.Validation, errNullKey) }

// Refused returns the error of a user function that reads a fact off a record: an id, a version, a
// contribution. It is of class Validation unless the function has given it a class of its own.
func Refused(err error) error {
	// ClassOf answers Poison both for Poison and for no class. But of several classes it takes the
	// first, so one that is put behind err counts only if err has none.
	class := topology.ClassOf(errors.Join(err, topology.Fail(topology.Validation, err)))
	return topology.Fail(class, err)
}
