package virtual

import (
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble with virtual time: see package testing/synctest. f must not call t.Run or
// t.Parallel; call them outside, and give each subtest a bubble of its own.
//
// It fails without the build tag synctests of franz-go. Its mutexes would stop virtual time for
// ever where they wait.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if !tagged {
		t.Fatal("virtual: a test on virtual time needs the build tag of franz-go: go test -tags synctests (make test sets it)")
	}
	synctest.Test(t, f)
}
