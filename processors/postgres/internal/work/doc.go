// Package work runs a caller's function in a transaction, and says what an error of it means. A sink, a queue and a relay share it.
//
// # Failure
//
// [Unavailable] and [Contended] name failures of the server and of other transactions, which say nothing about the work itself. Everything else is
// classified by postgres.ClassOf. [Reason] is what may be logged and stored of an error: it never quotes a value.
package work
