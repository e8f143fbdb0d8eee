package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/topology"
)

// Config is one run.
type Config struct {
	Seed uint64
	// Faults limits the nemesis to these. By default it has all of them; an empty list, not nil,
	// leaves it out.
	Faults []string
	// Failpoints lets the nemesis act at the failpoints of the runtime too. Databases then go to
	// the disk after every few rounds.
	Failpoints bool
	// Broken names mechanisms of the runtime that do not work: see txn.Config.WithFailpoints.
	Broken []string
	// Duration is how long the nemesis works. The default is two to four minutes, by the seed.
	Duration time.Duration
	// Rate is the number of inputs a second. The default is 20.
	Rate int
	// AbortShare is the share of inputs that are produced in transactions that abort. With more
	// than 0 all inputs are produced in transactions, and no fault may concern the brokers: the
	// feeder bears none.
	AbortShare float64
	// Quiesce bounds the virtual time in which the application has to work off what the faults have
	// left. The default is half an hour.
	Quiesce time.Duration
	// Instances is their number, one to three by the seed if it is 0.
	Instances int
	// Peers lets the instances watch each other over the network.
	Peers bool
	// Standbys is how many copies of each task the instances keep.
	Standbys int
	// Removals has the run find instances that were removed from their group although no peer has
	// suspected their incarnation. No fault may keep an instance from its group otherwise.
	Removals bool
	// MarkersMax is the longest time that the markers of a commit are held back. By default the
	// seed decides: none, or 200 ms.
	MarkersMax time.Duration
}

// Result is what came of a run.
type Result struct {
	Seed     uint64
	Virtual  time.Duration
	Report   *check.Report
	Findings []string
	Faults   map[string]int
	// Points counts the hits of failpoints that acted, as "action point".
	Points map[string]int
	Dumps  int
	// Trace is the end of what happened.
	Trace string
}

// OK says whether nothing was found.
func (r *Result) OK() bool { return r.Report.Anomalies() == 0 && len(r.Findings) == 0 }

// Found returns how many anomalies of a kind there are.
func (r *Result) Found(k check.Kind) int64 { return r.Report.Counts[k] }

func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s of virtual time, faults %v, %d stores dumped\n", r.Seed, r.Virtual.Round(time.Second), r.Faults, r.Dumps)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  finding: %s\n", f)
	}
	b.WriteString(r.Report.String())
	return b.String()
}

const (
	partitions = 2
	// openMax is the transaction timeout of 10 s and a margin of 15 s.
	openMax = 25 * time.Second
	// quiesceMax is how long the application may take to work off what the faults have left:
	// sessions, transaction timeouts and backoffs one after the other. It is virtual time, so it
	// costs nothing to be generous.
	quiesceMax = 30 * time.Minute
	// startMax bounds the waits for topics and readers.
	startMax = 30 * time.Minute
	// traceLines is how much of the trace a result keeps.
	traceLines = 400

	// diskBytes is what no run fills.
	diskBytes = 1 << 40

	follower = "follower"
	final    = "final"
)

// run is one run with everything that it has started.
type run struct {
	cfg     Config
	subject Subject
	rng     *rand.Rand // of the one goroutine that runs it
	network *virtual.Network
	kafka   *virtual.Kafka
	brokers int
	adm     *kadm.Client
	history *testapp.Recorder
	topics  map[string]testapp.Kind
	readers map[string]*testapp.Reader
	// observed are the reader of the log and the follower, for the goroutines of the brokers.
	observed [2]atomic.Pointer[testapp.Reader]
	dir      string
	dirs     int

	addresses int
	instances []*instance
	dead      sync.WaitGroup // lives that were killed
	strikes   chan *life     // those that a failpoint kills
	nemesis   *nemesis

	mu       sync.Mutex
	findings []string
	// incarnations are those of lives, suspected those that peers have suspected.
	incarnations map[string]string
	suspected    map[string]bool
	faults       map[string]int
	points       map[string]int
	dumps        int
}

