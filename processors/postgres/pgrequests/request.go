package pgrequests

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The limits of what is stored. The parts of a scope fit into an index entry of PostgreSQL
// together.
const (
	nameBytesMax     = 200
	resourceBytesMax = 1024
	keyBytesMax      = 255
	// ResponseBytesMax is how long the body and the headers of a stored answer may be together.
	ResponseBytesMax = 8 << 20
)

// Scope names a request. Two requests with one scope are copies of each other, or a conflict. The
// parts are valid UTF-8 without zero bytes.
type Scope struct {
	// Tenant and Client are who asks, as the service has verified it. At most 200 bytes each; they
	// may be empty.
	Tenant string
	Client string
	// Operation is what is asked for, such as "POST /payments": 1 to 200 bytes.
	Operation string
	// Resource is what it is asked of, at most 1024 bytes. It may be empty: then a key that is used
	// for two resources is a conflict.
	Resource string
	// Key was chosen by the client: 1 to 255 bytes.
	Key string
}

// Request is what a store is told of a request.
type Request struct {
	Scope Scope
	// Hash is the SHA-256 of what is asked for, which is required: schemas.HashJSON of a JSON
	// document, or crypto/sha256 of bytes. How a service hashes is for as long as it retains rows.
	Hash [32]byte
	// External says that the work has effects that a rollback does not undo.
	External bool
}

// Response is the answer to a request.
type Response struct {
	// Status is a code of the protocol, such as 201.
	Status int
	// Header and Body may be empty, and have [ResponseBytesMax] bytes at most.
	Header map[string][]string
	Body   []byte
}

func (s *Scope) check() error {
	for _, part := range []struct {
		name, value string
		least, most int
	}{
		{"tenant", s.Tenant, 0, nameBytesMax},
		{"client", s.Client, 0, nameBytesMax},
		{"operation", s.Operation, 1, nameBytesMax},
		{"resource", s.Resource, 0, resourceBytesMax},
		{"key", s.Key, 1, keyBytesMax},
	} {
		switch {
		case len(part.value) < part.least:
			return invalid("the scope has no " + part.name)
		case len(part.value) > part.most:
			return invalid(fmt.Sprintf("the %s of the scope has %d bytes, and may have %d", part.name, len(part.value), part.most))
		case !storable(part.value):
			return invalid("the " + part.name + " of the scope is not valid UTF-8 without zero bytes")
		}
	}
	return nil
}

func (r *Request) check() error {
	if r.Hash == ([32]byte{}) {
		return invalid("the request has no hash")
	}
	return r.Scope.check()
}

func (r *Response) check() error {
	bytes := len(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			bytes += len(name) + len(v)
		}
	}
	if bytes > ResponseBytesMax {
		return invalid("the response is too long to be stored")
	}
	return nil
}

// invalid returns an error of class validation. The reason quotes nothing of a request.
func invalid(reason string) error { return topology.Fail(topology.Validation, schemas.Reason(reason)) }

// lockOf returns the key of the advisory lock of a scope. Scopes that share one are in progress for
// each other, and nothing worse.
func (s *Store) lockOf(scope Scope) int64 {
	h := sha256.New()
	for _, part := range []string{"pgrequests", s.service, scope.Tenant, scope.Client, scope.Operation, scope.Resource, scope.Key} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
