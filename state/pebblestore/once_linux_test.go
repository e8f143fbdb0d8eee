package pebblestore

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

// BenchmarkWrittenOnce compares ways of keeping rows that are written once (decision 0094). One
// iteration is a round of a ledger behind an inbox, with onceRecords records. For each record it
// looks up an id and a contribution, which are new, and writes both and a balance. The measured
// processor time is that of the process, with flushes, compactions, filters and garbage collection.
//
// It reports for each record and way:
//
//	cpu-ns/record   processor time
//	written/flushed bytes of tables that flushes, loads and compactions wrote, by those that came in
//	absent-ns       processor time of the lookup of an id that is not there
//	found-ns        the same of one that is, any of the ids
//	moves, merges   compactions that moved tables, and that merged them
//
// Use -benchtime to state the number of rounds: 500x is two million records, which is the part of
// one task of four in a run of eight million.
func BenchmarkWrittenOnce(b *testing.B) {
	ways := []struct {
		name string
		way  func(d onceDatabase) onceWay
		set  func(p *pebble.Options)
	}{
		{name: "today", way: newOnceToday},
		// Pebble's options alone.
		{name: "today, 32 tables in L0", way: newOnceToday, set: func(p *pebble.Options) { p.L0CompactionThreshold = 64 }},
		{name: "today, base level 1 GiB", way: newOnceToday, set: func(p *pebble.Options) { p.LBaseMaxBytes = 1 << 30 }},
		{name: "today, tables of 64 MiB", way: newOnceToday, set: func(p *pebble.Options) {
			p.TargetFileSizes = [7]int64{64 << 20, 64 << 20, 64 << 20, 64 << 20, 64 << 20, 64 << 20, 64 << 20}
		}},
		{name: "today, one level at a time", way: newOnceToday, set: func(p *pebble.Options) {
			p.Experimental.MultiLevelCompactionHeuristic = pebble.NoMultiLevel{}
		}},
		// A generation in front of the key.
		{name: "generations", way: newOnceGenerations},
		{name: "generations, tables split", way: newOnceGenerations, set: splitAtGenerations},
		// The rows of a generation as a sorted table.
		{name: "loads", way: newOnceLoads},
		{name: "loads, tables split", way: newOnceLoads, set: splitAtGenerations},
		// The limits of every design: no table is merged with another, or there are only the rows
		// that change.
		{name: "no compactions", way: newOnceToday, set: func(p *pebble.Options) {
			p.L0CompactionThreshold, p.L0CompactionFileThreshold = math.MaxInt32, math.MaxInt32
		}},
		{name: "balances only", way: newOnceNothing},
	}
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			d := openOnce(b, w.set)
			run := onceRun{d: d, way: w.way(d), rng: rand.New(rand.NewPCG(1, 1))}
			run.measure()
		})
	}
}

const (
	// onceRecords is the size of a round: a tenth of a second of one task of four.
	onceRecords  = 4000
	onceAccounts = 100_000 / 4
	onceBudget   = 256 << 20
)

// The stores of the benchmark. Those of generations are behind the others in the order of keys.
const (
	onceBalances state.StoreID = 1
	onceIDs      state.StoreID = 2
	onceGiven    state.StoreID = 3 // contributions
	// onceGeneration is the first generation. A generation takes the place of the store in front
	// of the key, and the store comes behind it.
	onceGeneration state.StoreID = 1 << 31
)

// onceWay is a way of keeping rows that are written once.
type onceWay interface {
	// has looks a row up.
	has(store state.StoreID, key []byte) bool
	// apply brings a round in. once has the rows that are written once, in the order of stores and
	// keys.
	apply(base, next state.Positions, once, changed []state.Write)
	// flush brings everything into tables.
	flush()
}

// onceDatabase is a database whose errors end the benchmark.
type onceDatabase struct {
	*database
	b *testing.B
}

