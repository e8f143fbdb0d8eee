package pgtest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/e2e/cluster"
)

// MainWithBrokers is [Main] for a package whose tests also have what package cluster starts.
func MainWithBrokers(m *testing.M) { os.Exit(Run(brokers{m})) }

// brokers runs tests with what cluster needs for its own.
type brokers struct{ m *testing.M }

func (b brokers) Run() int {
	return cluster.Run(b.m, goleak.IgnoreAnyFunction("github.com/onceward/onceward/e2e/cluster.Launch.func1")) // the database server, which Run ends
}

// Named changes a pool so that its sessions have the application name, by which
// [Database.Terminate] finds them.
func Named(application string) func(c *pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = application }
}

// Start calls run on a goroutine of its own, until stop is called or the test ends. An error of run
// fails the test. stop may be called again, by the goroutine of the test.
func Start(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var over bool
	stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// Both calls f twice at the same time, and returns when both calls have. Each call has to call
// meet, which waits for the other one.
func Both(f func(meet func())) {
	var wg, met sync.WaitGroup
	met.Add(2)
	for range 2 {
		wg.Go(func() { f(func() { met.Done(); met.Wait() }) })
	}
	wg.Wait()
}
