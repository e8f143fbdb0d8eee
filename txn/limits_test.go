package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/txn"
)

// TestTimeoutsThatBrokersRefuse: a setting beyond the brokers' limits ends Run at once, with the
// setting, its value and the limit's name in one line; it is not tried for ever.
func TestTimeoutsThatBrokersRefuse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*txn.Config)
		want   error
		says   string
	}{
		{"session", func(c *txn.Config) { c.SessionTimeout = time.Second }, kerr.InvalidSessionTimeout,
			"the brokers refuse the session timeout of 1s; set one between their group.min.session.timeout.ms"},
		{"transaction", func(c *txn.Config) { c.TransactionTimeout = time.Minute }, kerr.InvalidTransactionTimeout,
			"the brokers refuse the transaction timeout of 1m0s; set one up to their transaction.max.timeout.ms"},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			limit := kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "30000"})
			b := newBrokers(t, 1, limit, kfake.SeedTopics(1, "in", "out"))
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t)})
			tc.change(&cfg)
			app, err := txn.New(countTopology(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = app.Run(ctx)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Run returns %v", err)
			}
		})
	}
}
