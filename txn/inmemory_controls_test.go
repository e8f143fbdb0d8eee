//go:build onceward_failpoints

package txn_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/topology"
)

// TestStoreInMemoryKilled: a process that is killed takes the memory with it, and what its disk has
// not got. It is killed while it works, and while it restores. The next one has the table and the
// store on the disk as of the last commit. The negative control keeps the position of a store in
// memory, and its rows are missing.
func TestStoreInMemoryKilled(t *testing.T) {
	for _, c := range []struct {
		at     string
		broken bool
	}{{"", false}, {"restore-batch", false}, {"restore-after", false}, {"", true}} {
		bubble(t, fmt.Sprintf("at %q, broken %t", c.at, c.broken), func(t *testing.T) {
			p := newPrices(t, kept)
			top := inMemoryTopology(t, true)
			p.feed(60, 20, 0)
			p.lives(top)
			for i := range 3 {
				p.feed(40, 20, 0)
				p.set(i)
				p.killed(top, c.at)
			}
			cfg := p.cfg
			if c.broken {
				p.cfg = p.cfg.WithFailpoints(nil, "in-memory")
				p.feed(40, 20, 0)
				got, _ := p.process(top)
				if err := p.chained(); err == nil || got == fmt.Sprint(p.want) {
					t.Errorf("a position was kept without its rows, and the table is right: %v", err)
				}
				p.cfg = cfg
				return
			}
			p.lives(top)
			p.wantFirsts(top)
		})
	}
}

// killed runs a process whose disk takes nothing any more: from when everything is committed on, or
// from a failpoint on, at which it stays.
func (p *prices) killed(top *topology.Topology, at string) {
	p.t.Helper()
	disk := disktest.New(1 << 40)
	var hits atomic.Int32
	killed := make(chan struct{})
	cfg := p.cfg.WithDisk(disk.Use).WithFailpoints(func(ctx context.Context, point string) error {
		if at == "" || point != at {
			return nil
		}
		if hits.Add(1) == 1 {
			disk.Break(filepath.Join(p.cfg.StateDir, "tasks"))
			close(killed)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	app, stop := start(p.t, top, cfg)
	if at == "" {
		waitFor(p.t, "everything to be committed", func() bool { return p.caughtUp(app) })
		disk.Break(filepath.Join(p.cfg.StateDir, "tasks"))
	} else {
		select {
		case <-killed:
		case <-time.After(patience):
			p.t.Fatalf("the process was not at %s", at)
		}
	}
	if err := stop(); err != nil {
		p.t.Log("the process that is killed says:", err)
	}
	disk.Break("")
}
