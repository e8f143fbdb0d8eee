package soak

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/testapp"
)

// config is a run.
type config struct {
	// Duration is how long the nemesis works. Start and end take another minute or two.
	Duration time.Duration
	Seed     uint64
	// Rate is the number of inputs a second, Partitions that of every topic, Instances that of
	// processes; one more is a spare that joins and leaves.
	Rate       int
	Partitions int32
	Instances  int
	// Session is the session timeout of the group.
	Session time.Duration
	// Dir holds state, logs and the history. It must exist and be empty.
	Dir string
	// Faults limits the nemesis to some of its faults. By default it has all of them; an empty
	// list, not nil, leaves it out.
	Faults []string
	// DumpShare is the share of kills after which databases are read from the disk.
	DumpShare float64
	// Quiesce is how long the application may take to work off what the faults have left.
	Quiesce time.Duration
	// Broken is what does not work in the instances, "" for nothing: see testapp.Flags.
	Broken string
	// Log gets what happens, as it happens.
	Log func(format string, args ...any)
}

// defaultConfig is what a small machine bears.
func defaultConfig() config {
	return config{
		Duration: time.Hour, Rate: 400, Partitions: 6, Instances: 3, Session: 6 * time.Second, DumpShare: 0.25, Quiesce: quiesceMax,
		Log: func(string, ...any) {},
	}
}

const (
	application = "soak"
	// quiesceMax is how long the application may take to work off what the faults have left: a
	// session, a transaction timeout, a restore, and the slowness of a loaded machine.
	quiesceMax = 3 * time.Minute
	// openMax is the transaction timeout of 10 s and a margin of 15 s.
	openMax = 25 * time.Second
	// repeatShare and poisonShare are those of the inputs.
	repeatShare, poisonShare = 0.05, 0.0005
	follow                   = "follower"
	final                    = "final"
)

// run is one run with everything that it has started.
type run struct {
	config
	program   string
	cluster   *cluster.Cluster
	accounts  testapp.Accounts
	history   *testapp.Recorder
	processes []*testapp.Process
	readers   map[string]*testapp.Reader
	figures   *figures
	topics    map[string]testapp.Kind
}

// clusterOptions are those of the real Kafka that a run of all faults wants.
func clusterOptions() cluster.Options {
	return cluster.Options{
		Own: true,
		// A broker that is its own controller loads __consumer_offsets twice when it comes back. It
		// can mistake the end of the first load for that of the second (Kafka 4.3.1), and then
		// answers with old offsets. The soak would find that, although it is no fault of Onceward.
		SeparateController: true,
		Settings: map[string]string{
			// The log of positions is read while it grows; compaction would take the ones between
			// away.
			"offsets.topic.segment.bytes": "1073741824",
		},
	}
}

// runOn runs on a cluster and returns what that has led to. program is that of the instances. The
// error is one of the harness itself; what was found is in the outcome.
func runOn(ctx context.Context, c *cluster.Cluster, cfg config, program string) (*outcome, error) {
	accounts, err := testapp.NewAccounts(application, "", testapp.Everything)
	if err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(cfg.Dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	defer file.Close() // flushed and checked below
	r := &run{
		config: cfg, program: program, cluster: c, accounts: accounts, readers: map[string]*testapp.Reader{}, figures: newFigures(),
		history: testapp.NewRecorder(file),
	}
	r.topics = accounts.Topics()
	r.topics[check.OffsetsTopic] = testapp.Positions
	if err := r.createTopics(ctx); err != nil {
		return nil, err
	}
	s, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.history.Flush(); err != nil {
		return nil, fmt.Errorf("writing the history: %w", err)
	}
	cfg.Log("judging the history")
	s.Report, err = check.Run(accounts.Spec(openMax), func() iter.Seq2[check.Event, error] { return check.ReadFile(file.Name()) })
	return s, err
}

// all runs everything up to the end of the recording.
func (r *run) all(ctx context.Context) (_ *outcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var readers sync.WaitGroup
	failures := make(chan error, 8)
	defer func() {
		for _, p := range r.processes {
			err = errors.Join(err, p.Kill())
		}
		cancel(nil)
		readers.Wait()
		close(failures)
		for failure := range failures {
			err = errors.Join(err, failure)
		}
	}()
	background := func(f func(context.Context) error) {
		readers.Go(func() {
			if err := f(ctx); err != nil {
				failures <- err
				cancel(err) // what is not watched proves nothing
			}
		})
	}
	r.processes = r.newProcesses()
	for _, p := range r.processes[:r.Instances] {
		if err := p.Start(); err != nil {
			return nil, err
		}
	}
	if err := r.awaitInternalTopics(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{check.LogReader, follow} {
		if err := r.startReader(name, background); err != nil {
			return nil, err
		}
	}
	background(r.sample)
	background(r.measure)

	o := &outcome{Seed: r.Seed, Duration: r.Duration}
	if err := r.load(ctx, o); err != nil {
		return nil, err
	}
	if err := r.quiesce(ctx); err != nil {
		o.Findings = append(o.Findings, err)
	}
	for _, p := range r.processes {
		if err := errors.Join(p.Alive(), p.Stop()); err != nil {
			o.Findings = append(o.Findings, err)
		}
	}
	if err := r.finish(ctx, o, background); err != nil {
		return nil, err
	}
	return o, nil
}

// load feeds and lets the nemesis work for the duration. All faults are healed when it returns.
func (r *run) load(ctx context.Context, o *outcome) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers()...), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &testapp.Feeder{
		Client: client, History: r.history, Topic: testapp.In, Rng: rand.New(rand.NewPCG(r.Seed, 1)), Rate: r.Rate, Keys: 300, Others: 200,
		RepeatShare: repeatShare, PoisonShare: poisonShare,
	}
	fed := make(chan error, 1)
	go func() {
		n, err := f.Run(ctx)
		o.Inputs = n
		fed <- err
	}()
	faulty, heal := context.WithTimeout(ctx, r.Duration)
	defer heal()
	n := &nemesis{
		cluster: r.cluster, processes: r.processes, history: r.history, accounts: r.accounts, session: r.Session, faults: r.Faults,
		dumpShare: r.DumpShare, rng: rand.New(rand.NewPCG(r.Seed, 2)), log: r.Log,
	}
	if n.faults == nil {
		n.faults = weighted
	}
	n.run(faulty)
	cancel()
	r.Log("healed, working off what is left")
	o.Faults, o.Findings = n.result()
	return <-fed
}