// Run simulates the subject once. It is called in a bubble: see virtual.Test. Errors of the
// simulation itself fail the test; what was found is in the result.
func Run(t *testing.T, subject Subject, cfg Config) *Result {
	t.Helper()
	r := &run{
		cfg: cfg, subject: subject, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), dir: t.TempDir(), strikes: make(chan *life),
		readers: map[string]*testapp.Reader{}, topics: subject.Topics(), faults: map[string]int{},
		points: map[string]int{}, incarnations: map[string]string{}, suspected: map[string]bool{},
	}
	if r.cfg.Rate == 0 {
		r.cfg.Rate = 20
	}
	if r.cfg.Duration == 0 {
		r.cfg.Duration = 2*time.Minute + time.Duration(r.rng.Int64N(int64(2*time.Minute)))
	}
	if r.cfg.Quiesce == 0 {
		r.cfg.Quiesce = quiesceMax
	}
	r.network = virtual.NewNetwork(t, cfg.Seed)
	r.brokers = 1 + 2*r.rng.IntN(2)
	r.kafka = virtual.NewKafka(t, r.network, r.brokers, kfake.SeedTopics(partitions, subject.UserTopics()...))
	r.kafka.NeverTruncated()
	r.history = testapp.NewMemory()
	r.delayMarkers(t)
	r.kafka.ControlKey(int16(kmsg.DeleteRecords), r.purge)
	for _, host := range []string{check.LogReader, follower, final, "admin", "feeder"} {
		r.network.Host(host).Steady()
	}
	r.adm = r.kafka.Admin(t, "admin")
	result, err := r.all(t)
	if err != nil {
		t.Fatalf("seed %d: the simulation itself has failed: %v\n%s", cfg.Seed, err, r.network.Trace().Last(traceLines))
	}
	return result
}

// delayMarkers has the coordinator write markers late in half of all runs.
func (r *run) delayMarkers(t *testing.T) {
	longest := r.cfg.MarkersMax
	if longest == 0 && r.rng.IntN(2) == 0 {
		longest = 200 * time.Millisecond
	}
	if longest == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 3))
	var mu sync.Mutex
	r.kafka.DelayMarkers(t, func(string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(3) > 0 {
			return 0
		}
		return time.Duration(rng.Int64N(int64(longest)))
	})
}

// purge refuses to delete what a reader has not seen: nothing would be known of it. To delete what
// the application has not committed is a finding.
func (r *run) purge(kreq kmsg.Request) (kmsg.Response, error, bool) {
	r.kafka.KeepControl()
	req := kreq.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	early := false
	for _, wrong := range purgedEarly(req, func(topic string, partition int32) int64 {
		if expires(r.subject.Topology(), topic) {
			return math.MaxInt64
		}
		return r.kafka.AskedToCommit(r.application(), topic, partition)
	}) {
		r.found("%s", wrong)
	}
	for _, t := range req.Topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			for i := range r.observed {
				reader := r.observed[i].Load()
				early = early || reader == nil || p.Offset > reader.Next(t.Topic, p.Partition)
			}
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.LowWatermark = p.Partition, kerr.PolicyViolation.Code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, early
}

// expires reports whether a topic is the changelog of a store whose rows can expire in a run. The
// application purges such a changelog by its stream time, and commits no position in it. A row that
// is purged too early is missing after a restore, which the subject judges by its results.
func expires(t *topology.Topology, topic string) bool {
	for _, sub := range t.Subtopologies() {
		for _, store := range sub.Stores {
			if store.ChangelogTopic == topic {
				return store.Layout.Retention > 0 && store.Layout.Retention < finishAhead.Milliseconds()
			}
		}
	}
	return false
}

// purgedEarly says which records a request deletes that the application may still have to read.
func purgedEarly(req *kmsg.DeleteRecordsRequest, committed func(topic string, partition int32) int64) []string {
	var wrong []string
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if at := committed(t.Topic, p.Partition); p.Offset > at {
				wrong = append(wrong, fmt.Sprintf("%s[%d] is purged up to %d, and %d is committed", t.Topic, p.Partition, p.Offset, at))
			}
		}
	}
	return wrong
}

