package figures

import (
	"flag"
	"testing"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
)

// brokerDefaults are the defaults that the brokers of other tests do without.
var brokerDefaults = map[string]string{
	"group.initial.rebalance.delay.ms":                            "3000",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
}

var kills = flag.Int("kills", 3, "kills of TestPeersTakeOver")

// TestPeersTakeOver kills one of two instances that watch each other, again and again, on a broker at its own defaults and with the timeouts of
// production. Its partitions go on long before the session timeout, and every event comes once. It logs the times.
func TestPeersTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: brokerDefaults})
	p := planFromEnv()
	for _, r := range measureTakeovers(t, c, p, latency.Settings{
		SessionTimeout: sessionDefault, TransactionTimeout: transactionDefault, Peers: "127.0.0.1:0",
	}, *kills) {
		if r.All >= sessionDefault/2 {
			t.Errorf("the partitions of the dead instance went on after %s: its peer did nothing", r.All)
		}
	}
}
