package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
)

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := backoff.Backoff{Next: 100 * time.Millisecond, Max: 300 * time.Millisecond}
		for i, want := range []time.Duration{100, 200, 300, 300} {
			began := time.Now()
			if err := pause.Wait(t.Context()); err != nil || time.Since(began) != want*time.Millisecond {
				t.Errorf("pause %d took %s and returned %v, want %d ms", i, time.Since(began), err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := pause.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("a pause that its context ends took %s and returned %v", time.Since(began), err)
		}
	})
}
