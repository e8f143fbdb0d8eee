package cluster

import (
	"flag"
	"strconv"
	"sync"
	"testing"
)

// Cells runs run as a subtest for each cell, named by name: at most inParallel of them at once, or as many as the flag -parallel says.
// They start in the order of the slice, so that the long ones can come first. With [testing.T.Parallel] they start in no order that is
// promised, in practice nearly the reverse one, and its bound is the number of processors: cells wait for timeouts most of the time.
//
// It returns when all of them have ended. run must not call t.Parallel.
func Cells[C any](t *testing.T, inParallel int, cells []C, name func(C) string, run func(t *testing.T, c C)) {
	t.Helper()
	flag.Visit(func(f *flag.Flag) {
		if n, err := strconv.Atoi(f.Value.String()); f.Name == "test.parallel" && err == nil {
			inParallel = n
		}
	})
	next := make(chan C)
	var workers sync.WaitGroup
	for range inParallel {
		workers.Go(func() {
			for c := range next {
				t.Run(name(c), func(t *testing.T) { run(t, c) })
			}
		})
	}
	for _, c := range cells {
		next <- c
	}
	close(next)
	workers.Wait()
}
