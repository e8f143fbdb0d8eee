// Package statetest is the suite that every state.Database passes, by itself and below a
// state.Task.
//
// Run checks an implementation: fixed cases for each sentence of the contract, random programs
// against a model made of plain maps, and readers beside a writer for the race detector. Check runs
// one program; it returns the first difference instead of failing a test, so that a test of the
// suite can show that broken implementations do not pass.
//
// RunStores tests the typed views as Run tests the databases below them. It runs random programs on
// one store against a model that never expires rows and only compares the visible ones. The
// programs have savepoints, rounds in flight, failing rounds, removal of expired rows, views,
// reopening, and restores from a compacted changelog. CheckStore runs one program. All kinds share
// the program, the driver and the model; each kind adds how to write and how to show its rows.
//
// A History is a sequence of rounds with the content of the stores after each of them. It answers
// the question of every crash test: is this database exactly at one of the rounds, and at the one
// that its own positions name?
//
// Properties of implementations beyond the interface (durability, damage, I/O errors) have tests
// beside the implementations.
package statetest
