package comparison

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/workload"
)

// ScalingConfig is how it is measured what more of something costs Onceward, on the workload
// ledger.
type ScalingConfig struct {
	// Records is how many records a variant reads. The variant with large state reads a quarter of
	// them: it is bound by reads of tables that are not in memory, and its cache is smaller in
	// proportion.
	Records int64
	// Rounds is how often the variants take turns.
	Rounds int
}

// Names of the variants.
const (
	scaleBase       = "base"
	scalePartitions = "64 partitions"
	scaleKeys       = "ten times the keys"
	scaleRows       = "state four times the memory"
	scaleZipf       = "Zipf keys"
	scaleCore       = "one process on one core"
	scaleProcesses  = "two processes on one core each"
)

const (
	manyPartitions = 64
	manyKeys       = 10
	// rowBytes is about what a row of the inbox takes: the id, its hash and the timestamp. Nearly
	// all of the state is such rows.
	rowBytes   = 64
	overMemory = 4
	fewer      = 4
	// cacheMin is what a task's database needs to work at all.
	cacheMin = 16 << 20
)

// Scaling is one variant.
type Scaling struct {
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
	// Records is 0 in results of older builds.
	Records int64          `json:"records,omitempty"`
	Input   workload.Input `json:"input"`
	// Processes and Cores are 0 for one process at the default of GOMAXPROCS, CacheBytes for the
	// default of the cache.
	Processes  int   `json:"processes,omitempty"`
	Cores      int   `json:"cores,omitempty"`
	CacheBytes int64 `json:"cache_bytes,omitempty"`
	Runs       []Run `json:"runs"`
	// Loads are the machine's load averages before the runs.
	Loads []string `json:"loads"`
}

// variants are what is compared.
func (m *measurement) variants() []Scaling {
	more, skewed := m.cfg.Input, m.cfg.Input
	more.Keys *= manyKeys
	skewed.Distribution = workload.Zipf
	partitions, records := m.cfg.Partitions, m.cfg.Scaling.Records
	few := max(1, records/fewer)
	bounded := max(cacheMin, few*rowBytes/overMemory)
	return []Scaling{
		{Name: scaleBase, Partitions: partitions, Records: records, Input: m.cfg.Input},
		{Name: scalePartitions, Partitions: manyPartitions, Records: records, Input: m.cfg.Input},
		{Name: scaleKeys, Partitions: partitions, Records: records, Input: more},
		{Name: scaleRows, Partitions: partitions, Records: few, Input: m.cfg.Input, CacheBytes: bounded},
		{Name: scaleZipf, Partitions: partitions, Records: records, Input: skewed},
		{Name: scaleCore, Partitions: partitions, Records: records, Input: m.cfg.Input, Cores: 1},
		{Name: scaleProcesses, Partitions: partitions, Records: records, Input: m.cfg.Input, Cores: 1, Processes: 2},
	}
}

// scale runs the variants in turns.
func (m *measurement) scale(ctx context.Context) error {
	cfg := m.cfg.Scaling
	if cfg == nil {
		return nil
	}
	w, err := workload.Find(loadWorkload)
	if err != nil {
		return err
	}
	all := m.variants()
	for n := range cfg.Rounds {
		for i := range all {
			s := &all[(n+i)%len(all)]
			in, err := m.input(ctx, w, s.Records, s.Partitions, s.Input)
			if err != nil {
				return err
			}
			s.Loads = append(s.Loads, latency.LoadAverage())
			r, err := m.run(ctx, onceward, in, variant{processes: s.Processes, cores: s.Cores, cache: s.CacheBytes})
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			m.say("%-31s  round %d  %s", s.Name, n+1, r)
			s.Runs = append(s.Runs, r)
		}
	}
	m.result.Scaling = all
	return nil
}
