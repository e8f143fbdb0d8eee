package txn_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestMaxFutureTimestamp: how far ahead of the clock a record may be is a setting; one that is
// further ends as a dead letter, alone (rule 9.2).
func TestMaxFutureTimestamp(t *testing.T) {
	for name, tc := range map[string]struct {
		limit time.Duration
		dead  int
	}{
		"by default one hour": {0, 1},
		"a minute":            {time.Minute, 2},
		"no limit":            {-1, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1, "in", "out", "dead")
			start(t, mirror(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, MaxFutureTimestamp: tc.limit}))
			now := time.Now()
			for _, ahead := range []time.Duration{0, 30 * time.Minute, 2 * time.Hour} {
				b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v"), Timestamp: now.Add(ahead)})
			}
			b.read(t, "out", 3-tc.dead)
			b.read(t, "dead", tc.dead)
		})
	}
}
