package throughput

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// lookInterval is how often the committed offsets are looked at.
	lookInterval = 20 * time.Millisecond
	// stallMax is how long nothing may be committed before the watching ends: what has stopped
	// would else be waited for for ever. It is beyond a session timeout.
	stallMax = 2 * time.Minute
	// steadyFrom is the share of the records that comes before the steady state.
	steadyFrom = 0.25
)

// ErrStalled says that nothing was committed for two minutes.
var ErrStalled = errors.New("nothing is committed any more")

// Usage is the resources used up to a moment. Unknown values are zero.
type Usage struct {
	// CPU is the processor time of the application, Broker that of the brokers.
	CPU, Broker time.Duration
}

func (u Usage) since(o Usage) Usage { return Usage{CPU: u.CPU - o.CPU, Broker: u.Broker - o.Broker} }

// WatchConfig says who is watched.
type WatchConfig struct {
	Brokers []string
	// Application is the consumer group, and what the names of its repartition topics begin with.
	Application string
	In          string
	// Out is the output. Behind repartition topics, the end is when its last record came. Records
	// that are committed later have led to nothing, and an application need not hurry with them.
	Out string
	// Until is the number of committed records, of all partitions of In together, at which the
	// watching ends.
	Until int64
	// Usage is asked at the start, at the beginning of the steady state and at the end. It may be
	// nil.
	Usage func() (Usage, error)
	// Steady is called when the steady state begins. It may be nil, and has to return at once.
	Steady func()
}

// Span is a time with what was done in it.
type Span struct {
	Records          int64   `json:"records"`
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
	CPUSeconds       float64 `json:"cpu_seconds,omitempty"`
	BrokerCPUSeconds float64 `json:"broker_cpu_seconds,omitempty"`
}

// Progress is what Watch has seen.
type Progress struct {
	// Span is from the call of Watch to the end. Records are those that were committed in it: an
	// application that was there before has committed others.
	Span
	// ToFirstCommit is how many seconds it took until something was committed.
	ToFirstCommit float64 `json:"to_first_commit_seconds"`
	Steady        Span    `json:"steady"`
}

// shortest is how long a steady state has to be for its rate to say something: the commits at both
// its ends are up to 100 ms apart.
const shortest = 5 * time.Second

// Brief says that the steady state was too short for its rate to say anything.
func (p Progress) Brief() bool { return p.Steady.Seconds < shortest.Seconds() }

// moment is a look at the offsets.
type moment struct {
	at      time.Time
	records int64
	usage   Usage
}

// to returns the span between two moments.
func (m moment) to(o moment) Span {
	s := Span{Records: o.records - m.records, Seconds: o.at.Sub(m.at).Seconds()}
	if s.Seconds > 0 {
		s.RecordsPerSecond = float64(s.Records) / s.Seconds
	}
	used := o.usage.since(m.usage)
	s.CPUSeconds, s.BrokerCPUSeconds = used.CPU.Seconds(), used.Broker.Seconds()
	return s
}

// Watch follows the group's committed offsets from now on until so many records are committed, and
// through the repartition topics. Call it before the application is started. It fails with
// [ErrStalled] if nothing is committed for two minutes.
func Watch(ctx context.Context, cfg WatchConfig) (Progress, error) {
	c, err := connect(cfg.Brokers)
	if err != nil {
		return Progress{}, err
	}
	defer c.close()
	w := &watcher{cfg: cfg, cluster: c}
	partitions, err := c.partitions(ctx, cfg.In)
	if err == nil && partitions == 0 {
		err = fmt.Errorf("%w: there is no topic %s", ErrUnusable, cfg.In)
	}
	if err != nil {
		return Progress{}, err
	}
	w.partitions = int(partitions)
	return w.watch(ctx)
}

type watcher struct {
	cfg        WatchConfig
	cluster    *cluster
	partitions int
}

