//go:build onceward_failpoints

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/txn"
)

// TestStoreLostOnRestartAborted: a round that is aborted, and one whose commit is in doubt, leave
// nothing in the store that they have not committed: it counts each record once when the round runs
// again.
func TestStoreLostOnRestartAborted(t *testing.T) {
	for _, at := range []string{"flush-before", "offsets-before", "offsets-after", "end-before", "end-after"} {
		for _, fault := range []error{txn.ErrRefused, txn.ErrInjected} {
			bubble(t, fmt.Sprintf("%s, %v", at, fault), func(t *testing.T) {
				l := newLooks(t)
				var hits, faults atomic.Int64
				l.cfg = l.cfg.WithFailpoints(func(_ context.Context, point string) error {
					if point != at || hits.Add(1)%3 != 2 || faults.Load() == 4 {
						return nil
					}
					faults.Add(1)
					return fault
				})
				top := looksTopology(t, seenStore.LostOnRestart())
				l.feed(20, 20, 0)
				l.look(20)
				l.live(top, func(*txn.App) {
					for range 10 { // in rounds of their own
						l.look(2)
						l.set(l.n)
					}
				})
				if faults.Load() == 0 {
					t.Error("nothing has failed")
				}
			})
		}
	}
}

// TestStoreLostOnRestartKilled: a process that is killed takes the memory with it, and what its
// disk has not got. It is killed behind rounds that have written to the lost store alone, and while
// it restores. The next one has the other stores as of the last commit. In the negative control
// such rounds count as rounds of the state: the state of another instance, in which nothing is
// missing, is not believed.
func TestStoreLostOnRestartKilled(t *testing.T) {
	for _, at := range []string{"", "restore-batch", "restore-after"} {
		bubble(t, fmt.Sprintf("at %q", at), func(t *testing.T) {
			l := newLooks(t)
			top := looksTopology(t, seenStore.LostOnRestart())
			l.feed(60, 20, 0)
			l.look(20)
			l.live(top)
			for i := range 3 {
				l.feed(20, 20, 0)
				l.set(i)
				l.look(20)
				l.killed(top, at)
			}
			l.look(5)
			l.live(top)
		})
	}
	for _, broken := range []bool{false, true} {
		bubble(t, fmt.Sprintf("broken %t", broken), func(t *testing.T) {
			l := newLooks(t)
			top := looksTopology(t, seenStore.LostOnRestart())
			l.feed(60, 20, 0)
			l.live(top)
			cfg := l.cfg
			l.cfg.StateDir = filepath.Join(t.TempDir(), "other")
			if broken {
				l.cfg = l.cfg.WithFailpoints(nil, "lost-on-restart")
			}
			l.look(20)
			l.live(top)
			l.cfg = cfg
			if !broken {
				l.live(top)
				return
			}
			app, err := txn.New(top, l.cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			want := "it was written by another round than the commit names"
			if err := app.Run(ctx); !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), want) {
				t.Errorf("Run returned %v, want %q", err, want)
			}
		})
	}
}
