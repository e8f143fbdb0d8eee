// Package schemas turns record keys and values into Go values and back.
//
// A [Codec] is one format of one Go type. Topics and stores name the codecs of
// their keys and values once, as typed values, so that a wrong type does not
// compile. This package has the codecs that need nothing but the standard
// library: [String], [Bytes], [Int32], [Int64] (Kafka's own layouts) and
// [JSON]. [StringView] and [BytesView] lend what they read instead of copying it. Formats with dependencies live in packages of their own, so that only
// programs that use them pay for them: see schemas/avro.
//
// The package also has the canonical form of JSON documents ([CanonicalJSON],
// [HashJSON]) by which payloads are compared: two spellings of one document have
// one hash.
//
// # Contract
//
// Every codec here keeps these rules, and the suite in schemas/codectest checks
// them for any other:
//
//   - Decode(Append(nil, v)) returns v, or Append refuses v. The documentation of a codec names the
//     parts that it leaves out.
//   - Append is deterministic: equal values give equal bytes, in every process.
//     State is verified against its changelog byte by byte, and replays are
//     expected to converge; a codec with a random order would break both.
//   - Decode keeps no reference to its input, and Append keeps none to its
//     arguments. Callers reuse buffers.
//     A [Lender] has a second way to read, whose values are views.
//   - Decode takes any bytes whatever. Hostile input ends in an error, never in
//     a panic, and its cost is bounded by the size of the input and the limits
//     that the codec documents.
//
// A nil record value is a tombstone, which is the absence of a value. It means
// something to the caller only, who looks at it before Decode is called; codecs
// do not tell nil from empty.
//
// # Errors
//
// All codecs fail with [*Error]: which codec, which operation, at which byte, and
// why. No error text, and no error that unwrapping reaches, holds a byte of the
// payload: errors go to logs, headers and consoles, where record contents must not
// go. That is why the errors of encoding/json and of user code are translated and
// not wrapped; they quote what they could not read. [Reason] lets user code
// say why it refused a value.
//
// # Concurrency
//
// Codecs are immutable and safe for concurrent use. There are no goroutines.
//
// # What it is not
//
// The package knows no topics, no schema registry and no evolution of schemas:
// a codec reads what it wrote.
package schemas
