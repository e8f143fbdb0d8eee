// Package assign says which tasks the process owns, and under which epoch. It does no I/O.
//
// A task is open only while all of its input partitions are assigned: the partitions of one number of a subtopology's source topics.
// Its ownership epoch is the member id under which it was opened and a counter that every revoke and every loss raises. Whoever wants
// to commit presents the epochs of the round's tasks as [Claim]s; [Ownership.Check] compares them and reads the membership under one
// lock, directly before the request is sent. A round that holds a task which was given up can only abort.
//
// The lock is never held over I/O or a wait.
package assign
