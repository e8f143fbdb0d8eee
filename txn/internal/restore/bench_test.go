package restore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// changelogOf has n records of 28 bytes with keys in a random order, as a changelog under load:
// batches of 500 and no compaction yet.
func changelogOf(n int, keys int32) *fakeLog {
	var p kmsg.FetchResponseTopicPartition
	rng := rand.New(rand.NewPCG(uint64(keys), 7))
	for base := 0; base < n; base += 500 {
		records := make([]batchtest.Record, 500)
		for i := range records {
			records[i] = batchtest.Record{
				Delta: int64(i), Timestamp: 1_700_000_000_000 + int64(base),
				Key: fmt.Appendf(nil, "account-%08d", rng.Int32N(keys)), Value: binary.BigEndian.AppendUint64([]byte("bal "), rng.Uint64()>>20),
			}
		}
		p.RecordBatches = append(p.RecordBatches, batchtest.Encode(int64(base), 499, 1, batchtest.Transactional, kgo.NoCompression(), records)...)
	}
	return newFakeLog(p)
}

// BenchmarkRestore restores four tasks with two stores each from answers that need no broker: what
// is left of the time is decoding, sorting and the database.
func BenchmarkRestore(b *testing.B) {
	const tasks, records = 4, 500_000
	logs := map[string]*fakeLog{"a": changelogOf(records, 2_000_000), "b": changelogOf(records, 300_000)}
	for _, megabytes := range []int64{24, 48, 64, 96} {
		b.Run(fmt.Sprintf("budget=%dMB", megabytes), func(b *testing.B) {
			for b.Loop() {
				restoreTasks(b, b.TempDir(), tasks, megabytes<<20, logs)
			}
			b.ReportMetric(float64(b.N*tasks*len(logs)*records)/b.Elapsed().Seconds(), "records/s")
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys>>20), "MB-from-system")
		})
	}
}

func restoreTasks(b *testing.B, dir string, tasks int, bytesMax int64, logs map[string]*fakeLog) {
	shared := pebblestore.NewShared(32<<20, 500)
	defer shared.Close()
	r := &Restorer{Logger: slog.New(slog.DiscardHandler)}
	r.budget = newBudget(bytesMax, max(runtime.GOMAXPROCS(0), 2))
	r.stream = func(c Changelog, _ int32) stream { return logs[c.Store] }
	var all sync.WaitGroup
	for i := range tasks {
		db, err := pebblestore.Open(filepath.Join(dir, fmt.Sprint(i)), pebblestore.Options{Shared: shared})
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			o := &opening{r: r, db: db, progress: &Progress{}, log: r.Logger, came: time.Now()}
			o.req.Task.Partition = int32(i)
			var replays []Replay
			for store, log := range logs {
				o.req.Stores = append(o.req.Stores, Store{Name: store})
				replays = append(replays, Replay{Changelog: Changelog{Store: store, TopicID: [16]byte{1}}, Target: log.end})
			}
			err := errors.Join(o.replay(b.Context(), replays), db.Close())
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}
