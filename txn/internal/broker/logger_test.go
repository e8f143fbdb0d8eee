package broker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestLoggerLevels: what the client says arrives at the level that it deserves, and the client is
// not asked to format what nobody reads.
func TestLoggerLevels(t *testing.T) {
	for _, tc := range []struct {
		enabled slog.Level
		asks    kgo.LogLevel
		logged  []slog.Level // of error, warn, info, debug, in this order
	}{
		{slog.LevelDebug, kgo.LogLevelDebug, []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelDebug, slog.LevelDebug}},
		{slog.LevelInfo, kgo.LogLevelWarn, []slog.Level{slog.LevelError, slog.LevelWarn}},
		{slog.LevelWarn, kgo.LogLevelWarn, []slog.Level{slog.LevelError, slog.LevelWarn}},
		{slog.LevelError, kgo.LogLevelError, []slog.Level{slog.LevelError}},
	} {
		var levels []slog.Level
		k := kgoLogger{slog.New(&levelHandler{tc.enabled, &levels})}
		if got := k.Level(); got != tc.asks {
			t.Errorf("with %s enabled the client is asked for %s, want %s", tc.enabled, got, tc.asks)
		}
		for _, level := range []kgo.LogLevel{kgo.LogLevelError, kgo.LogLevelWarn, kgo.LogLevelInfo, kgo.LogLevelDebug} {
			if level <= k.Level() { // as the client does
				k.Log(level, "message", "key", "value")
			}
		}
		if len(levels) != len(tc.logged) {
			t.Errorf("with %s enabled the levels are %v, want %v", tc.enabled, levels, tc.logged)
			continue
		}
		for i := range levels {
			if levels[i] != tc.logged[i] {
				t.Errorf("with %s enabled the levels are %v, want %v", tc.enabled, levels, tc.logged)
			}
		}
	}
}

type levelHandler struct {
	least  slog.Level
	levels *[]slog.Level
}

func (h *levelHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least }
func (h *levelHandler) Handle(_ context.Context, r slog.Record) error {
	*h.levels = append(*h.levels, r.Level)
	return nil
}
func (h *levelHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *levelHandler) WithGroup(string) slog.Handler      { return h }

// TestClientsLogThroughSlog: a client of this package says what it does to the logger of the
// configuration.
func TestClientsLogThroughSlog(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out lockedBuffer // goroutines of the client may end, and say so, after Close
	cluster, err := Connect(t.Context(), Config{
		Brokers: c.ListenAddrs(), ClientID: "test",
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, "group")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Close()
	if !strings.Contains(out.String(), "level=DEBUG") || !strings.Contains(out.String(), c.ListenAddrs()[0]) {
		t.Errorf("connecting logs %q", out.String())
	}
}

// lockedBuffer is written and read by any goroutine.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestTouched: each partition counts once, whatever the order, and a new transaction starts from
// none.
func TestTouched(t *testing.T) {
	var p Producer
	for _, at := range []struct {
		topic     string
		partition int32
	}{{"a", 0}, {"a", 0}, {"a", 1}, {"b", 1}, {"a", 0}, {"b", 1}} {
		p.touched.add(at.topic, at.partition)
	}
	if got := p.Touched(); got != 3 {
		t.Errorf("%d partitions are touched, want 3", got)
	}
	p.touched.reset()
	p.touched.add("b", 1)
	if got := p.Touched(); got != 1 {
		t.Errorf("after a reset %d partitions are touched, want 1", got)
	}
	if got := p.Partitions(); len(got["a"]) != 2 || len(got["b"]) != 1 {
		t.Errorf("%v are to be looked at, want those of both transactions", got)
	}
	p.Looked()
	if got := p.Partitions(); len(got["a"]) != 0 || len(got["b"]) != 1 {
		t.Errorf("after the look %v are to be looked at, want that of the last transaction", got)
	}
}
