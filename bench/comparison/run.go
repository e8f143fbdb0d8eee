package comparison

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
)

// runTimeout is far beyond a good run, and ends one that a heap which is too small keeps from
// ending.
const runTimeout = 15 * time.Minute

var errRunTimeout = fmt.Errorf("not through within %s", runTimeout)

// Run is one candidate's way through one input. Records, times and processor time are those that
// were seen from outside.
type Run struct {
	Candidate string `json:"candidate"`
	throughput.Progress
	// PeakRSS is in bytes, at the end; 0 where there is no VmHWM. That of several processes is
	// their sum.
	PeakRSS int64 `json:"peak_rss_bytes"`
	// Outputs is how many records it has written. All of them were compared.
	Outputs int64 `json:"outputs"`
	// Commits and Aborts are Onceward's own count of its transactions.
	Commits int64 `json:"commits,omitempty"`
	Aborts  int64 `json:"aborts,omitempty"`

	deadLetters int64
}

// Rate is records per second of the steady state, and of the whole run if it was over before one
// was seen.
func (r Run) Rate() float64 {
	if r.Steady.RecordsPerSecond > 0 {
		return r.Steady.RecordsPerSecond
	}
	return r.RecordsPerSecond
}

// AppCPU is the processor time of the application for a million records in the steady state, in
// seconds.
func (r Run) AppCPU() float64 { return perMillion(r.Steady.CPUSeconds, r.Steady.Records) }

// BrokerCPU is that of the broker; 0 if unknown.
func (r Run) BrokerCPU() float64 { return perMillion(r.Steady.BrokerCPUSeconds, r.Steady.Records) }

func perMillion(seconds float64, records int64) float64 {
	if records == 0 {
		return 0
	}
	return seconds / float64(records) * 1e6
}

// String is the run for people.
func (r Run) String() string {
	return fmt.Sprintf("%-13s  %7.1f k/s steady  %7.1f k/s from the start  first commit after %4.1f s  "+
		"CPU per million: %5.2f s, broker %5.2f s  peak %5.0f MiB", r.Candidate, r.Rate()/1e3, r.RecordsPerSecond/1e3,
		r.ToFirstCommit, r.AppCPU(), r.BrokerCPU(), measure.MiB(r.PeakRSS))
}

// variant is what differs from the ordinary run of one process.
type variant struct {
	// processes is their number, 0 for one.
	processes int
	// cores and cache are those of a job.
	cores int
	cache int64
}

// attempt is a run that is being made.
type attempt struct {
	*measurement
	who       candidate
	job       job
	input     input
	variant   variant
	dir       string
	processes processGroup
	result    Run
}

// run lets a candidate work through an input, and checks what it did. Nothing of it stays.
func (m *measurement) run(ctx context.Context, c candidate, in input, v variant) (_ Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, errRunTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(m.cfg.Dir, "run-")
	if err != nil {
		return Run{}, err
	}
	defer func() { err = joined(err, os.RemoveAll(dir)) }()
	v.processes = max(v.processes, 1)
	application := m.name(in.workload.Name, c.name)
	a := &attempt{
		measurement: m, who: c, input: in, variant: v, dir: dir, processes: processGroup{broker: m.cfg.BrokerPID}, result: Run{Candidate: c.name},
		job: job{
			workload: in.workload.Name, application: application, in: in.Topic, out: application + "-out", cores: v.cores, cache: v.cache,
		},
	}
	defer func() { err = m.deleteRun(ctx, application, err) }()
	if err := m.cluster.Create(ctx, in.Partitions, nil, a.job.out, deadTopic(application)); err != nil {
		return Run{}, err
	}
	debug.FreeOSMemory() // no garbage of the last check is collected during a measurement
	if err = a.race(ctx); err == nil {
		err = a.check(ctx)
	}
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", c.name, err)
	}
	return a.result, nil
}

// check compares the outputs, and the state, with what the input leads to. Of two processes each
// has a part of the state, so that only the outputs are compared.
func (a *attempt) check(ctx context.Context) error {
	cfg := throughput.CheckConfig{
		Brokers: a.cfg.Brokers, Workload: a.job.workload, In: a.job.in, Out: a.job.out, Until: a.input.Records,
	}
	alone := a.variant.processes == 1
	if a.who.kind == kindOnceward && alone {
		cfg.StateDir, cfg.Application = stateDir(processDir(a.dir, 0)), a.job.application
	}
	checked, err := throughput.Check(ctx, cfg)
	if err != nil {
		return err
	}
	a.result.Outputs = checked.Outputs
	if a.who.kind == kindStreams && alone {
		return compareStores(a.input.workload, a.processes.contents, checked)
	}
	if n := a.result.deadLetters; n > 0 {
		return fmt.Errorf("%w: %d records became dead letters", throughput.ErrWrong, n)
	}
	return nil
}

