package pebblestore_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// benchKey is one of a million keys of 16 bytes, in no order.
func benchKey(dst []byte, i int) []byte {
	clear(dst[:8])
	binary.BigEndian.PutUint64(dst[8:], uint64(i)*7919%1_000_000)
	return dst
}

func openBench(b *testing.B) state.Database {
	b.Helper()
	shared := pebblestore.NewShared(256<<20, 1000) // package txn's default
	db, err := pebblestore.Open(b.TempDir(), pebblestore.Options{Shared: shared})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
		shared.Close()
	})
	return db
}

// applyRound applies n writes of 16 and 100 bytes, starting at key first.
func applyRound(b *testing.B, db state.Database, round int64, first, n int) {
	b.Helper()
	key, value := make([]byte, 16), make([]byte, 100)
	rng := rand.New(rand.NewPCG(uint64(round), 1))
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	err := db.Apply(at(round), at(round+1), func(yield func(state.Write) bool) {
		for i := range n {
			if !yield(state.Write{Store: state.IDOf("s"), Key: benchKey(key, first+i), Value: value}) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkApply includes the flushes and compactions that it causes, on the disk of the temporary
// directory.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db := openBench(b)
			round := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				applyRound(b, db, round, int(round)*n, n)
				round++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(round)/float64(n), "ns/write")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	const n = 500_000
	for _, where := range []string{"memtable", "tables", "absent"} {
		b.Run(where, func(b *testing.B) {
			db := openBench(b)
			have := n
			if where == "memtable" {
				have = 10_000
			}
			for round := range int64(have / 10_000) {
				applyRound(b, db, round, int(round)*10_000, 10_000)
			}
			if where != "memtable" {
				if err := db.Flush(); err != nil {
					b.Fatal(err)
				}
			}
			id, key := state.IDOf("s"), make([]byte, 16)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				at := i * 31 % have
				if where == "absent" {
					at += have
				}
				if _, ok, err := db.Get(id, benchKey(key, at)); err != nil || ok == (where == "absent") {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkView(b *testing.B) {
	db := openBench(b)
	applyRound(b, db, 0, 0, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		v, err := db.View()
		if err != nil {
			b.Fatal(err)
		}
		if err := v.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	db := openBench(b)
	applyRound(b, db, 0, 0, 10_000)
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		for _, err := range db.Scan(state.IDOf("s"), state.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			entries++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
}

// BenchmarkOpen opens and closes a database that has data, as a rebalance does.
func BenchmarkOpen(b *testing.B) {
	path := b.TempDir()
	shared := pebblestore.NewShared(64<<20, 1000)
	defer shared.Close()
	b.ReportAllocs()
	round := int64(0)
	for b.Loop() {
		db, err := pebblestore.Open(path, pebblestore.Options{Shared: shared})
		if err != nil {
			b.Fatal(err)
		}
		if round == 0 {
			applyRound(b, db, round, 0, 10_000)
			round++
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad brings the same chunks of a restore in by Load and by Apply, everything included
// that they cause: sorting for Load, flushes, compactions, and the final Flush.
func BenchmarkLoad(b *testing.B) {
	const chunk = 100_000
	for _, valueBytes := range []int{12, 100} {
		for _, way := range []string{"load", "apply"} {
			b.Run(fmt.Sprintf("%d bytes/%s", 16+valueBytes, way), func(b *testing.B) {
				db := openBench(b)
				keys, order := make([]byte, 16*chunk), make([]int, chunk)
				value := make([]byte, valueBytes)
				rng := rand.New(rand.NewPCG(1, 1))
				id, round, n := state.IDOf("s"), int64(0), 0
				b.ReportAllocs()
				for b.Loop() {
					for i := range order {
						order[i] = i
						binary.BigEndian.PutUint64(keys[16*i:], rng.Uint64())
					}
					key := func(i int) []byte { return keys[16*i : 16*i+16] }
					if way == "load" {
						slices.SortFunc(order, func(x, y int) int { return bytes.Compare(key(x), key(y)) })
					}
					size := chunk
					if way == "apply" {
						size = chunk / 4 // about the batches of package txn
					}
					for part := range slices.Chunk(order, size) {
						writes := func(yield func(state.Write) bool) {
							for _, i := range part {
								if !yield(state.Write{Store: id, Key: key(i), Value: value}) {
									return
								}
							}
						}
						in := func(base, next state.Positions) error { return db.Load(base, next, id, writes) }
						if way == "apply" {
							in = func(base, next state.Positions) error { return db.Apply(base, next, writes) }
						}
						if err := in(at(round), at(round+1)); err != nil {
							b.Fatal(err)
						}
						round++
					}
					n++
				}
				if err := db.Flush(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/chunk, "ns/write")
			})
		}
	}
}

// BenchmarkLedger applies rounds as a ledger makes them, sorted writes of 16 and 100 bytes over few
// or many accounts, through the buffer or past it, and reads random accounts afterwards. Flushes
// and compactions are included.
func BenchmarkLedger(b *testing.B) {
	for _, accounts := range []int{50_000, 1_000_000} {
		for _, n := range []int{10, 1000, 20_000} {
			for _, way := range []string{"buffer", "memtable"} {
				b.Run(fmt.Sprintf("%d accounts/%d writes/%s", accounts, n, way), func(b *testing.B) {
					db := openBench(b)
					if way == "memtable" {
						pebblestore.NeverBuffer(db)
					}
					benchLedger(b, db, accounts, n)
				})
			}
		}
	}
}

func benchLedger(b *testing.B, db state.Database, accounts, n int) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	// Multiplied by an odd number: as spread as hashes, and each one once.
	account := func() uint64 { return uint64(rng.IntN(accounts)) * 0x9e3779b97f4a7c15 }
	id, value, keys := state.IDOf("s"), make([]byte, 100), make([]uint64, n)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	round := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		for i := range keys {
			keys[i] = account()
		}
		slices.Sort(keys)
		key := make([]byte, 16)
		err := db.Apply(at(round), at(round+1), func(yield func(state.Write) bool) {
			for _, k := range keys {
				binary.BigEndian.PutUint64(key[8:], k)
				if !yield(state.Write{Store: id, Key: key, Value: value}) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		round++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(round)/float64(n), "ns/write")
	const gets = 100_000
	key := make([]byte, 16)
	began := time.Now()
	for range gets {
		binary.BigEndian.PutUint64(key[8:], account())
		if _, _, err := db.Get(id, key); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/gets, "ns/get")
}