func openOnce(b *testing.B, set func(*pebble.Options)) onceDatabase {
	b.Helper()
	dir, err := os.MkdirTemp("", "once")
	must(b, err)
	shared := NewShared(onceBudget, 1000)
	shared.Expect(4) // as for four tasks
	o := Options{Shared: shared}
	o.setDefaults()
	f := newFault(dir, o.Logger, o.FS)
	lock, err := pebble.LockDirectory(dir, o.FS)
	must(b, err)
	options := pebbleOptions(o, f)
	options.Lock = lock
	if set != nil {
		set(options)
	}
	db, err := pebble.Open(dir, options)
	must(b, err)
	d := newDatabase(dir, db, lock, f, o)
	must(b, d.load())
	f.opened.Store(true)
	go d.runFlusher()
	b.Cleanup(func() {
		must(b, d.Close())
		shared.Close()
		must(b, os.RemoveAll(dir))
	})
	return onceDatabase{d, b}
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// splitAtGenerations ends tables where generations begin, so that a flush makes one for the rows
// that change and others for the generation.
func splitAtGenerations(p *pebble.Options) {
	first := appendDataKey(nil, onceGeneration, nil)
	p.Experimental.SpanPolicyFunc = func(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
		if string(start) < string(first) {
			end = first
		}
		return policy, end, nil
	}
}

type onceRun struct {
	d   onceDatabase
	way onceWay
	rng *rand.Rand
	// ids are those of all rounds: 8 bytes each, from which id and contribution follow.
	ids []uint64
}

// idOf appends an id of 24 bytes, in text as ids mostly are.
func idOf(dst []byte, n uint64) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	for range 2 {
		for i := range 12 {
			dst = append(dst, digits[n>>(5*i)&31])
		}
		n *= 0x9e3779b97f4a7c15
	}
	return dst
}

// accountOf appends an account of 16 bytes.
func accountOf(dst []byte, n uint64) []byte {
	account := n % onceAccounts * 0x9e3779b97f4a7c15
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, account), account>>7)
}

func givenKey(dst []byte, n uint64) []byte { return idOf(append(accountOf(dst, n), 0, 1), n) }

func (r *onceRun) measure() {
	b := r.d.b
	runtime.GC()
	var made time.Duration
	before := cpuTime(b)
	for round := range int64(b.N) {
		at := cpuTime(b)
		once, changed := r.round()
		made += cpuTime(b) - at
		r.way.apply(onceAt(round), onceAt(round+1), once, changed)
	}
	r.way.flush()
	r.wait()
	all := float64(b.N) * onceRecords
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64((cpuTime(b)-before-made).Nanoseconds())/all, "cpu-ns/record")
	b.ReportMetric(float64(made.Nanoseconds())/all, "making-ns/record")
	m := r.d.db.Metrics()
	total := m.Total()
	in := float64(total.TableBytesFlushed + m.Levels[0].TableBytesIngested)
	for _, l := range m.Levels[1:] {
		in += float64(l.TableBytesIngested)
	}
	b.ReportMetric((in+float64(total.TableBytesCompacted))/in, "written/flushed")
	b.ReportMetric(float64(m.Compact.MoveCount), "moves")
	b.ReportMetric(float64(m.Compact.Count-m.Compact.MoveCount), "merges")
	b.ReportMetric(float64(m.DiskSpaceUsage())/all, "disk-bytes/record")
	r.lookups()
}

// wait lets compactions come to an end, whose time counts too.
func (r *onceRun) wait() {
	look := time.NewTicker(levelsPoll)
	defer look.Stop()
	for r.d.db.Metrics().Compact.NumInProgress > 0 {
		<-look.C
	}
}

func (r *onceRun) lookups() {
	b := r.d.b
	const n = 100_000
	if _, none := r.way.(onceNothing); none {
		return
	}
	key := make([]byte, 0, 64)
	for _, present := range []bool{false, true} {
		name := "absent-ns"
		if present {
			name = "found-ns"
		}
		before := cpuTime(b)
		for range n {
			id := r.rng.Uint64()
			if present {
				id = r.ids[r.rng.IntN(len(r.ids))]
			}
			if key = idOf(key[:0], id); r.way.has(onceIDs, key) != present {
				b.Fatal("a lookup has another result:", name)
			}
		}
		b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/n, name)
	}
}

