// Package statetest is the suite that every state.Database passes, by itself and below a
// state.Task.
//
// Run checks an implementation: fixed cases for each sentence of the contract, random programs
// against a model made of plain maps, and readers beside a writer for the race detector. Check runs
// one program; it returns the first difference instead of failing a test, so that a test of the
// suite can show that broken implementations do not pass.
//
// RunStores does for the typed views over them what Run does for the databases below: random
// programs on one store against a model that never forgets and only looks at what can still be
// seen, with savepoints, rounds in flight, rounds that fail, forgetting, views, reopening, and
// restores from what compaction leaves of the changelog. CheckStore runs one program. All kinds
// share the program, the driver and the model; what is theirs is how they write and what they show.
//
// A History is a sequence of rounds with the content of the stores after each of them. It answers
// the question of every crash test: is this database exactly at one of the rounds, and at the one
// that its own positions name?
//
// What implementations do beyond the interface (durability, damage, I/O errors) is tested beside
// them.
package statetest
