package statecost

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// envInstance makes the program a process that works on a database, with the settings that it
// holds.
const envInstance = "ONCEWARD_STATE_INSTANCE"

const (
	// openFilesMax is that of the runtime.
	openFilesMax = 1000
	// growBatch is the number of writes that go into a growing database at a time.
	growBatch = 50_000
	// quietMax is how long a grown database is waited for to be quiet.
	quietMax = 5 * time.Minute
	// probes is the number of contributions that are looked for on either side of the positions
	// after a kill.
	probes = 1000
)

// job is what a process does.
type job string

const (
	grow   job = "grow"   // from From to Keys
	load   job = "load"   // Warmup and Records records
	endure job = "endure" // records until it is killed
	reopen job = "reopen" // open, and look
)

// settings are what a process is told.
type settings struct {
	Job             job
	Path            string
	CacheBytes      int64
	From, Keys      Keys
	Workload        Workload
	Warmup, Records int64
	Audit           bool
	Quiet           time.Duration
}

// opened is what a process reports when its database is open.
type opened struct {
	// Took is the time of Open and NewTask.
	Took time.Duration
	// Applied is the number of records that the database contains.
	Applied int64
}

// RunInstance makes this program a process that works on a database, and exits, if [Measure] has
// started it as such. A program that calls Measure calls it first: they are the same executable.
func RunInstance() { measure.Run(envInstance, settings.run) }

// run opens the database, reports that, and does the job.
func (s settings) run() (err error) {
	began := time.Now()
	shared := pebblestore.NewShared(s.CacheBytes, openFilesMax)
	defer shared.Close()
	db, err := pebblestore.Open(s.Path, pebblestore.Options{Shared: shared})
	if err != nil {
		return err
	}
	task, err := state.NewTask(db, state.KeyValues(balances, contributions))
	if err != nil {
		return errors.Join(err, db.Close())
	}
	took := time.Since(began)
	defer func() { err = errors.Join(err, task.Close()) }()
	if err := measure.Report(opened{Took: took, Applied: applied(db.Positions())}); err != nil {
		return err
	}
	switch s.Job {
	case grow:
		err = s.grow(db)
	case load:
		err = s.load(task, shared)
	case endure:
		err = s.endure(task)
	case reopen:
		if err = s.look(task); err == nil {
			err = measure.Report(true)
		}
	default:
		err = fmt.Errorf("there is no job %q", s.Job)
	}
	if err == nil {
		measure.AwaitEnd()
	}
	return err
}

// applied returns how many records the database contains, by its positions.
func applied(p state.Positions) int64 {
	if len(p.Inputs) == 0 {
		return 0
	}
	return p.Inputs[0].Offset
}

// next returns the positions after so many records more.
func next(base state.Positions, records int64) state.Positions {
	p := base.Clone()
	if len(p.Inputs) == 0 {
		p.Inputs = []state.Input{{Topic: "in", StreamTime: state.NoTime}}
	}
	p.Inputs[0].Offset += records
	return p
}

// grow adds accounts without postings, and contributions. It counts as no records.
func (s settings) grow(db state.Database) error {
	key := make([]byte, 0, keyBytes)
	for _, store := range []struct {
		name     string
		from, to int64
	}{
		{balances, s.From.accounts(), s.Keys.accounts()}, {contributions, s.From.contributions(), s.Keys.contributions()},
	} {
		for from := store.from; from < store.to; from += growBatch {
			base := db.Positions()
			err := db.Apply(base, next(base, 0), func(yield func(state.Write) bool) {
				for n := from; n < min(from+growBatch, store.to); n++ {
					if !yield(state.Write{Store: state.IDOf(store.name), Key: appendKey(key, n), Value: value(n, 0, 0)}) {
						return
					}
				}
			})
			if err != nil {
				return err
			}
		}
	}
	if err := db.Flush(); err != nil {
		return err
	}
	awaitQuiet(db, s.Quiet)
	m, _ := pebblestore.MetricsOf(db)
	return measure.Report(m)
}

