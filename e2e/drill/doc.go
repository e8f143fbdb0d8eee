// Package drill captures payments, each once, through a gateway that loses replies: an application that calls another system, to be read
// and copied, and the drill that it has to stand.
//
// # The application
//
//	capture-requests ── envelope ── inbox ───────── captures ───── capture ─┬─ captured, refused
//	                    validates   by message id   by capture id  calls    ├─ people ── (resolutions)
//	                                                               once     └─ held, in a replay
//
// Every request is validated: it has a message id, a correlation id, the version of its schema and a capture request id. The inbox drops
// the copies of a message, under whatever key and in whatever partition they come, and refuses another content under the same message id.
// What is left comes together by capture request id, because others may ask for the same capture in messages of their own. The ledger
// of effects has the gateway called once for each, answers those who ask again, and refuses who asks for another amount. What was refused
// is a dead letter with its class; every decision is in a topic of evidence.
//
// A call that was not answered is looked up. The gateway does not always answer that either, and does not always know: then it is asked
// again, and at last people are, who say what they have found out in a topic of resolutions.
//
// [Settings.Topology] is all of it; app is the program, with all commands of onceward. [Gateway] is the fake gateway, and gateway the
// same as a program. With topics of four partitions capture-requests, capture-captured, capture-refused, capture-held, capture-people,
// capture-resolutions, capture-audit and capture-dead on a broker
//
//	go run ./e2e/drill/gateway
//	go run ./e2e/drill/app run --brokers localhost:9092 --state-dir ./state --http 127.0.0.1:9090
//	echo '{"id":"c1","amount":100}' | kcat -P -b localhost:9092 -t capture-requests -k account-7 \
//		-H onceward.message-id=m1 -H onceward.correlation-id=s1 -H schema-version=1
//	go run ./e2e/drill/app explain --row c1 --audit capture-audit --brokers localhost:9092
//	go run ./e2e/drill/app run --brokers localhost:9092 --state-dir ./replay --application drill-replay --mode replay
//
// captures a payment, tells why, and builds the state anew without calling anybody. A replay into the same topics tells there what it holds
// back; DRILL_PREFIX gives it topics of its own. DRILL_REQUESTS, DRILL_GATEWAY and DRILL_TIMEOUT, how long a call may take, are the other
// settings.
//
// # The drill
//
// TestDrill takes 3,000 captures with 20 % duplicates and 1 % conflicts, and make drill 100,000. It has three parts.
//
//  1. Two instances work on them and are killed in turns. The counters of a process die with it, so what is judged is the evidence, in
//     which every decision is once: for each message and each capture by itself, what was decided is what the generator knows. No
//     capture is made twice, none is lost, each has one end, and that is the one that the gateway knows. Half of the duplicates come
//     right behind their originals, under keys of their own, so that both are on their way at the same time, in different partitions
//     and at different instances.
//  2. A life that nobody ends before its time takes a tenth more, and copies. Its metrics count exactly what the generator and the gateway
//     know of it: acceptances, duplicates, conflicts, calls, lookups, and what came of them. What the gateway has answered is what the
//     application knows only if it waits for the answer, so this life waits as long as the drill does: on a slow machine too the two
//     are the same. The lives that are killed give calls up sooner, because what they leave behind is waited for.
//  3. A replay of everything calls nobody. Its metrics are exact as well, and every row of its inbox and its ledger is compared with
//     the live one and with the requests that it can come from. Which of two messages about one capture was first is not compared where
//     they have come in different partitions, because nobody knows.
//
// TestControls and TestDamage are the negative controls: applications without one of their parts capture twice, and whatever is wrong
// with what was told, counted or kept is found.
//
// # What it is not
//
// The gateway honours no idempotency keys and has no memory but its own: with a provider that does, less would go to people.
package drill
