//go:build !onceward_broken

package txn_test

const restoresAtAnyAge = false
