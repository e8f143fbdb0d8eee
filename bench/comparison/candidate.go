package comparison

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/workload"
)

// kind is what a candidate is made of.
type kind string

const (
	kindOnceward kind = "onceward"
	kindStreams  kind = "streams"
	kindLoop     kind = "loop"
)

// Names of the candidates.
const (
	Onceward     = "onceward"
	Streams      = "streams"
	StreamsTuned = "streams tuned"
	StreamsSmall = "streams small"
	Loop         = "loop"
)

// candidateNames are all of them.
var candidateNames = []string{Onceward, Streams, StreamsTuned, StreamsSmall, streamsStatic, Loop}

// candidate is a way to run a workload.
type candidate struct {
	name string
	kind kind
	// tuning and heap are those of Kafka Streams.
	tuning streams.Tuning
	heap   string
}

// onceward is the one that every part has.
var onceward = candidate{name: Onceward, kind: kindOnceward}

// job is one application to run.
type job struct {
	workload    string
	application string
	in, out     string
	// dir is the process's own, of one instance: state and settings.
	dir string
	// cache bounds the memory of Onceward's state, 0 for the default.
	cache int64
	// cores is GOMAXPROCS, 0 for the default.
	cores int
}

// command returns what runs the job.
func (m *measurement) command(ctx context.Context, c candidate, j job) (*exec.Cmd, error) {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, err
	}
	if c.kind == kindStreams {
		return m.streams.Command(ctx, streams.Application{
			Class: "StreamsWorkload", ID: j.application, Brokers: m.cfg.Brokers, Dir: j.dir, Heap: c.heap, Tuning: c.tuning,
			Own: []string{"bench.workload=" + j.workload, "bench.in=" + j.in, "bench.out=" + j.out},
		})
	}
	cmd, err := measure.Self(ctx, envInstance, settings{
		Kind: c.kind, Brokers: m.cfg.Brokers, Workload: j.workload, Application: j.application, In: j.in, Out: j.out,
		StateDir: stateDir(j.dir), CacheBytes: j.cache,
	})
	if err == nil && j.cores > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOMAXPROCS=%d", j.cores))
	}
	return cmd, err
}

// stateDir is where an instance of Onceward has its state, in its directory.
func stateDir(dir string) string { return filepath.Join(dir, "state") }

// candidates are those of a workload, in the order of the first round.
func (m *measurement) candidates(w workload.Workload) []candidate {
	all := []candidate{onceward}
	if m.cfg.Streams != nil {
		choice, _ := m.choices.choice(w)
		all = append(all, candidate{name: Streams, kind: kindStreams, tuning: streams.Tuning{Name: "defaults"}},
			candidate{name: StreamsTuned, kind: kindStreams, tuning: choice.Tuning, heap: choice.Heap})
		if choice.SmallHeap != choice.Heap {
			all = append(all, candidate{name: StreamsSmall, kind: kindStreams, tuning: choice.Tuning, heap: choice.SmallHeap})
		}
	}
	if w.Name == "pass" {
		all = append(all, candidate{name: Loop, kind: kindLoop})
	}
	return m.chosen(all)
}

// chosen are those that take part.
func (m *measurement) chosen(all []candidate) []candidate {
	return slices.DeleteFunc(all, func(c candidate) bool { return m.cfg.Only != nil && !slices.Contains(m.cfg.Only, c.name) })
}