func (r *run) all(t *testing.T) (*Result, error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var background sync.WaitGroup
	defer func() {
		for _, i := range r.instances {
			if i.life != nil {
				i.life.host.Kill()
				i.life.cancel()
				i.life.release()
				<-i.life.ended
			}
		}
		r.dead.Wait()
		cancel(nil)
		background.Wait()
	}()
	watch := func(f func(context.Context) error) {
		background.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(err) // what is not watched proves nothing
			}
		})
	}
	count := 1 + r.rng.IntN(3)
	if r.cfg.Instances > 0 {
		count = r.cfg.Instances
	}
	for n := range count {
		r.instances = append(r.instances, &instance{
			r: r, name: string(rune('a' + n)), workers: 1 + r.rng.IntN(2), dir: r.newDir(), disk: disktest.New(diskBytes),
		})
	}
	for _, i := range r.instances {
		if err := i.start(); err != nil {
			return nil, err
		}
	}
	if err := r.awaitTopics(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{check.LogReader, follower} {
		if err := r.startReader(name, watch); err != nil {
			return nil, err
		}
	}
	watch(r.sample)
	began := time.Now()
	if err := r.load(ctx, t, watch); err != nil {
		return nil, err
	}
	r.quiesce(ctx)
	r.history.Write(check.Event{Quiesced: &struct{}{}})
	for _, i := range r.instances {
		if i.life == nil {
			continue
		}
		if err := errors.Join(i.life.alive(), i.stop()); err != nil {
			r.found("%v", err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := r.finish(ctx, watch); err != nil {
		return nil, err
	}
	for _, i := range r.instances {
		r.faults[Refused] += int(i.disk.Refused())
	}
	result := &Result{Seed: r.cfg.Seed, Virtual: time.Since(began), Findings: r.findings, Faults: r.faults, Points: r.points, Dumps: r.dumps}
	var err error
	if result.Report, err = check.Run(r.subject.Spec(), r.history.History); err != nil {
		return nil, err
	}
	result.Findings = append(result.Findings, r.unjudged(result)...)
	if !result.OK() {
		result.Trace = r.network.Trace().Last(traceLines)
	}
	return result, nil
}

// unjudged says what a run did not have: a judgement without any of it has judged nothing.
func (r *run) unjudged(result *Result) []string {
	var missing []string
	counts := map[string]int64{"committed transactions": result.Report.Committed, "records that were followed": result.Report.Reads}
	if kind, ok := r.topics[r.subject.Spec().Input]; ok && kind == testapp.Inputs { // others are judged by their subject
		counts["inputs"] = result.Report.Inputs
	}
	for what, n := range counts {
		if n == 0 {
			missing = append(missing, "the run has no "+what)
		}
	}
	return missing
}

// load feeds and lets the nemesis work. All faults are healed when it returns.
func (r *run) load(ctx context.Context, t *testing.T, watch func(func(context.Context) error)) error {
	var inflight sync.WaitGroup
	opts := []kgo.Opt{kgo.MaxBufferedRecords(20_000)}
	if r.cfg.AbortShare > 0 {
		opts = append(opts, kgo.TransactionalID("feeder"))
	}
	if s, ok := r.subject.(Partitioner); ok {
		opts = append(opts, kgo.RecordPartitioner(s.Partitioner()))
	}
	f := &Feed{
		Context: ctx, History: r.history, Rng: rand.New(rand.NewPCG(r.cfg.Seed, 1)), Partitions: partitions,
		Client: r.kafka.Client(t, "feeder", opts...), AbortShare: r.cfg.AbortShare,
	}
	if s, ok := r.subject.(Follower); ok {
		if err := r.follow(s, f, watch); err != nil {
			return err
		}
	}
	feeding, stop := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() { fed <- r.feed(feeding, f, &inflight) }()
	r.nemesis = newNemesis(r)
	r.nemesis.run(ctx, r.cfg.Duration)
	stop()
	err := <-fed
	if _, ok := r.subject.(Settler); ok {
		inflight.Wait()
		r.quiesce(ctx)
	}
	err = errors.Join(err, r.subject.Finish(f, &inflight))
	inflight.Wait()
	return errors.Join(err, context.Cause(ctx))
}

// feedEvery is the time between two batches of inputs.
const feedEvery = 500 * time.Millisecond

func (r *run) feed(ctx context.Context, f *Feed, inflight *sync.WaitGroup) error {
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n := max(1, int(float64(r.cfg.Rate)*feedEvery.Seconds()))
		if err := r.subject.Feed(f, 1+f.Rng.IntN(2*n), inflight); err != nil {
			return fmt.Errorf("feeding: %w", err)
		}
	}
}

// address returns an address for the peers of a life that no other life has: a port is not taken
// again soon.
func (r *run) address() string {
	r.addresses++
	return fmt.Sprintf("127.0.0.1:%d", 20_000+r.addresses)
}

// event records something that was done to an instance.
func (r *run) event(what, who string) {
	r.network.Trace().Logf(who, "%s", what)
	r.history.Fault(what, who)
}

func (r *run) found(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.findings, text) {
		r.findings = append(r.findings, text)
	}
	r.network.Trace().Logf("simulation", "finding: %s", text)
}

func (r *run) count(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
}

// acted counts what a failpoint did.
func (r *run) acted(s *strike) {
	r.count(s.fault)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.points[s.action+" "+s.point]++
}

// dump records the databases in a directory that nothing else uses.
func (r *run) dump(dir, source string) {
	stores, err := r.subject.Dump(r.history, dir, source)
	if err != nil {
		r.found("dump %s: %v", source, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dumps += stores
}