// awaitQuiet waits until no compaction has ended for that long, but not for ever: a database that
// is never quiet can be measured too.
func awaitQuiet(db state.Database, quiet time.Duration) {
	tick := time.NewTicker(quiet / 20)
	defer tick.Stop()
	before, since, began := int64(-1), time.Now(), time.Now()
	for now := began; now.Sub(began) < quietMax && now.Sub(since) < quiet; now = <-tick.C {
		m, ok := pebblestore.MetricsOf(db)
		if !ok {
			return
		}
		if m.Compactions != before {
			before, since = m.Compactions, now
		}
	}
}

// worked is what a load reports.
type worked struct {
	Records int64
	// Process and Apply are the times of the parts of all rounds, Flush that of the last.
	Process, Apply, Flush time.Duration
	// Rounds are the times per record of each round, in nanoseconds, ascending.
	Rounds []float64
	Store  pebblestore.Metrics
	Cache  pebblestore.CacheMetrics
}

// load processes records and reports what they cost.
func (s settings) load(task *state.Task, shared *pebblestore.Shared) error {
	src, b := newSource(s.Workload, s.Keys), newBook(task)
	var w worked
	for n := int64(0); n < s.Warmup+s.Records; {
		records := src.round(n, s.Warmup+s.Records)
		process, apply, err := b.round(records)
		if err != nil {
			return err
		}
		if n += int64(len(records)); n <= s.Warmup {
			continue
		}
		w.Records += int64(len(records))
		w.Process, w.Apply = w.Process+process, w.Apply+apply
		w.Rounds = append(w.Rounds, float64((process+apply).Nanoseconds())/float64(len(records)))
	}
	began := time.Now()
	if err := task.Database().Flush(); err != nil {
		return err
	}
	w.Flush = time.Since(began)
	slices.Sort(w.Rounds)
	w.Store, _ = pebblestore.MetricsOf(task.Database())
	w.Cache = shared.Metrics()
	if err := measure.Report(w); err != nil {
		return err
	}
	if !s.Audit {
		return nil
	}
	// The parent has read the memory when it asks for this.
	if err := measure.AwaitLine(); err != nil {
		return err
	}
	if err := b.audit(s.Keys); err != nil {
		return err
	}
	return measure.Report(true)
}

// endure processes records until the process is killed, and reports after each round how many were
// applied.
func (s settings) endure(task *state.Task) error {
	src, b := newSource(s.Workload, s.Keys), newBook(task)
	for n := int64(0); ; {
		records := src.round(n, n+int64(s.Workload.Round))
		if _, _, err := b.round(records); err != nil {
			return err
		}
		n += int64(len(records))
		if err := measure.Report(n); err != nil {
			return err // the reader is gone
		}
	}
}

// look compares the database with its positions: the contributions before them are there, those
// after them are not.
func (s settings) look(task *state.Task) error {
	src, store := newSource(s.Workload, s.Keys), task.Store(contributions)
	at := applied(task.Positions())
	for n := max(at-probes, 0); n < at+probes; n++ {
		r := src.record(n)
		if r.duplicate {
			continue
		}
		_, present, err := store.Get(appendKey(nil, r.contribution))
		if err != nil {
			return err
		}
		if present != (n < at) {
			return fmt.Errorf("%w: after a kill the positions say %d records, and the contribution of record %d is there: %t", errState,
				at, n, present)
		}
	}
	return nil
}

// round returns the records of the next round, which ends before end.
func (s *source) round(from, end int64) []record {
	records := make([]record, min(int64(s.workload.Round), end-from))
	for i := range records {
		records[i] = s.record(from + int64(i))
	}
	return records
}

// round processes and applies records.
func (b *book) round(records []record) (process, apply time.Duration, err error) {
	began := time.Now()
	for _, r := range records {
		if err := b.post(r); err != nil {
			return 0, 0, err
		}
	}
	layer := b.task.Freeze()
	processed := time.Now()
	base := b.task.Positions()
	if err := b.task.Apply(layer, base, next(base, int64(len(records)))); err != nil {
		return 0, 0, err
	}
	b.task.Retire(layer)
	return processed.Sub(began), time.Since(processed), nil
}
