package soak_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/soak"
)

// TestMain lets the test binary be an instance too.
func TestMain(m *testing.M) {
	soak.Instance()
	cluster.Main(m)
}

// TestShort is a soak of half a minute, with a freeze, kills and restarts. Its seed is fixed: make soak
// draws one. The broker's bounces are with the copy test.
func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	cfg := soak.DefaultConfig()
	cfg.Duration, cfg.Seed, cfg.Rate, cfg.Dir, cfg.Log = 30*time.Second, 11, 200, t.TempDir(), t.Logf
	summary, err := soak.Run(t.Context(), cluster.OwnWith(t, cluster.KindKafka, soak.ClusterOptions()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(summary)
	if !summary.OK() {
		t.Fail()
	}
	if f := summary.Faults; f.Kills+f.Freezes+f.Stops+f.Remains+f.Joins+f.BrokerKills+f.BrokerStops < 3 {
		t.Errorf("that was no soak: %+v", f)
	}
	if summary.Report.Inputs < 2000 || summary.Report.States == 0 || summary.Report.Reads == 0 {
		t.Errorf("that was no soak: %s", summary)
	}
}
