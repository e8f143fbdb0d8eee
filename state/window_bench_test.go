package state_test

import (
	"strconv"
	"testing"

	"github.com/onceward/onceward/state"
)

// benchNames are keys with a few bytes, as texts.
func benchNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "customer-" + strconv.Itoa(i)
	}
	return names
}

// benchStart is late in a segment.
const benchStart = 590_000

// benchWindows returns a store in which each of the keys has ten windows: within one segment, or
// over all three that are alive.
func benchWindows(b *testing.B, names []string, step int64) (state.Window[string, uint64], *state.Task) {
	b.Helper()
	w, task := newWindow(b)
	for i := range int64(10) {
		for _, name := range names {
			putWindow(b, w, name, benchStart+i*step, 1)
		}
	}
	return w, task
}

// BenchmarkWindowPut overwrites windows of the open round, with a savepoint for each.
func BenchmarkWindowPut(b *testing.B) {
	names := benchNames(1000)
	w, task := benchWindows(b, names, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		task.Mark()
		if _, err := w.Put(names[i%len(names)], benchStart, uint64(i)<<8, benchStart); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWindowGet reads from the open round.
func BenchmarkWindowGet(b *testing.B) {
	names := benchNames(1000)
	w, _ := benchWindows(b, names, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, ok, err := w.Get(names[i%len(names)], benchStart); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkWindowFetch reads the ten windows of a key, in one segment and over three, of a store
// whose rows are committed. One operation is one Fetch.
func BenchmarkWindowFetch(b *testing.B) {
	for name, step := range map[string]int64{"one segment": 1000, "three segments": 13_000} {
		b.Run(name, func(b *testing.B) {
			names := benchNames(1000)
			w, task := benchWindows(b, names, step)
			l := task.Freeze()
			if err := task.Apply(l, at(0), at(1)); err != nil {
				b.Fatal(err)
			}
			task.Retire(l)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				n := 0
				for _, err := range w.Fetch(names[i%len(names)], benchStart, benchStart+9*step) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 10 {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkSessionMerge is the work of one record that extends a session: find it, delete it, put
// the longer one.
func BenchmarkSessionMerge(b *testing.B) {
	names := benchNames(1000)
	s, task := newSession(b)
	for _, name := range names {
		putSession(b, s, name, 0, 1, 1)
	}
	ends := make([]int64, len(names))
	for i := range ends {
		ends[i] = 1
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%10_000 == 9999 { // rounds have an end
			l := task.Freeze()
			p := task.Positions()
			if err := task.Apply(l, p, p); err != nil {
				b.Fatal(err)
			}
			task.Retire(l)
		}
		k := i % len(names)
		end := ends[k]
		for e, err := range s.Find(names[k], end-10, end+10) {
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Delete(names[k], e.Start, e.End); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := s.Put(names[k], 0, end+1, 1); err != nil {
			b.Fatal(err)
		}
		ends[k]++
	}
}
