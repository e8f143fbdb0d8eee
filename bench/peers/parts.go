package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Parts of a measurement beside the comparisons, whose names are those of their workloads.
const (
	partLatency  = "latency"
	partRecovery = "recovery"
	partRestore  = "restore"
	partScaling  = "scaling"
)

// Occasion is when, on what and by which command a part was measured. What is compared with each other is of one.
type Occasion struct {
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	Command string    `json:"command"`
}

// Select leaves of a measurement the parts with these names: workloads, latency, recovery, restore and scaling. No names leave it as it is.
func (c *Config) Select(parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	all := append(slices.Clone(compared), flights, partLatency, partRecovery, partRestore, partScaling)
	c.Workloads = []string{}
	for _, part := range parts {
		if !slices.Contains(all, part) {
			return fmt.Errorf("there is no part %q; there are %s", part, strings.Join(all, ", "))
		}
		if slices.Index(all, part) <= len(compared) {
			c.Workloads = append(c.Workloads, part)
		}
	}
	for _, other := range []struct {
		part string
		drop func()
	}{
		{partLatency, func() { c.Latency = nil }},
		{partRecovery, func() { c.Recovery = nil }},
		{partRestore, func() { c.Restore = nil }},
		{partScaling, func() { c.Scaling = nil }},
	} {
		if !slices.Contains(parts, other.part) {
			other.drop()
		}
	}
	return nil
}

// part is a step of a measurement.
type part struct {
	name    string
	measure func(context.Context) error
}

// parts are the steps of this one.
func (m *measurement) parts() ([]part, error) {
	workloads, err := m.workloads()
	if err != nil {
		return nil, err
	}
	var all []part
	for n, w := range workloads {
		all = append(all, part{w.Name, func(ctx context.Context) error {
			c, err := m.compare(ctx, w, n == 0)
			if err == nil {
				m.result.Comparisons = append(m.result.Comparisons, c)
			}
			return err
		}})
	}
	for _, other := range []struct {
		part
		wanted bool
	}{
		{part{partLatency, m.latencies}, m.cfg.Latency != nil},
		{part{partRecovery, m.recoveries}, m.cfg.Recovery != nil},
		{part{partRestore, m.restore}, m.cfg.Restore != nil},
		{part{partScaling, m.scale}, m.cfg.Scaling != nil},
	} {
		if other.wanted {
			all = append(all, other.part)
		}
	}
	return all, nil
}

// do measures a part, and tells Done what there is then.
func (m *measurement) do(ctx context.Context, p part) error {
	at := time.Now().UTC()
	if err := p.measure(ctx); err != nil {
		return fmt.Errorf("comparing with peers: %s: %w", p.name, err)
	}
	m.result.Measured[p.name] = Occasion{Time: at, Machine: m.result.Machine, Command: m.cfg.Command}
	if m.cfg.Done == nil {
		return nil
	}
	return m.cfg.Done(m.result)
}

// With returns the result with the parts of an earlier one that it does not have itself.
func (r Result) With(earlier Result) Result {
	out := r
	out.Measured, out.Choices, out.Comparisons = map[string]Occasion{}, Choices{}, nil
	maps.Copy(out.Choices, r.Choices)
	maps.Copy(out.Measured, earlier.Measured)
	maps.Copy(out.Measured, r.Measured)
	for _, name := range append(slices.Clone(compared), flights) {
		named := func(c Comparison) bool { return c.Workload == name }
		if i := slices.IndexFunc(r.Comparisons, named); i >= 0 {
			out.Comparisons = append(out.Comparisons, r.Comparisons[i])
		} else if i := slices.IndexFunc(earlier.Comparisons, named); i >= 0 {
			out.Comparisons = append(out.Comparisons, earlier.Comparisons[i])
			if choice, there := earlier.Choices[name]; there { // what it was measured with, whatever a sweep has found since
				out.Choices[name] = choice
			}
		}
	}
	kept := func(name string) bool { _, measured := r.Measured[name]; return !measured }
	if kept(partLatency) {
		out.Latency = earlier.Latency
	}
	if kept(partRecovery) {
		out.Recovery = earlier.Recovery
	}
	if kept(partRestore) {
		out.Restore = earlier.Restore
	}
	if kept(partScaling) {
		out.Scaling = earlier.Scaling
	}
	return out
}

// Earlier returns the result that Write has left in the directory; an empty one if there is none.
func Earlier(dir string) (r Result, err error) {
	file := filepath.Join(dir, reportName+".json")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Result{}, fmt.Errorf("an earlier result: %s: %w; move it away to begin anew", file, err)
	}
	return r, nil
}
