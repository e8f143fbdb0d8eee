package topology_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestG6EventTime: what was parked or delayed moves the stream time by its event time, when it is
// processed, and never by its timestamp in the topic. A timestamp that the topology refuses lets
// nothing overtake where the source has an EventTime.
func TestG6EventTime(t *testing.T) {
	for name, policy := range map[string]topology.Policy{"park": parkPolicy(0, 0), "delay": delayPolicy(9)} {
		t.Run(name, func(t *testing.T) {
			again := []topology.SourceOption{topology.RetryTopics(time.Second)}
			if policy.Action == topology.Park {
				again = []topology.SourceOption{topology.ParkKeys()}
			}
			type record = topology.Record[topology.Option[string], string]
			b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient, policy))
			in := topology.From(b, parkIn, append(again, topology.EventTime(func(r record) (time.Time, error) {
				_, text, _ := strings.Cut(r.Value, "@")
				ms, err := strconv.ParseInt(text, 10, 64)
				return time.UnixMilli(ms), err
			}))...)
			closed := true
			var saw []string
			node := topology.Stateful(in, "judge")
			node.Process(func(*topology.Setup) (topology.Handler[topology.Option[string], string], error) {
				return func(c *topology.Context, r record) error {
					if closed && strings.HasPrefix(r.Value, "a1") {
						return errBroken
					}
					saw = append(saw, fmt.Sprintf("%s at %d, stream time %d", r.Value, r.Timestamp, c.StreamTime()))
					return nil
				}, nil
			})
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d, err := topologytest.New(top, topologytest.Clock(parkStart))
			if err != nil {
				t.Fatal(err)
			}
			pipe := func(key, value string, opts ...topologytest.PipeOption) {
				t.Helper()
				if err := topologytest.Pipe(d, parkIn, topology.Some(key), value, opts...); err != nil {
					t.Fatal(err)
				}
			}
			pipe("a", "a1@100")
			pipe("b", "b1@50")
			if policy.Action == topology.Park {
				pipe("a", "a2@70", topologytest.At(time.UnixMilli(-1)))
			}
			closed = false
			if err := d.Advance(time.Second); err != nil {
				t.Fatal(err)
			}
			if policy.Action == topology.Delay {
				pipe("a", "a2@70", topologytest.At(time.UnixMilli(-1)))
			}
			pipe("b", "b2@60")
			want := []string{
				"b1@50 at 50, stream time 50", "a1@100 at 100, stream time 100", "a2@70 at 70, stream time 100",
				"b2@60 at 60, stream time 100",
			}
			if !slices.Equal(saw, want) {
				t.Errorf("the node saw\n%s\nwant\n%s", strings.Join(saw, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
