// Package work runs a caller's function in a transaction, and says what an error of it means. The
// sink, the queue, the relay and the handler of requests share it.
//
// # Failure
//
// [Unavailable] and [Contended] name failures of the server and of other transactions, which say
// nothing about the work itself. Everything else is classified by postgres.ClassOf. [Reason] is
// what may be logged and stored of an error: it never quotes a value.
package work
