// Package statetest is the suite that every state.Database passes, by itself and below a state.Task.
//
// Run checks an implementation: fixed cases for each sentence of the contract, random programs against a
// model made of plain maps, and readers beside a writer for the race detector. Check runs one program; it
// returns the first difference instead of failing a test, so that a test of the suite can show that broken
// implementations do not pass.
//
// RunStores checks the typed views of the kinds timestamped, versioned and dedupe the same way, with what their
// changelogs have to bring back.
//
// A History is a sequence of rounds with the content of the stores after each of them. It answers the
// question of every crash test: is this database exactly at one of the rounds, and at the one that its own
// positions name?
//
// RunWindows and RunSessions do for the stores that forget by time what Run does for the databases below: random
// programs on the typed view against a model that never forgets and only looks at what can still be seen, with
// savepoints, rounds in flight, reopening, and a replay of the changelog at the end. CheckWindows and CheckSessions run
// one program.
//
// What implementations do beyond the interface (durability, damage, I/O errors) is tested beside them.
package statetest
