package pebblestore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/state"
)

const (
	memoryEnv                  = "ONCEWARD_TEST_MEMORY"
	memoryBudget               = 128 << 20
	memoryRows, memoryRowBytes = 300_000, 1 << 10
)

// TestMemoryStaysNearTheBudget claims that a process takes its budget and little more, with each
// allocator of Pebble, while it reads more than its cache holds and writes.
func TestMemoryStaysNearTheBudget(t *testing.T) {
	if dir := os.Getenv(memoryEnv); dir != "" {
		useMemory(t, dir)
		return
	}
	if RaceDetector {
		t.Skip("the race detector has memory of its own")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMemoryStaysNearTheBudget$", "-test.v")
	// What the machine has set for others would be measured too.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(set string) bool {
		name, _, _ := strings.Cut(set, "=")
		return slices.Contains([]string{"MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS"}, name)
	}), memoryEnv+"="+t.TempDir(), "GOMAXPROCS=4")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, taken, _ := strings.Cut(string(out), measuredMemory)
	var kib int64
	if _, err := fmt.Sscanf(taken, "%d kB", &kib); err != nil {
		t.Fatalf("the process did not say what it took: %v\n%s", err, out)
	}
	if kib<<10 > memoryBudget+allocatorBeside {
		t.Errorf("%s the process took %d MiB; its budget is %d MiB", measuredMemory, kib>>10, memoryBudget>>20)
	}
}

// useMemory fills a database, and reads and writes it from several goroutines.
func useMemory(t *testing.T, dir string) {
	shared := NewShared(memoryBudget, 100)
	defer shared.Close()
	db, err := Open(dir, Options{Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	store, noise := state.IDOf("s"), rand.NewChaCha8([32]byte{})
	err = db.Load(db.Positions(), at(1), store, func(yield func(state.Write) bool) {
		row := make([]byte, memoryRowBytes)
		for n := range uint64(memoryRows) {
			_, _ = noise.Read(row) // never fails
			if !yield(state.Write{Store: store, Key: binary.BigEndian.AppendUint64(nil, n), Value: row}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for seed := range uint64(8) {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 20_000 {
				key := binary.BigEndian.AppendUint64(nil, rng.Uint64N(memoryRows))
				if _, found, err := db.Get(store, key); !found || err != nil {
					t.Error(found, err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range int64(50) {
		err := db.Apply(db.Positions(), at(2+n), func(yield func(state.Write) bool) {
			for range 1000 {
				row := make([]byte, memoryRowBytes)
				_, _ = noise.Read(row) // never fails
				if !yield(state.Write{Store: store, Key: binary.BigEndian.AppendUint64(nil, rng.Uint64N(memoryRows)), Value: row}) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, measuredMemory) {
			fmt.Print(line)
		}
	}
}
