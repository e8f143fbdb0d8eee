package state_test

import (
	"strconv"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// benchKind returns a task with one store of that layout, and keys of 16 bytes.
func benchKind(b *testing.B, l state.Layout) (*state.Task, []string) {
	b.Helper()
	task, err := state.NewTask(memstore.New(), []state.Declaration{{Name: "s", Layout: l}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := task.Close(); err != nil {
			b.Error(err)
		}
	})
	keys := make([]string, benchRound)
	for i := range keys {
		keys[i] = string(append([]byte("key-"), []byte(strconv.Itoa(100_000_000_000+i*7919))...))
	}
	return task, keys
}

// BenchmarkTimestamped, BenchmarkVersioned and BenchmarkDedupe are what one operation costs in
// rounds of 10,000.
func BenchmarkTimestamped(b *testing.B) {
	task, keys := benchKind(b, state.Layout{Kind: state.TimestampedKind})
	s := state.NewTimestamped(task.Store("s"), text{}, number{})
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%benchRound == 0 {
				task.Drop()
			}
			if err := s.Put(keys[i%benchRound], uint64(i)<<8, int64(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, _, _, err := s.Get(keys[i%benchRound]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkVersioned(b *testing.B) {
	l := state.Layout{Kind: state.VersionedKind, Retention: 1 << 30}
	task, keys := benchKind(b, l)
	s := state.NewVersioned(task.Store("s"), text{}, number{}, l)
	put := func(late int64) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%benchRound == 0 {
					task.Drop()
				}
				if _, err := s.Put(keys[i%benchRound], uint64(i)<<8, int64(i)+late-int64(i&1)*late); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("put in order", put(0))
	b.Run("put every second late", put(1000))
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, _, _, err := s.Get(keys[i%benchRound]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get of a hot key", func(b *testing.B) {
		task.Drop()
		for i := range int64(1000) {
			if _, err := s.Put("hot", 1, i); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, err := s.Get("hot"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDedupe(b *testing.B) {
	task, keys := benchKind(b, dedupeLayout)
	s := state.NewDedupe(task.Store("s"), text{}, number{}, dedupeLayout)
	for _, step := range []int64{1, 0} {
		name := map[int64]string{1: "absent", 0: "present"}[step]
		b.Run(name, func(b *testing.B) {
			task.Drop()
			task.Store("s").Advance(3 * dedupeLayout.Retention)
			at := task.Store("s").StreamTime()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[0]
				if step > 0 {
					if key = keys[i%benchRound]; i%benchRound == 0 {
						task.Drop()
						task.Store("s").Advance(at)
					}
				}
				if _, _, err := s.PutIfAbsent(key, 1<<8, at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
