// Package proxy puts a network that fails on purpose between Kafka clients and their brokers.
//
// # What it is for
//
// A [Proxy] reads the stream as Kafka does, frame by frame, so that a test can lose, hold or delay
// exactly the request or the reply that it is about ("the reply to the third EndTxn of this
// producer"), and knows that it happened. Addresses that brokers advertise in their replies are
// rewritten, so that clients stay behind the proxy whatever they learn; each broker gets a listener
// of its own.
//
// # Contract
//
//   - [Proxy.Add] installs a [Rule]: what it matches and what becomes of the frames. The first rule
//     that matches decides, in the order in which they were added; [Pass] only counts and leaves
//     the decision to the next one. Without a rule a frame goes on.
//   - Frames keep their order on a connection. One that is held or delayed holds up what is behind
//     it in the same direction, as in TCP.
//   - What is held arrives when the rule is lifted, also if the client has hung up meanwhile: the
//     connection to the broker stays open until every request that was read is answered. That is
//     what makes a frame late instead of lost.
//   - A frame that was cut or dropped has not reached the other side, not even in part. So to cut
//     or drop a request is a failure before the broker acted, and to cut or drop its reply is one
//     after it acted.
//   - A rule that never matched makes [Proxy.Close] fail with [ErrUnmatched]: a test whose fault
//     did not happen has shown nothing.
//
// # Concurrency
//
// Methods may be called from any goroutine. There are two goroutines per connection and one per
// listener; all of them have ended when Close returns.
//
// # Failure
//
// A stream that is not Kafka's ends its connection, and Close returns why. A broker that cannot be
// reached ends the client's connection, as it would without a proxy, and is no error: tests take
// brokers down.
//
// # What it is not
//
// It listens on loopback only, speaks neither TLS nor SASL without Kafka's framing (handshake
// version 0), and has no packet loss or reordering inside a connection, which TCP would hide.
package proxy
