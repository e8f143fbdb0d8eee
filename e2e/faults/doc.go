// Package faults judges the runtime behind a network that loses and delays single requests and replies.
//
// Every cell of the table {kind of request} x {fault} is a run of its own: an application with a store, its changelog and an output, behind a
// link that has the faults. The fault strikes once, and then for a while. At the end every input is in the output exactly once and in order,
// the store and its changelog are the fold of the input, no transaction is open and everything can be read. The kinds are those that a round,
// its resolution and a membership consist of; a test counts the cells. The rule of a fault that has matched no frame fails its test.
//
// On virtual time (package virtual) the link is a host with brokers of its own and the time-outs of production. On real Kafka it is a proxy
// (package proxy) in front of a broker that all cells share, and time-outs are short; with -short only the cells of the commit protocol and
// the late commits run there, where the coordinator decides. Nearly all of a cell's time on real Kafka is waiting for timeouts, so that more
// of them run at once than there are cores.
//
// What arrives late is also tested by itself: offset commits and commits that reach the broker when their transaction is over, or when
// their task has moved. The negative control shows, on a real broker with the older transaction protocol, the anomaly that the newer one
// and the checks are there for.
package faults
