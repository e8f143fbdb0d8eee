// Package faults judges the runtime behind a network that loses and delays single requests and replies.
//
// Every cell of the table {kind of request} x {fault} is a run of its own: an application with a store, its changelog and an output,
// behind a proxy of its own, in front of a broker that all cells share. The fault strikes once, and then for a while. At the end every
// input is in the output exactly once and in order, the store and its changelog are the fold of the input, no transaction is open and
// everything can be read. The kinds are those that a round, its resolution and a membership consist of; a test counts the cells.
//
// What arrives late is also tested by itself: offset commits and commits that reach the broker when their transaction is over, or when
// their task has moved. The negative control shows, on a broker with the older transaction protocol, the anomaly that the newer one
// and the checks are there for.
//
// Nearly all of a cell's time is waiting for timeouts, so that more of them run at once than there are cores.
package faults
