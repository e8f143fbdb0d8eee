package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Pause returns how long to wait after the given attempt, which counts from 1: least, doubled with
// each attempt up to most. Half of it is random, so that transactions that met do not meet again.
func Pause(attempt int, least, most time.Duration) time.Duration {
	d := least
	for range attempt - 1 {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	return d/2 + rand.N(d/2+1)
}

// Wait waits, and returns false if it was told to stop.
func Wait(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}

// Owner names this process for people.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}
