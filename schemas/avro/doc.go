// Package avro has the codecs of Avro records. It is apart from package schemas so
// that only programs that use Avro depend on an Avro library.
//
// # Format
//
// A value is written in Avro's single-object encoding: the bytes C3 01, the
// CRC-64-AVRO fingerprint of the schema in little-endian order, and the binary
// form of one record. So every value names the schema that wrote it, in topics
// and, what matters more, in state that outlives a deployment. Values framed for a
// schema registry (a zero byte and a four-byte id) are another format and are
// refused with a reason that says so.
//
// # Contract
//
// The contract of schemas.Codec holds, in particular:
//
//   - Append is deterministic. Avro leaves the order of map entries open and the
//     library below writes them in Go's random order; they are put in the order of
//     their keys.
//   - Append refuses what Decode would: each encoding is checked before it leaves.
//   - Decode checks the whole layout of a value against the schema before it
//     builds anything. Counts and lengths are believed only as far as there are
//     bytes, and [MaxBytes], [MaxDepth] and [MaxValues] bound the rest. An
//     array header that promises two billion items or a list nested a million
//     times costs nothing and ends in an error.
//
// # The library below
//
// Values are built and taken apart by github.com/linkedin/goavro/v2. Three things
// are done here instead, for reasons that were measured or read in its code:
//
//   - The schema's Parsing Canonical Form and fingerprint. For a recursive type in a namespace, the
//     fingerprint of goavro depends on the iteration order of a Go map and changes from process to
//     process. For logical types and nested namespaces it differs from that of other
//     implementations.
//   - The check of the layout. goavro allocates by block counts in the input, up to 32 GiB, which
//     kills the process. It recurses as deep as the input says, with an error text that grows at
//     every level: it takes minutes to refuse a megabyte of nested unions.
//   - Errors. goavro's quote the values they are about.
//
// # What it is not
//
// There is no resolution between the writer's schema and another reader's: a value
// of another fingerprint is a [*FingerprintError]. There is no mapping of structs by
// reflection: the two conversion functions of [New] are written by hand, with
// [Field], [OptionalField], [Optional] and [Union] to help.
//
// Codecs are immutable and safe for concurrent use.
package avro