// round looks up the records of a round, and returns its writes.
func (r *onceRun) round() (once, changed []state.Write) {
	data := make([]byte, 0, onceRecords*256)
	add := func(f func(dst []byte) []byte) []byte {
		from := len(data)
		data = f(data)
		return data[from:len(data):len(data)]
	}
	random := func(n int) []byte {
		return add(func(dst []byte) []byte {
			for range n / 8 {
				dst = binary.BigEndian.AppendUint64(dst, r.rng.Uint64())
			}
			return dst
		})
	}
	accounts := make(map[uint64]struct{}, onceRecords)
	for range onceRecords {
		n := r.rng.Uint64()
		r.ids = append(r.ids, n)
		id := add(func(dst []byte) []byte { return idOf(dst, n) })
		given := add(func(dst []byte) []byte { return givenKey(dst, n) })
		once = append(once, state.Write{Store: onceIDs, Key: id, Value: random(48)[:42]},
			state.Write{Store: onceGiven, Key: given, Value: random(24)[:18]})
		if _, again := accounts[n%onceAccounts]; !again {
			accounts[n%onceAccounts] = struct{}{}
			account := add(func(dst []byte) []byte { return accountOf(dst, n) })
			changed = append(changed, state.Write{Store: onceBalances, Key: account, Value: random(24)[:22]})
		}
	}
	slices.SortFunc(once, compareWrites)
	slices.SortFunc(changed, compareWrites)
	return once, changed
}

func compareWrites(x, y state.Write) int {
	if x.Store != y.Store {
		return int(x.Store) - int(y.Store)
	}
	return bytes.Compare(x.Key, y.Key)
}

func onceAt(round int64) state.Positions {
	if round == 0 {
		return state.Positions{}
	}
	return state.Positions{Round: state.RoundID{ProducerID: round}}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// onceToday is the way of the database as it is.
type onceToday struct{ d onceDatabase }

func newOnceToday(d onceDatabase) onceWay { return onceToday{d} }

func (w onceToday) has(store state.StoreID, key []byte) bool {
	_, found, err := w.d.Get(store, key)
	must(w.d.b, err)
	return found
}

func (w onceToday) apply(base, next state.Positions, once, changed []state.Write) {
	w.d.lookUpAll(w, once)
	w.d.apply(base, next, changed, once)
}

func (w onceToday) flush() { must(w.d.b, w.d.Flush()) }

// lookUpAll looks new rows up.
func (d onceDatabase) lookUpAll(w onceWay, rows []state.Write) {
	for _, row := range rows {
		if w.has(row.Store, row.Key) {
			d.b.Fatal("a row is there that is new")
		}
	}
}

func (d onceDatabase) apply(base, next state.Positions, parts ...[]state.Write) {
	err := d.Apply(base, next, func(yield func(state.Write) bool) {
		for _, part := range parts {
			for _, w := range part {
				if !yield(w) {
					return
				}
			}
		}
	})
	must(d.b, err)
}

// onceNothing drops the rows that are written once.
type onceNothing struct{ onceToday }

func newOnceNothing(d onceDatabase) onceWay { return onceNothing{onceToday{d}} }

func (w onceNothing) apply(base, next state.Positions, _, changed []state.Write) {
	w.d.apply(base, next, changed)
}

// onceGenerations puts the number of a generation in front of the keys, which goes up with each
// flush. An index in memory says in which generation a key may be.
type onceGenerations struct {
	d          onceDatabase
	generation state.StoreID
	bytes      int64
	index      onceIndex
	key        []byte
	rows       []state.Write
	keys       []byte
}

func newOnceGenerations(d onceDatabase) onceWay {
	return &onceGenerations{d: d, generation: onceGeneration}
}

// behind appends the key of a row within its generation.
func behind(dst []byte, store state.StoreID, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(store)), key...)
}

func (w *onceGenerations) has(store state.StoreID, key []byte) bool {
	w.key = behind(w.key[:0], store, key)
	return w.index.find(hashOf(w.key), func(generation state.StoreID) bool {
		k := appendDataKey(nil, generation, w.key)
		if _, found, known := w.d.committed.get(hashOf(k), k); known {
			return found
		}
		_, found, err := getRaw(w.d.db, k)
		must(w.d.b, err)
		return found
	})
}

