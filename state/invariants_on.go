//go:build invariants

package state

// invariants turns on assertions that cost more than they may in production. A broken one panics:
// the process must not go on with state that it cannot explain.
const invariants = true