func (w *watcher) watch(ctx context.Context) (p Progress, err error) {
	begin, err := w.look(ctx)
	if err != nil {
		return p, err
	}
	if begin.records >= w.cfg.Until {
		return p, fmt.Errorf("%w: application %s has committed %d records of %s before, which are not below %d", ErrUnusable,
			w.cfg.Application, begin.records, w.cfg.In, w.cfg.Until)
	}
	if begin.usage, err = w.usage(); err != nil {
		return p, err
	}
	quarter := begin.records + int64(steadyFrom*float64(w.cfg.Until-begin.records))
	first, err := w.await(ctx, begin.records+1)
	if err != nil {
		return p, err
	}
	steady, err := w.await(ctx, max(quarter, begin.records+1))
	if err != nil {
		return p, err
	}
	if w.cfg.Steady != nil {
		w.cfg.Steady()
	}
	if steady.usage, err = w.usage(); err != nil {
		return p, err
	}
	end, err := w.await(ctx, w.cfg.Until)
	if err != nil {
		return p, err
	}
	if end.usage, err = w.usage(); err != nil {
		return p, err
	}
	if end, err = w.awaitShuffled(ctx, end); err != nil {
		return p, err
	}
	return Progress{Span: begin.to(end), ToFirstCommit: first.at.Sub(begin.at).Seconds(), Steady: steady.to(end)}, nil
}

func (w *watcher) look(ctx context.Context) (moment, error) {
	offsets, err := w.cluster.committed(ctx, w.cfg.Application, w.cfg.In, w.partitions)
	return moment{at: time.Now(), records: sum(offsets)}, err
}

func (w *watcher) usage() (Usage, error) {
	if w.cfg.Usage == nil {
		return Usage{}, nil
	}
	return w.cfg.Usage()
}

// await returns the first look that finds so many records committed.
func (w *watcher) await(ctx context.Context, records int64) (m moment, err error) {
	err = w.poll(ctx, fmt.Sprintf("%d records of %s to be committed", records, w.cfg.In), func() (int64, bool, error) {
		var err error
		m, err = w.look(ctx)
		return m.records, m.records >= records, err
	})
	return m, err
}

// awaitShuffled waits until everything in the repartition topics is committed, too. In a join by a
// foreign key, records of one topic lead to records in another one. So it looks at all topics until
// none has grown. It returns the moment of the last output, or end if there are no such topics.
func (w *watcher) awaitShuffled(ctx context.Context, end moment) (moment, error) {
	shuffles, err := w.cluster.repartitionTopics(ctx, w.cfg.Application)
	if err != nil || len(shuffles) == 0 {
		return end, err
	}
	last := &lastOutput{watcher: w, moment: end}
	if err := last.look(ctx, w.cluster.ends); err != nil {
		return end, err
	}
	seen := map[string][]int64{}
	for more := true; more; {
		more = false
		for _, topic := range shuffles {
			ends, err := w.cluster.dataEnds(ctx, w.cfg.Brokers, topic)
			if err != nil {
				return end, err
			}
			if reach(seen[topic], ends) {
				continue
			}
			if err := last.awaitCommitted(ctx, topic, ends); err != nil {
				return end, err
			}
			seen[topic], more = ends, true
		}
	}
	// Markers in the output may come a little later than the offsets of their transaction.
	err = last.look(ctx, w.cluster.settledEnds)
	return last.moment, err
}

// lastOutput is the moment at which the output has become longer the last time.
type lastOutput struct {
	*watcher
	moment
	end int64
}

func (l *lastOutput) look(ctx context.Context, ends func(ctx context.Context, topic string) ([]int64, error)) error {
	now, err := ends(ctx, l.cfg.Out)
	if err != nil || sum(now) == l.end {
		return err
	}
	l.end, l.at = sum(now), time.Now()
	l.moment.usage, err = l.watcher.usage()
	return err
}

// awaitCommitted waits until the group has committed the ends of a topic.
func (l *lastOutput) awaitCommitted(ctx context.Context, topic string, ends []int64) error {
	return l.poll(ctx, "the records of "+topic+" to be committed", func() (int64, bool, error) {
		offsets, err := l.cluster.committed(ctx, l.cfg.Application, topic, len(ends))
		if err != nil {
			return 0, false, err
		}
		return sum(offsets), reach(offsets, ends), l.look(ctx, l.cluster.ends)
	})
}

// reach reports whether the offsets of all partitions have reached the ends. An offset that is not
// there is 0.
func reach(offsets, ends []int64) bool {
	for p, end := range ends {
		if end > 0 && (p >= len(offsets) || offsets[p] < end) {
			return false
		}
	}
	return true
}

// poll looks until done. It gives up when the number that look returns does not change for too
// long.
func (w *watcher) poll(ctx context.Context, what string, look func() (progress int64, done bool, err error)) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	last, moved := int64(-1), time.Now()
	for {
		progress, done, err := look()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if done || err != nil {
			return err
		}
		if progress != last {
			last, moved = progress, time.Now()
		} else if time.Since(moved) > stallMax {
			return fmt.Errorf("waiting for %s: %w, at %d", what, ErrStalled, progress)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s, at %d: %w", what, progress, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
