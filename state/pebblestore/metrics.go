package pebblestore

import (
	"time"

	"github.com/onceward/onceward/state"
)

// Metrics is a picture of one database, in bytes and counts.
type Metrics struct {
	// DiskBytes is the space of the directory's files, obsolete ones included.
	DiskBytes uint64
	// BufferBytes and MemTableBytes are the memory of writes that are not in a table yet. The
	// buffer above Pebble has each key once. Memtables have a fixed size, and one is kept for
	// later. UnflushedBytes is the size of applied writes that are not on the disk.
	BufferBytes    int64
	MemTableBytes  uint64
	UnflushedBytes int64
	// InMemoryBytes are the tables of the stores that are in memory (Options.InMemory). Everything
	// else in here is of the part on the disk.
	InMemoryBytes uint64
	// L0Sublevels is how many tables a read may have to look at before the sorted levels; Apply is
	// slowed down when it grows.
	L0Sublevels int32
	// ReadAmplification is the same for the whole database.
	ReadAmplification int
	// CompactionDebtBytes is about what compactions still have to rewrite.
	CompactionDebtBytes uint64
	// Compactions and Flushes count since the database was opened.
	Compactions, Flushes int64
	// Waits counts how often a round or a load waited for the disk or for memory since the database
	// was opened, WaitTime is how long. One that waits now is in both.
	Waits    int64
	WaitTime time.Duration
}

// MetricsOf returns the metrics of a database that was opened by this package; ok is false for
// another one, and for a closed one. It may be called from any goroutine and takes some
// microseconds.
func MetricsOf(db state.Database) (m Metrics, ok bool) {
	if s, is := db.(*split); is {
		memory, there := MetricsOf(s.memory)
		m, ok = MetricsOf(s.disk)
		m.InMemoryBytes = memory.DiskBytes
		return m, ok && there
	}
	d, ok := db.(*database)
	if !ok {
		return Metrics{}, false
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if d.life.closed {
		return Metrics{}, false
	}
	p := d.db.Metrics()
	waited, waitTime := d.flusher.waits.read()
	return Metrics{
		DiskBytes: p.DiskSpaceUsage(), BufferBytes: d.committed.bytes(), MemTableBytes: p.MemTable.Size + p.MemTable.ZombieSize, UnflushedBytes: d.flusher.backlog(),
		L0Sublevels: p.Levels[0].Sublevels, ReadAmplification: p.ReadAmp(), CompactionDebtBytes: p.Compact.EstimatedDebt,
		Compactions: p.Compact.Count, Flushes: p.Flush.Count,
		Waits: waited, WaitTime: waitTime,
	}, true
}

// CacheMetrics is a picture of the block cache that all databases of the process share.
type CacheMetrics struct {
	Bytes int64
	// Hits and Misses count since the cache was made.
	Hits, Misses int64
}

// Metrics returns the metrics of the block cache. It must not be called after Close.
func (s *Shared) Metrics() CacheMetrics {
	m := s.blocks.Metrics()
	return CacheMetrics{Bytes: m.Size, Hits: m.Hits, Misses: m.Misses}
}