// quiesce waits until every input is processed, every output is visible and has been followed. The
// events before it may still be explained by what is in flight, those after it not.
func (r *run) quiesce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Quiesce)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	waiting := ""
	for {
		now, err := r.inFlight(ctx)
		switch {
		case err == nil && now == "":
			r.history.Write(check.Event{Quiesced: &struct{}{}})
			return nil
		case err == nil:
			waiting = now
		case waiting == "" || ctx.Err() == nil:
			waiting = err.Error()
		}
		select {
		case <-ctx.Done():
			r.history.Write(check.Event{Quiesced: &struct{}{}})
			return fmt.Errorf("the application has not worked off its input %s after the last fault: %s", r.Quiesce, waiting)
		case <-tick.C:
		}
		for _, p := range r.processes {
			if err := p.Alive(); err != nil {
				return err
			}
		}
	}
}

// inFlight returns what is not done yet, "" if nothing.
func (r *run) inFlight(ctx context.Context) (string, error) {
	ends, err := r.cluster.EndOffsets(ctx, testapp.In)
	if err != nil {
		return "", err
	}
	commits, err := r.cluster.CommittedOffsets(ctx, application, testapp.In)
	if err != nil {
		return "", err
	}
	for p, end := range ends {
		if at := commits[testapp.In][p].Offset; at < end && end > 0 {
			return fmt.Sprintf("%s[%d] is at %d of %d", testapp.In, p, at, end), nil
		}
	}
	topics := make([]string, 0, len(r.topics))
	for topic, kind := range r.topics {
		if kind != testapp.Positions {
			topics = append(topics, topic)
		}
	}
	if err := r.cluster.WaitStable(ctx, topics...); err != nil {
		return "", err
	}
	for _, topic := range topics {
		ends, err := r.cluster.EndOffsets(ctx, topic)
		if err != nil {
			return "", err
		}
		for _, name := range []string{check.LogReader, follow} {
			if !r.readers[name].Reached(topic, ends) {
				return "reader " + name + " is still reading " + topic, nil
			}
		}
	}
	half, whole := r.readers[follow].Count(r.accounts.RepartitionTopic()), r.readers[follow].Count(testapp.Counts)
	if half != whole {
		return fmt.Sprintf("%d of %d repartitioned records are counted", whole, half), nil
	}
	for _, topic := range []string{testapp.Copied, testapp.Balances, r.accounts.RepartitionTopic()} {
		if want, got := r.readers[check.LogReader].Count(topic), r.readers[follow].Count(topic); got == 0 || got > want {
			return fmt.Sprintf("%d of at most %d records of %s are followed", got, want, topic), nil
		}
	}
	return "", nil
}

// finish reads what the stopped application has left: databases, open transactions, the outputs
// once more from the start, and the rest of the log.
func (r *run) finish(ctx context.Context, o *outcome, background func(func(context.Context) error)) error {
	for _, p := range r.processes {
		if _, err := os.Stat(p.Flags.StateDir); err != nil {
			continue // the spare was never started
		}
		if _, err := testapp.Dump(r.history, r.accounts, p.Flags.StateDir, "at the end of "+p.Flags.Instance); err != nil {
			o.Findings = append(o.Findings, err)
		}
	}
	open, err := r.cluster.OpenTransactions(ctx, application+"~")
	if err != nil {
		return err
	}
	if len(open) > 0 {
		o.Findings = append(o.Findings, fmt.Errorf("after an orderly stop these transactions are open: %v", open))
	}
	if err := r.startReader(final, background); err != nil {
		return err
	}
	if err := r.awaitReaders(ctx); err != nil {
		return err
	}
	o.Rebalances = r.readers[check.LogReader].Generation()
	o.Usage = r.figures.usage()
	o.Totals = r.figures.totals()
	o.Restores, err = restores(r.processes)
	return err
}

// awaitReaders waits until the log is read to its end, and until the other readers have got as many
// records as are committed in it.
func (r *run) awaitReaders(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quiesceMax)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for topic := range r.topics {
		ends, err := r.cluster.EndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		for !r.readers[check.LogReader].Reached(topic, ends) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("the log of %s is not read to its end %v: %w", topic, ends, ctx.Err())
			case <-tick.C:
			}
		}
	}
	for _, topic := range []string{testapp.Copied, testapp.Repeated, testapp.Balances, testapp.Counts, testapp.Dead} {
		for r.readers[final].Count(topic) < r.readers[follow].Count(topic) {
			select {
			case <-ctx.Done():
				return nil // the checker says what is missing
			case <-tick.C:
			}
		}
	}
	return nil
}
