// Package drill captures payments: the envelope of each request is validated, and requests go through a ledger of effects
// (package processors/effect) to a gateway that loses replies, refuses, and does not honour idempotency keys, while two
// instances of the application are killed in turns.
//
// What is judged: no request is captured twice, none is lost, every request has one end, duplicates are answered,
// conflicts and what is no request are dead letters of their classes, the counts add up, and a replay of all requests
// makes no call, while its metrics say of every record what became of it.
//
// ONCEWARD_DRILL=1 takes 100,000 requests instead of a few thousand.
package drill
