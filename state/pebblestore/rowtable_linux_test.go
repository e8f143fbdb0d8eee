//go:build cgo

package pebblestore

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// TestRowTableGivesItsMemoryBack, which no collector does where it is C's: a process that opens
// databases again and again would grow. Without cgo segments are the collector's, and what the
// process holds says when it ran.
func TestRowTableGivesItsMemoryBack(t *testing.T) {
	const limit, times = 4 << 20, 100
	resident := func() int64 {
		t.Helper()
		data, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		var size, pages int64
		if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
			t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	value := make([]byte, rowBytesMax-8)
	for i := range value {
		value[i] = 1
	}
	before := resident()
	for range times {
		var table rowTable
		for n := range uint64(2000) {
			key := binary.BigEndian.AppendUint64(nil, n)
			table.put(hashOf(key), key, value, limit)
		}
		if held := table.held(); held < limit/2 {
			t.Fatalf("%d bytes are held", held)
		}
		for n := int64(limit); table.live > 1; n /= 2 {
			table.shrink(n)
		}
		table.clear()
	}
	if grown := resident() - before; grown > times*limit/2 {
		t.Errorf("the process has grown by %d MiB", grown>>20)
	}
}
