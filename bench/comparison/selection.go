package comparison

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

	"github.com/onceward/onceward/bench/workload"
)

// Parts of a measurement beside the comparisons, whose names are those of their workloads.
const (
	partLatency  = "latency"
	partRecovery = "recovery"
	partRestore  = "restore"
	partScaling  = "scaling"
)

// Occasion is when, on what and by which command a part was measured. Compared figures are of one
// occasion.
type Occasion struct {
	// Time is when the part began, and Run when that did which it is a part of.
	Time    time.Time `json:"time"`
	Run     time.Time `json:"run,omitzero"`
	Machine string    `json:"machine"`
	Command string    `json:"command"`
	// Revision says which Onceward was measured, if that is known.
	Revision string `json:"revision,omitempty"`
	// Broker, Streams, Java and Limits are those of the result that the part was measured for.
	// Results of older builds have them once, for all parts.
	Broker  string `json:"broker,omitempty"`
	Streams string `json:"streams_version,omitempty"`
	Java    string `json:"java_version,omitempty"`
	Limits  string `json:"limits,omitempty"`
}

// occasion is that of a part of the result which is measured at the time.
func (r Result) occasion(at time.Time) Occasion {
	return Occasion{
		Time: at, Run: r.Time, Machine: r.Machine, Command: r.Command, Revision: r.Revision,
		Broker: r.Broker, Streams: r.Streams, Java: r.Java, Limits: r.Limits.String(),
	}
}

// parts are the names of what the result has.
func (r Result) parts() (names []string) {
	for _, c := range r.Comparisons {
		names = append(names, c.Workload)
	}
	for name, there := range map[string]bool{
		partLatency: r.Latency != nil, partRecovery: r.Recovery != nil, partRestore: r.Restore != nil, partScaling: r.Scaling != nil,
	} {
		if there {
			names = append(names, name)
		}
	}
	return names
}

// details are what the parts of the occasion were measured with.
func (o Occasion) details() (out string) {
	if o.Revision != "" {
		out += "; Onceward " + o.Revision
	}
	if o.Broker != "" {
		out += "; " + o.Broker
	}
	if o.Streams != "" {
		out += "; Kafka Streams " + o.Streams
	}
	if o.Java != "" {
		out += ", " + o.Java
	}
	if o.Limits != "" {
		out += "; " + o.Limits
	}
	return out
}

// Select leaves of a measurement the parts with these names: workloads, latency, recovery, restore
// and scaling. No names leave it as it is.
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
	name string
	// workload is the one that a broker is warmed up with for it.
	workload string
	// candidates is how many take part. Of a part without any nothing is measured, and what an
	// earlier result has of it stays.
	candidates int
	measure    func(context.Context) error
}

// parts are the steps of this one.
func (m *measurement) parts() ([]part, error) {
	workloads, err := m.workloads()
	if err != nil {
		return nil, err
	}
	var all []part
	for _, w := range workloads {
		all = append(all, part{w.Name, w.Name, len(m.candidates(w)), func(ctx context.Context) error {
			c, err := m.compare(ctx, w)
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
		{part{partLatency, loadWorkload, len(m.latencyCandidates()), m.latencies}, m.cfg.Latency != nil},
		{part{partRecovery, loadWorkload, len(m.recoveryCandidates()), m.recoveries}, m.cfg.Recovery != nil},
		{part{partRestore, loadWorkload, 1, m.restore}, m.cfg.Restore != nil}, // Config.Only is not for it
		{part{partScaling, loadWorkload, len(m.chosen([]candidate{onceward})), m.scale}, m.cfg.Scaling != nil},
	} {
		if other.wanted {
			all = append(all, other.part)
		}
	}
	return all, nil
}

// warmUp lets Onceward work through the input of a workload: a new broker compiles its code on the
// same cores as the candidates. Its figures are not used.
func (m *measurement) warmUp(ctx context.Context, name string) error {
	w, err := workload.Find(name)
	if err != nil {
		return err
	}
	in, err := m.input(ctx, w, m.cfg.Records, m.cfg.Partitions, m.cfg.Input)
	if err != nil {
		return err
	}
	r, err := m.run(ctx, onceward, in, variant{})
	if err != nil {
		return fmt.Errorf("warming the broker up: %w", err)
	}
	m.say("warming up   %s", r)
	return nil
}

// do measures a part, and passes the result so far to Done.
func (m *measurement) do(ctx context.Context, p part) error {
	at := time.Now().UTC()
	if err := p.measure(ctx); err != nil {
		return fmt.Errorf("comparing with peers: %s: %w", p.name, err)
	}
	m.result.Measured[p.name] = m.result.occasion(at)
	if m.cfg.Done == nil {
		return nil
	}
	return m.cfg.Done(m.result)
}

// With returns the result with the parts of an earlier one that it does not have itself, and with
// what these were measured with.
func (r Result) With(earlier Result) Result {
	out := r
	out.Measured, out.Choices, out.Comparisons = map[string]Occasion{}, Choices{}, nil
	maps.Copy(out.Choices, r.Choices)
	maps.Copy(out.Measured, r.Measured)
	kept := func(name string) bool { _, measured := r.Measured[name]; return !measured }
	for name, o := range earlier.Measured {
		if !kept(name) {
			continue
		}
		if o.Broker == "" { // of an older build
			o.Broker, o.Streams, o.Java, o.Limits = earlier.Broker, earlier.Streams, earlier.Java, earlier.Limits.String()
		}
		out.Measured[name] = o
		if o.Streams != "" && r.Streams == "" { // measured again without Kafka Streams, which has runs in the kept parts
			out.Streams, out.Java = earlier.Streams, earlier.Java
		}
	}
	for _, name := range append(slices.Clone(compared), flights) {
		named := func(c Comparison) bool { return c.Workload == name }
		if i := slices.IndexFunc(r.Comparisons, named); i >= 0 {
			out.Comparisons = append(out.Comparisons, r.Comparisons[i])
		} else if i := slices.IndexFunc(earlier.Comparisons, named); i >= 0 {
			out.Comparisons = append(out.Comparisons, earlier.Comparisons[i])
			delete(out.Choices, name)
			if choice, there := earlier.Choices[name]; there { // what it was measured with, whatever a sweep has found since
				out.Choices[name] = choice
			}
		}
	}
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
		return Result{}, fmt.Errorf("an earlier result: %s: %w; move it away to start again", file, err)
	}
	if r.Measured == nil { // of a build that measured everything at once
		r.Measured = map[string]Occasion{}
		for _, name := range r.parts() {
			r.Measured[name] = r.occasion(r.Time)
		}
	}
	return r, nil
}
