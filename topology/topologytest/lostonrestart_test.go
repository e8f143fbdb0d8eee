package topologytest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestLostOnRestart: a restart and a crash leave a store without a changelog empty, and its stream
// time begins again. An abort leaves what was committed. A store with a changelog keeps all.
func TestLostOnRestart(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(d *topologytest.Driver) error
		want string
	}{
		// The first digit counts in the lost store, the second in the other. The last one says
		// whether an old row is stored.
		"restart": {(*topologytest.Driver).Restart, "[111 220 131 241]"},
		"crash":   {(*topologytest.Driver).Crash, "[111 220 131 241]"},
		"abort":   {(*topologytest.Driver).Abort, "[111 220 330 440]"},
	} {
		t.Run(name, func(t *testing.T) {
			lost := topology.KeyValueStore("lost", schemas.String(), schemas.Int64()).LostOnRestart()
			kept := topology.KeyValueStore("kept", schemas.String(), schemas.Int64())
			times := topology.WindowStore("times", schemas.String(), schemas.Int64(), time.Minute).LostOnRestart()
			b := topology.NewBuilder("losing")
			n := topology.Stateful(topology.From(b, orders), "count", lost, kept, times)
			out := topology.Outlet[string, int64](n, "totals")
			n.Process(func(t *topology.Setup) (topology.Handler[string, int64], error) {
				lost, kept, times, emit := lost.In(t), kept.In(t), times.In(t), out.In(t)
				more := func(s state.KeyValue[string, int64], key string) (int64, error) {
					n, _, err := s.Get(key)
					if err != nil {
						return 0, err
					}
					return n + 1, s.Put(key, n+1)
				}
				return func(c *topology.Context, r order) error {
					inLost, err := more(lost, r.Key)
					if err != nil {
						return err
					}
					inKept, err := more(kept, r.Key)
					if err != nil {
						return err
					}
					stored, err := times.Put(r.Key, r.Timestamp, 1, r.Timestamp)
					if err != nil {
						return err
					}
					total := 100*inLost + 10*inKept
					if stored {
						total++
					}
					return emit(c, topology.WithValue(r, total))
				}, nil
			})
			out.Stream().Into(totals)
			built, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d, err := topologytest.New(built, topologytest.CommitByHand())
			if err != nil {
				t.Fatal(err)
			}
			late, early := time.UnixMilli(7_200_000), time.UnixMilli(0)
			pipeAt := func(at time.Time) {
				t.Helper()
				must(t, func() error { return topologytest.Pipe(d, orders, "a", 1, topologytest.At(at)) })
			}
			pipeAt(late)
			must(t, d.Commit)
			pipeAt(early)
			must(t, d.Commit)
			if name == "restart" {
				must(t, d.Restart)
			}
			pipeAt(early)
			if name != "restart" {
				must(t, func() error { return test.end(d) })
			}
			must(t, d.Commit)
			pipeAt(early)
			must(t, d.Commit)
			records, err := topologytest.Output(d, totals)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, r := range records {
				got = append(got, r.Value)
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("the outputs are %v, want %s", got, test.want)
			}
		})
	}
}
