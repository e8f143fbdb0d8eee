// Package capture captures payments through a gateway that loses replies, each payment once. It is
// a service to read and to copy: an application that calls another system, with a fake of that
// system. Its tests are the drill that the application has to pass.
//
// # The application
//
//	capture-requests ── envelope ── inbox ───────── captures ───── capture ─┬─ captured, refused
//	                    validates   by message id   by capture id  calls    ├─ people ── (resolutions)
//	                                                               once     └─ held, in a replay
//
// A request is a record with a message id, a correlation id, the version of its schema and a
// capture request id. The application works in four steps.
//
//   - envelope refuses records that lack one of these.
//   - inbox drops copies of a message, whatever key and partition they have. It refuses another
//     content under the same message id.
//   - captures repartitions by capture request id, because several messages may ask for one
//     capture.
//   - capture, a ledger of effects, has the gateway called once for each capture request id. It
//     answers requests that ask again, and refuses those that ask for another amount.
//
// A refused record becomes a dead letter with its class. Every decision is recorded in a topic of
// evidence.
//
// A call without an answer is looked up at the gateway. The gateway does not always answer a
// lookup, and does not always know the outcome. Lookups are repeated, and in the end people are
// asked. They write what they find out to a topic of resolutions.
//
// # The programs
//
// [Settings.Topology] is the whole application, and [Command] runs it with all commands of
// onceward; the program is in app. [Gateway] is the fake gateway; the program is in gateway. On a
// broker with the topics capture-requests, capture-captured, capture-refused, capture-held,
// capture-people, capture-resolutions, capture-audit and capture-dead, of four partitions each,
// these commands capture a payment, explain the outcome, and rebuild the state in a replay that
// calls no gateway:
//
//	go run ./examples/capture/gateway
//	go run ./examples/capture/app run --brokers localhost:9092 --state-dir ./state --http 127.0.0.1:9090
//	echo '{"id":"c1","amount":100}' | kcat -P -b localhost:9092 -t capture-requests -k account-7 \
//		-H onceward.message-id=m1 -H onceward.correlation-id=s1 -H schema-version=1
//	go run ./examples/capture/app explain --row c1 --audit capture-audit --brokers localhost:9092
//	go run ./examples/capture/app run --brokers localhost:9092 --state-dir ./replay --application capture-replay --mode replay
//
// A replay writes what it holds back to the topics of the live application, unless CAPTURE_PREFIX
// names others. The other settings are CAPTURE_REQUESTS, CAPTURE_GATEWAY, and CAPTURE_TIMEOUT,
// which bounds a call.
//
// # The drill
//
// TestDrill takes 3,000 captures, make drill 100,000, with 20 % duplicates and 1 % conflicts. It
// has three parts.
//
//  1. Two instances process the requests and are killed in turns. The counters of a process die
//     with it, so the test judges the evidence, which has every decision once. For each message and
//     each capture the decisions are those that the generator of the requests expects: no capture
//     is made twice, none is lost, and each has one end, which is the one that the gateway knows.
//     Half of the duplicates directly follow their originals under other keys, so that both are
//     processed at the same time, in different partitions and by different instances.
//  2. One instance, which is not killed, processes a tenth more requests, and copies of old ones.
//     Its metrics are exactly what the generator and the gateway know: acceptances, duplicates,
//     conflicts, calls, lookups, and their outcomes. The gateway counts an answer that the
//     application no longer waits for, so this instance waits as long as the test does, on a slow
//     machine too. The instances that are killed give up calls sooner, because the test waits for
//     the claims that they leave behind.
//  3. A replay of all requests calls no gateway. Its metrics are exact as well. Every row of its
//     inbox and its ledger is compared with the live one and with the requests that it can come
//     from. Which of two messages about one capture came first is not compared if they are in
//     different partitions, because that order is not defined.
//
// TestControls and TestDamage are the negative controls. Applications that lack one part capture
// twice. An error in any topic, metric or row is found.
//
// # What it is not
//
// The gateway ignores idempotency keys. With a provider that honours them, fewer captures would
// need people.
package capture
