// Package codectest is the conformance suite for implementations of
// schemas.Codec: a codec that passes [Run] and [Refuses] keeps the contract in the
// documentation of package schemas, as far as tests can show it.
//
// The suite proves that errors hold no payload by putting [Canary] into payloads:
// it plants the word at every place of an encoding, and callers put it into the
// values that they pass. It is for tests only.
package codectest