// log is the file that a process of a candidate writes its log to. The next run replaces it.
func (m *measurement) log(c candidate, n int) string {
	return filepath.Join(m.cfg.Dir, fmt.Sprintf("%s-%d.log", c.kind, n))
}

// processDir is the directory of a process of a run.
func processDir(dir string, n int) string { return filepath.Join(dir, fmt.Sprint("process-", n)) }

// race starts the processes, watches them until the input is committed, and ends them.
func (a *attempt) race(ctx context.Context) error {
	watched, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	done, begun := make(chan error, 1), make(chan struct{})
	go func() {
		first := sync.OnceFunc(func() { close(begun) })
		defer first()
		var err error
		a.result.Progress, err = throughput.Watch(watched, throughput.WatchConfig{
			Brokers: a.cfg.Brokers, Application: a.job.application, In: a.job.in, Out: a.job.out, Until: a.input.Records,
			Usage: func() (throughput.Usage, error) {
				defer first() // it is asked at the start
				return a.processes.usage()
			},
		})
		done <- err
	}()
	<-begun // so that everything from the start of the process on is seen
	if err := a.start(ctx, fail); err != nil {
		fail(err)
	}
	err := <-done
	if err == nil {
		a.result.PeakRSS, err = a.processes.peakRSS()
	} else {
		err = joined(err, context.Cause(watched)) // a request that was given up does not say why
	}
	if err == nil {
		err = a.processes.ask(a.who, &a.result)
	}
	return a.processes.end(err)
}

// start starts all processes, each with a directory of its own.
func (a *attempt) start(ctx context.Context, fail context.CancelCauseFunc) error {
	for n := range a.variant.processes {
		j := a.job
		j.dir = processDir(a.dir, n)
		cmd, err := a.command(ctx, a.who, j)
		if err != nil {
			return err
		}
		if err := a.processes.start(cmd, a.log(a.who, n), fail); err != nil {
			return err
		}
	}
	return nil
}

// deleteRun deletes the topics and the group of an application. After a failure it does not wait
// for the group.
func (m *measurement) deleteRun(ctx context.Context, application string, err error) error {
	ctx = context.WithoutCancel(ctx)
	failed := m.cluster.DeletePrefix(ctx, application+"-")
	if err == nil && failed == nil {
		if failed = m.cluster.AwaitEmpty(ctx, application); failed == nil {
			failed = m.cluster.DeleteGroup(ctx, application)
		}
	}
	return joined(err, failed)
}

// joined is errors.Join, but keeps a single error as it is.
func joined(err, more error) error {
	if more == nil {
		return err
	}
	return errors.Join(err, more)
}

var errStores = errors.New("a store holds something else than its input leads to")

// compareStores compares what the stores of Kafka Streams hold with what they have to.
func compareStores(w workload.Workload, got []storeReport, checked throughput.Checked) error {
	want := map[string]storeReport{}
	if w.Store != "" {
		sums := storeReport{Entries: int64(len(checked.Sums))}
		digest := uint64(0)
		for account, sum := range checked.Sums {
			value := binary.BigEndian.AppendUint64(nil, uint64(sum.Count))
			if w.Inbox != "" {
				value = binary.BigEndian.AppendUint64(value, uint64(sum.Balance))
			}
			digest += measure.HashEntry(account[:], value)
		}
		sums.Digest = strconv.FormatUint(digest, 16)
		name := "counts"
		if w.Inbox != "" {
			name = "balances"
		}
		want[name] = sums
	}
	if w.Inbox != "" {
		want["inbox"] = storeReport{Entries: checked.Events}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%w: %d stores are reported, and there should be %d", errStores, len(got), len(want))
	}
	for _, s := range got {
		must, there := want[s.Store]
		if must.Digest == "" { // of the ids only the number is compared: the outputs are those of the accepted ones
			s.Digest = ""
		}
		if !there || s.Entries != must.Entries || s.Digest != must.Digest {
			return fmt.Errorf("%w: store %s has %d entries with digest %q, and should have %d with %q", errStores, s.Store, s.Entries,
				s.Digest, must.Entries, must.Digest)
		}
	}
	return nil
}