func (w *onceGenerations) apply(base, next state.Positions, once, changed []state.Write) {
	w.d.lookUpAll(w, once)
	w.rows, w.keys = w.rows[:0], w.keys[:0]
	size := 0
	for _, row := range once {
		size += 4 + len(row.Key)
	}
	w.keys = slices.Grow(w.keys, size)
	for _, row := range once {
		from := len(w.keys)
		w.keys = behind(w.keys, row.Store, row.Key)
		key := w.keys[from:len(w.keys):len(w.keys)]
		w.index.add(hashOf(key), w.generation)
		w.rows = append(w.rows, state.Write{Store: w.generation, Key: key, Value: row.Value})
		w.bytes += int64(len(key) + len(row.Value))
	}
	w.d.apply(base, next, changed, w.rows)
	if w.bytes >= w.d.flusher.bytes {
		w.generation++
		w.bytes = 0
	}
}

func (w *onceGenerations) flush() { must(w.d.b, w.d.Flush()) }

// onceLoads collects the rows of a generation, sorts them, and loads them as a table. The rows that
// change go the way of today.
type onceLoads struct {
	onceGenerations
	pending []state.Write
	at      state.Positions
}

func newOnceLoads(d onceDatabase) onceWay {
	return &onceLoads{onceGenerations: onceGenerations{d: d, generation: onceGeneration}}
}

func (w *onceLoads) apply(base, next state.Positions, once, changed []state.Write) {
	// A row that waits is in no table yet. The ids of this benchmark are all new, so it needs no
	// lookup in those that wait; a real one would.
	w.d.lookUpAll(w, once)
	for _, row := range once {
		key := behind(make([]byte, 0, 4+len(row.Key)), row.Store, row.Key)
		w.index.add(hashOf(key), w.generation)
		w.pending = append(w.pending, state.Write{Store: w.generation, Key: key, Value: row.Value})
		w.bytes += int64(len(key) + len(row.Value))
	}
	w.d.apply(base, next, changed)
	w.at = next
	if w.bytes >= w.d.flusher.bytes {
		w.load()
	}
}

func (w *onceLoads) load() {
	if len(w.pending) == 0 {
		return
	}
	slices.SortFunc(w.pending, compareWrites)
	var sorted iter.Seq[state.Write] = slices.Values(w.pending)
	must(w.d.b, w.d.Load(w.at, w.at, w.generation, sorted))
	w.generation++
	w.pending, w.bytes = nil, 0
}

func (w *onceLoads) flush() {
	w.load()
	must(w.d.b, w.d.Flush())
}

// onceIndex is a table of fingerprints: for each key the number of its generation and 16 bits of
// its hash, in one of two buckets of eight. It grows by parts, as a keyFilter does. 4 bytes an
// entry, four fifths full.
type onceIndex struct {
	parts []*oncePart
	room  int
}

type oncePart struct{ buckets [][8]uint32 }

func (p *oncePart) bucket(hash uint64) *[8]uint32 {
	return &p.buckets[(hash>>32)*uint64(len(p.buckets))>>32]
}

func (x *onceIndex) add(hash uint64, generation state.StoreID) {
	if x.room == 0 {
		entries := 1 << 16
		for _, p := range x.parts {
			entries += 3 * len(p.buckets) * 8
		}
		x.parts = append(x.parts, &oncePart{make([][8]uint32, entries/8)})
		x.room = entries * 4 / 5
	}
	x.room--
	p := x.parts[len(x.parts)-1]
	entry := uint32(hash)<<16 | uint32(generation-onceGeneration+1)
	one, other := p.bucket(hash), p.bucket(hash*0x9e3779b97f4a7c15)
	free := func(bucket *[8]uint32) (n int) {
		for n < 8 && bucket[n] != 0 {
			n++
		}
		return n
	}
	at, in := free(one), one
	if n := free(other); n < at {
		at, in = n, other
	}
	if at == 8 {
		x.room = 0
		x.add(hash, generation)
		return
	}
	in[at] = entry
}

// find asks is about each generation in which a key may be, until one has it.
func (x *onceIndex) find(hash uint64, is func(generation state.StoreID) bool) bool {
	for i := len(x.parts) - 1; i >= 0; i-- {
		for _, bucket := range [...]*[8]uint32{x.parts[i].bucket(hash), x.parts[i].bucket(hash * 0x9e3779b97f4a7c15)} {
			for _, entry := range bucket {
				if entry != 0 && uint16(entry>>16) == uint16(hash) &&
					is(onceGeneration+state.StoreID(entry&0xffff)-1) {
					return true
				}
			}
		}
	}
	return false
}
