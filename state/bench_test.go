package state_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// benchKeys are 16 bytes long, as the keys of the reference measurements.
func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = make([]byte, 16)
		binary.BigEndian.PutUint64(keys[i][8:], uint64(i)*7919)
	}
	return keys
}

// benchRound is the number of keys of a round at heavy load.
const benchRound = 10_000

func benchTask(b *testing.B) *state.Task {
	b.Helper()
	task, err := state.NewTask(memstore.New(), state.KeyValues("s", "t"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := task.Close(); err != nil {
			b.Error(err)
		}
	})
	return task
}

// BenchmarkPut writes rounds of new keys; a round is dropped at its end, so the cost of its memory
// is in here.
func BenchmarkPut(b *testing.B) {
	task, keys, value := benchTask(b), benchKeys(benchRound), make([]byte, 100)
	s := task.Store("s")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%benchRound == 0 {
			task.Drop()
		}
		if err := s.Put(keys[i%benchRound], value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverwrite writes keys that the round has written before, with a savepoint for each.
func BenchmarkOverwrite(b *testing.B) {
	task, keys, value := benchTask(b), benchKeys(benchRound), make([]byte, 100)
	s := task.Store("s")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		task.Mark()
		if err := s.Put(keys[i%benchRound], value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet reads keys from each of the layers.
func BenchmarkGet(b *testing.B) {
	for _, layer := range []string{"open", "frozen", "memstore", "absent"} {
		b.Run(layer, func(b *testing.B) {
			task, keys, value := benchTask(b), benchKeys(benchRound), make([]byte, 100)
			s := task.Store("s")
			if layer != "absent" {
				for _, key := range keys {
					if err := s.Put(key, value); err != nil {
						b.Fatal(err)
					}
				}
			}
			switch layer {
			case "frozen":
				task.Freeze()
			case "memstore":
				l := task.Freeze()
				if err := task.Apply(l, at(0), at(1)); err != nil {
					b.Fatal(err)
				}
				task.Retire(l)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, ok, err := s.Get(keys[i%benchRound])
				if err != nil || ok == (layer == "absent") {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkRecord is what the state of a typical record costs: a savepoint, two reads, two writes.
func BenchmarkRecord(b *testing.B) {
	for _, outcome := range []string{"accepted", "reverted"} {
		b.Run(outcome, func(b *testing.B) {
			task, keys, value := benchTask(b), benchKeys(benchRound), make([]byte, 100)
			s, u := task.Store("s"), task.Store("t")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[i%benchRound]
				if i%benchRound == 0 {
					task.Drop()
				}
				task.Mark()
				for _, store := range []state.Bytes{s, u} {
					if _, _, err := store.Get(key); err != nil {
						b.Fatal(err)
					}
					if err := store.Put(key, value); err != nil {
						b.Fatal(err)
					}
				}
				if outcome == "reverted" {
					task.Revert()
				}
			}
		})
	}
}

// BenchmarkFreeze is the cost of a round beside its writes: freezing, and sorting the layer for the
// changelog.
func BenchmarkFreeze(b *testing.B) {
	for _, n := range []int{0, 1, 100, benchRound} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			task, keys, value := benchTask(b), benchKeys(n), make([]byte, 100)
			s := task.Store("s")
			b.ReportAllocs()
			for b.Loop() {
				for _, key := range keys {
					if err := s.Put(key, value); err != nil {
						b.Fatal(err)
					}
				}
				got := 0
				for range task.Freeze().Writes() {
					got++
				}
				if got != n {
					b.Fatal(got)
				}
				task.Drop()
			}
		})
	}
}

// BenchmarkScan reads ten entries over an open round of the given size.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{0, 100, benchRound} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			task, keys, value := benchTask(b), benchKeys(benchRound), make([]byte, 100)
			s := task.Store("s")
			for _, key := range keys {
				if err := s.Put(key, value); err != nil {
					b.Fatal(err)
				}
			}
			l := task.Freeze()
			if err := task.Apply(l, at(0), at(1)); err != nil {
				b.Fatal(err)
			}
			task.Retire(l)
			for _, key := range keys[:n] {
				if err := s.Put(key, value); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				from := (i * 97) % (benchRound - 10)
				got := 0
				for _, err := range s.Scan(state.Range{From: keys[from], To: keys[from+10]}) {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if got != 10 {
					b.Fatal(got)
				}
			}
		})
	}
}
