package soak

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/txn"
)

// sample records the partitions whose last stable offset is behind, once a second. A broker that
// does not answer is no sample.
func (r *run) sample(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	names := make([]string, 0, len(r.topics))
	for topic := range r.topics {
		names = append(names, topic)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		stable, err := r.cluster.Admin().ListCommittedOffsets(asking, names...)
		var ends kadm.ListedOffsets
		if err == nil {
			ends, err = r.cluster.Admin().ListEndOffsets(asking, names...)
		}
		cancel()
		if err != nil {
			continue
		}
		ends.Each(func(o kadm.ListedOffset) {
			if s, ok := stable.Lookup(o.Topic, o.Partition); ok && s.Err == nil && o.Err == nil && s.Offset < o.Offset {
				r.history.Write(check.Event{Log: &check.Sample{Topic: o.Topic, Partition: o.Partition, Stable: s.Offset, End: o.Offset}})
			}
		})
	}
}

// measure looks at what the processes use, every two seconds.
func (r *run) measure(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, p := range r.processes {
			if resident, files := p.Usage(); resident > 0 {
				r.figures.add(usageSample{time.Since(r.history.Began()), p.Flags.Instance, "resident", resident})
				r.figures.add(usageSample{time.Since(r.history.Began()), p.Flags.Instance, "files", int64(files)})
			}
		}
	}
}

// figures collects what instances use and count.
type figures struct {
	mu      sync.Mutex
	began   time.Time
	samples []usageSample
	last    map[string]txn.Totals // of the current life of an instance
	sum     txn.Totals            // of the lives before
}

type usageSample struct {
	at       time.Duration
	instance string
	what     string
	value    int64
}

func newFigures() *figures { return &figures{began: time.Now(), last: map[string]txn.Totals{}} }

func (f *figures) add(s usageSample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples = append(f.samples, s)
}

// line reads a line that an instance printed. Totals start again with each incarnation.
func (f *figures) line(instance string, l testapp.Line) {
	f.add(usageSample{time.Since(f.began), instance, "goroutines", int64(l.Goroutines)})
	f.add(usageSample{time.Since(f.began), instance, "heap", int64(l.Heap)})
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.last[instance]; l.Totals.Commits < before.Commits {
		f.sum = plus(f.sum, before)
	}
	f.last[instance] = l.Totals
}

// totals sums all incarnations. The part between an instance's last line and its end is missing.
func (f *figures) totals() txn.Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.sum
	for _, t := range f.last {
		sum = plus(sum, t)
	}
	return sum
}

func plus(a, b txn.Totals) txn.Totals {
	return txn.Totals{
		Records: a.Records + b.Records, Outputs: a.Outputs + b.Outputs, DeadLetters: a.DeadLetters + b.DeadLetters,
		Commits: a.Commits + b.Commits, Aborts: a.Aborts + b.Aborts, Retries: a.Retries + b.Retries,
	}
}

// usage is how much of a resource all instances used: the medians of the second and of the last
// quarter of the run (the first one is the start), and the maximum. Unlimited growth shows as a
// difference of the two medians.
type usage struct {
	What               string
	Second, Last, Most int64
}

func (f *figures) usage() []usage {
	f.mu.Lock()
	defer f.mu.Unlock()
	var end time.Duration
	for _, s := range f.samples {
		end = max(end, s.at)
	}
	var out []usage
	for _, what := range []string{"resident", "heap", "goroutines", "files"} {
		var second, last []int64
		u := usage{What: what}
		for _, s := range f.samples {
			if s.what != what {
				continue
			}
			u.Most = max(u.Most, s.value)
			switch quarter := 4 * s.at / max(end, 1); {
			case quarter == 1:
				second = append(second, s.value)
			case quarter >= 3:
				last = append(last, s.value)
			}
		}
		u.Second, u.Last = median(second), median(last)
		out = append(out, u)
	}
	return out
}

func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// restores counts the restores that the logs tell of.
func restores(processes []*testapp.Process) (int, error) {
	n := 0
	for _, p := range processes {
		log, err := os.ReadFile(p.LogPath)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n += bytes.Count(log, []byte("msg=restored "))
	}
	return n, nil
}

// outcome is what a run has led to.
type outcome struct {
	Seed     uint64
	Duration time.Duration
	Inputs   uint32
	Faults   faultCounts
	// Rebalances is the group's last generation. Totals are those of the instances, without what
	// they had not printed when they died.
	Rebalances int32
	Totals     txn.Totals
	Restores   int
	Usage      []usage
	// Findings are what went wrong beside the history: instances that ended by themselves, or did
	// not stop in order.
	Findings []error
	Report   *check.Report
}

// OK says that nothing was found.
func (s *outcome) OK() bool { return len(s.Findings) == 0 && s.Report.Anomalies() == 0 }

// String is the summary as a text of some lines.
func (s *outcome) String() string {
	var b strings.Builder
	f := s.Faults
	outputs := int64(0)
	for _, n := range s.Report.Outputs {
		outputs += n
	}
	fmt.Fprintf(&b, "seed %d, %s under faults\n", s.Seed, s.Duration)
	fmt.Fprintf(&b, "faults       %d kills, %d freezes, %d stops, %d stops that remain, %d joins and leaves, broker: %d kills, %d stops\n",
		f.Kills, f.Freezes, f.Stops, f.Remains, f.Joins, f.BrokerKills, f.BrokerStops)
	fmt.Fprintf(&b, "             %d instances ended by themselves, %d more while the broker was away\n", f.Unasked, f.GaveUp)
	fmt.Fprintf(&b, "records      %d in, %d out, longest pause of an output partition %.1f s\n",
		s.Report.Inputs, outputs, float64(s.Report.LongestPause)/1000)
	fmt.Fprintf(&b, "transactions %d committed, %d aborted in the log; instances told of %d aborted rounds, %d retries\n",
		s.Report.Committed, s.Report.Aborted, s.Totals.Aborts, s.Totals.Retries)
	fmt.Fprintf(&b, "group        %d generations, %d restores\n", s.Rebalances, s.Restores)
	fmt.Fprintf(&b, "judged       %d records of followers, %d states of stores (%d of them after kills)\n",
		s.Report.Reads, s.Report.States, f.Dumps)
	for _, u := range s.Usage {
		fmt.Fprintf(&b, "usage        %-10s second quarter %d, last quarter %d, most %d\n", u.What, u.Second, u.Last, u.Most)
	}
	for _, err := range s.Findings {
		fmt.Fprintf(&b, "FINDING      %v\n", err)
	}
	fmt.Fprintf(&b, "anomalies    %d\n", s.Report.Anomalies())
	if s.Report.Anomalies() > 0 {
		b.WriteString(s.Report.String())
	}
	return b.String()
}
