package pebblestore

import (
	"log/slog"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Defaults of Options, and lower limits.
const (
	// DefaultFlushBytes keeps the memory of a task at a few times 8 MiB and a replay after kill -9
	// below a second.
	DefaultFlushBytes = 8 << 20
	// DefaultFlushInterval bounds the age of what only the changelog has. It matters for tasks that
	// write little: the others reach FlushBytes first.
	DefaultFlushInterval = time.Minute

	// BudgetMin is the least memory that the databases of a process work with, see NewShared.
	BudgetMin = 1 << 20

	openFilesMin = 64

	// compactionTables is how many overlapping tables L0 has before they are compacted. If memory
	// makes tables smaller than intended, it is the number that makes compactionBytes, but not more
	// than compactionTablesMax: a compaction rewrites the level below, however little is added. The
	// maximum has to stay below sublevelsMax, at which Apply waits for a compaction.
	compactionTables    = 16
	compactionBytes     = 16 << 20
	compactionTablesMax = 24
	// memTableFactor times what is flushed together is the size of a memtable. A row takes more in
	// it than in a batch.
	memTableFactor = 2
	// memTableBytesMin is what Pebble can work with; tests use a smaller FlushBytes.
	memTableBytesMin = 64 << 10
)

// Options are the options of Open. The zero value works.
type Options struct {
	// Shared has the memory budget and the caches of the process. Nil gives the database small
	// caches of its own and no budget, which is meant for tests and tools.
	Shared *Shared
	// FS is the file system, the operating system's by default.
	FS vfs.FS
	// Logger gets what Pebble has to say: its chatter at debug level, errors at error level, never
	// keys or values. Nil discards it.
	Logger *slog.Logger
	// FlushBytes is how many bytes may be applied before a flush starts in the background,
	// DefaultFlushBytes by default. While other databases of Shared are flushing, the flush waits
	// for its turn until half as much again was applied. At three times FlushBytes, Apply waits for
	// the disk. FlushBytes is lowered to a sixteenth of the budget of Shared. If many databases
	// share the budget, a flush starts earlier (Shared.Expect).
	FlushBytes int64
	// InMemory names the stores whose rows are in memory. The directory has no row of them, and no
	// position: they begin empty with each Open, which removes their rows from the directory. Their
	// tables count to the budget of Shared, which does not bound them.
	InMemory []string
	// FlushInterval is the longest time that something applied waits for a flush,
	// DefaultFlushInterval by default. With less than four seconds a wait for the turn of others
	// comes on top, two seconds at most.
	FlushInterval time.Duration

	// compactionTables is how many overlapping tables L0 has before they are compacted. Tests lower
	// it.
	compactionTables int
	// flushAt is FlushBytes, or less where there are so many databases that their memtables would
	// take too much of the budget of Shared.
	flushAt int64
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FlushBytes <= 0 {
		o.FlushBytes = DefaultFlushBytes
	}
	if o.Shared != nil {
		o.FlushBytes = min(o.FlushBytes, o.Shared.budget/flushShare)
	}
	o.flushAt = min(o.FlushBytes, o.Shared.flushMax())
	if o.compactionTables <= 0 {
		o.compactionTables = compactionTables
		if o.flushAt < o.FlushBytes {
			o.compactionTables = int(min(max(compactionBytes/o.flushAt, compactionTables), compactionTablesMax))
		}
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = DefaultFlushInterval
	}
}

// pebbleOptions returns Pebble's options with the reason of each that is not the default.
func pebbleOptions(o Options, f *fault) *pebble.Options {
	p := &pebble.Options{
		// Every write of Pebble passes the fault, which ends them all after the first error.
		FS:            manifestFS{f.disk(), f},
		Logger:        f,
		EventListener: f.listener(),

		// The changelog is the log. Without one of its own Pebble reopens to a prefix of whole
		// batches.
		DisableWAL: true,

		// A fixed version, and not pebble.FormatNewest: Pebble upgrades the directory at open, for
		// good, and an older Pebble then refuses it. Raising it needs a new major version
		// (FORMAT.md).
		FormatMajorVersion: pebble.FormatValueSeparation,

		// The flusher rotates the memtable at flushAt, or at half as much again while others flush.
		// So twice flushAt leaves room for the batch that crosses the limit. Rows of less than
		// about 100 bytes take half as much more in a memtable than in a batch. While they wait for
		// the turn they do not fit, and Pebble rotates by itself. A memtable begins with 256 KiB
		// and doubles only under load, so an idle task is small. A batch of more than half of this
		// size bypasses the memtable and becomes a sorted table.
		MemTableSize: uint64(max(memTableFactor*o.flushAt, memTableBytesMin)),

		// Pebble's own write stalls cannot be interrupted: a writer that waits for a flush which
		// fails for ever hangs, with the lock that Close needs. So they are put out of reach, and
		// the flusher holds Apply back instead.
		MemTableStopWritesThreshold: 1 << 16,
		L0StopWritesThreshold:       math.MaxInt32,

		// Tables in L0 overlap, and each slows down a Get or a scan that reaches Pebble. But a
		// compaction of L0 rewrites the whole level below it if keys are spread, as ids are. The
		// share of compactions in the processor time of a ledger was two fifths when a compaction
		// began with one table; with four tables a quarter; with eight a fifth; with twelve a
		// sixth. Filters and rows answer most Gets. At 16 million rows, too, a record took less
		// time with more tables: 12.8 us with twelve and 12.1 with twenty. With 64 databases, whose
		// tables have half a megabyte, it took 14.9 us with sixteen, 12.8 with 32 and 12.5 with 64.
		// Pebble counts each table twice.
		L0CompactionThreshold: 2 * o.compactionTables,
		// Level sizes for databases of gigabytes rather than megabytes: fewer levels and so fewer
		// rewrites.
		LBaseMaxBytes: 64 << 20,
		// The MANIFEST is read at open, and rewritten when it has grown to this.
		MaxManifestFileSize: 4 << 20,
		// One compaction at a time while there is little to do, because a process has many
		// databases; two when a backlog builds up.
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	// The default scheduler has a goroutine that wakes ten times a second, and leaks it when an
	// Open fails late. This one is the same without it, whatever its name says. No compaction waits
	// for ever: one waits only while another runs, whose end lets it go.
	p.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	p.TargetFileSizes[0] = 8 << 20 // fewer files and so fewer descriptors and fsyncs
	if o.Shared != nil {
		p.Cache = o.Shared.blocks
		p.FileCache = o.Shared.files
	}
	for i := range p.Levels {
		// Blocks for point reads rather than scans.
		p.Levels[i].BlockSize = 8 << 10
		// 10 bits for each key save a lookup 99 % of the blocks of levels without the key. In the
		// last level only cached iterators use them.
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	p.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	return p
}
