//go:build !invariants

package state

// invariants turns on assertions that cost more than they may in production.
const invariants = false
