package comparison

import (
	"context"
	"path/filepath"

	"github.com/onceward/onceward/bench/restoretime"
)

// RestoreConfig is how the full restore is measured, by package restoretime.
type RestoreConfig struct {
	Data restoretime.Data
	// Rounds is how often the candidates take turns, SearchRuns how often each setting of Kafka
	// Streams is tried before.
	Rounds, SearchRuns int
}

func (m *measurement) restore(ctx context.Context) error {
	cfg := m.cfg.Restore
	if cfg == nil {
		return nil
	}
	r, err := restoretime.Measure(ctx, restoretime.Config{
		Brokers: m.cfg.Brokers, Name: m.name("restore"), Data: cfg.Data, Dir: filepath.Join(m.cfg.Dir, "restore"), Rounds: cfg.Rounds,
		SearchRuns: cfg.SearchRuns, Streams: m.cfg.Streams, Progress: m.cfg.Progress,
	})
	if err == nil {
		m.result.Restore = &r
	}
	return err
}
