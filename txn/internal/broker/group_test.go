package broker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/assign"
)

type noAssignment struct{}

func (noAssignment) Assigned(map[string][]int32)                 {}
func (noAssignment) Revoked(context.Context, map[string][]int32) {}
func (noAssignment) Lost(map[string][]int32)                     {}
func (noAssignment) JoinData() assign.Join                       { return assign.Join{} }
func (noAssignment) Planned(assign.Plan, bool)                   {}
func (noAssignment) Settled()                                    {}

// TestHeartbeatsAreBounded: with a long session, too, a member notices soon that others wait for
// it. Three heartbeats of a tenth of the session would take 13 s.
func TestHeartbeatsAreBounded(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		cluster := virtual.NewKafka(t, network, 1, kfake.SeedTopics(1, "in"))
		beats := make(chan struct{}, 100)
		cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			select {
			case beats <- struct{}{}:
			default:
			}
			return nil, nil, false
		})
		g, err := Join(Config{Brokers: cluster.Brokers(), Dialer: network.Host("a").Dial, Logger: slog.New(slog.DiscardHandler)}, GroupConfig{
			Group: "app", Instance: "a", Topics: []string{"in"}, SessionTimeout: 45 * time.Second, RebalanceTimeout: time.Minute,
			FetchWaitMax: 100 * time.Millisecond, FetchBytesMax: 1 << 20, FetchAllBytesMax: 8 << 20,
		}, noAssignment{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		late := time.After(9 * time.Second)
		for n := range 3 {
			select {
			case <-beats:
			case <-late:
				t.Fatalf("%d heartbeats came within 9 s", n)
			}
		}
	})
}
