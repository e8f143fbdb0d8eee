package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
)

const (
	// copyTransaction is how many records the copy takes into a transaction: a round is full by
	// bytes then. The bytes of a record vary with its timestamp and its place in its batch, by at
	// most 3 %, and so does the number of records.
	copyTransaction = 750
	copyTolerance   = copyTransaction * 3 / 100
	copyRecordBytes = 21 + copyKeyBytes + copyValueBytes // as the runtime counts an output: encoded, and where it comes from
	copyKeyBytes    = 8
	copyValueBytes  = 60
	copyApplication = "copier"
)

// copySize is one variant of the test.
type copySize struct {
	records int
	in, out int32 // partitions
	bounces int   // of the client and of the broker, each
	pace    time.Duration
}

// TestCopyHasEveryRecordOnce copies a topic while its broker and the client are killed in turn, and
// judges the copy. -full has the size of Kafka's TransactionsTest. Row of the failure matrix:
// broker restart.
func TestCopyHasEveryRecordOnce(t *testing.T) {
	t.Parallel()
	if *full {
		t.Run("several partitions", func(t *testing.T) {
			copyOnce(t, copySize{records: 100_000, in: 2, out: 3, bounces: 3, pace: 250 * time.Microsecond})
		})
		t.Run("one partition", func(t *testing.T) {
			copyOnce(t, copySize{records: 33_333, in: 1, out: 1, bounces: 3, pace: 500 * time.Microsecond})
		})
		return
	}
	copyOnce(t, copySize{records: 10_000, in: 2, out: 3, bounces: 1, pace: 500 * time.Microsecond})
}

// copyOnce seeds the input, copies it under bounces, and judges.
func copyOnce(t *testing.T, s copySize) {
	// A broker that is its own controller can lose markers when it is killed, and answer with
	// offsets of long ago when it comes back (Kafka 4.3.1, see docs/limits.md). The checker would
	// find it, and it is not Onceward's.
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{ShortLived: true, SeparateController: true})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	for topic, partitions := range map[string]int32{testapp.In: s.in, testapp.Copied: s.out} {
		if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	h := newCopyHistory(t)
	h.seed(ctx, t, c, s)
	p := copier(t, c, s)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("end of the copier's log:\n%s", p.LogTail())
		}
	})
	concurrent, stopConcurrent := h.follow(t, c, "concurrent")
	met := bounceCopy(ctx, t, c, p, concurrent, s)
	concurrent.await(ctx, t, p, int64(s.records))
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	later, stopLater := h.follow(t, c, "later")
	later.await(ctx, t, p, int64(s.records))
	log, stopLog := h.follow(t, c, check.LogReader)
	log.awaitLog(ctx, t, c)
	// A duplicate may still be on its way to the readers; the log has it by now, and the checker
	// tells of a reader that misses it.
	stopConcurrent()
	stopLater()
	stopLog()
	report := h.judge(t)
	t.Logf("%d client bounces, %d of them with an open transaction; %d broker bounces\n%s", s.bounces, met, s.bounces, report)
	checkCopy(t, s, report)
}

// checkCopy also holds the copy to the size of its transactions: it would be another test
// otherwise.
func checkCopy(t *testing.T, s copySize, report *check.Report) {
	t.Helper()
	if report.Anomalies() != 0 {
		t.Fail()
	}
	if report.Inputs != int64(s.records) || report.Outputs[0] != int64(s.records) || report.Reads != 2*int64(s.records) {
		t.Errorf("%d records were seeded, and the judgement is about others: %s", s.records, report)
	}
	if len(report.Sizes) == 0 {
		t.Fatal("there are no transactions")
	}
	median, most := report.Sizes[len(report.Sizes)/2], report.Sizes[len(report.Sizes)-1]
	t.Logf("%d transactions, median size %d, largest %d", len(report.Sizes), median, most)
	if median < copyTransaction-copyTolerance || most > copyTransaction+copyTolerance {
		t.Errorf("transactions have %d records at the median and %d at most, want %d, or %d more or less", median, most, copyTransaction, copyTolerance)
	}
}

// copier is the process that copies.
func copier(t *testing.T, c *cluster.Cluster, s copySize) *testapp.Process {
	dir := t.TempDir()
	return &testapp.Process{
		Program: instance.Program(t, copyProgram),
		Flags: testapp.Flags{
			Topology: testapp.CopyTopology, Brokers: strings.Join(c.Brokers(), ","), Application: copyApplication, Instance: copyApplication,
			StateDir: filepath.Join(dir, "state"), Workers: 1, Session: 6 * time.Second, Pace: s.pace, Report: time.Second,
			RoundBytes: copyTransaction * copyRecordBytes, Interval: 5 * time.Second,
		},
		LogPath: filepath.Join(dir, "copier.log"),
	}
}

// bounceCopy kills the client and the broker in turn, at equal shares of the progress. It returns
// how many of the client's ends met an open transaction.
func bounceCopy(ctx context.Context, t *testing.T, c *cluster.Cluster, p *testapp.Process, f copyReader, s copySize) (met int) {
	t.Helper()
	share := func(i int) int64 { return int64(i * s.records / (2*s.bounces + 2)) }
	for i := range 2 * s.bounces {
		f.await(ctx, t, p, share(i+1))
		if i%2 == 1 {
			if err := c.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if freezeCopier(ctx, t, c, p, func() bool { return f.Count(testapp.Copied) >= share(i+2) }) {
			met++
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return met
}

// freezeCopier freezes the copier with a transaction open, and reports whether it has met one
// before the copy has come too far. Transactions are short, so it freezes the copier for each look.
func freezeCopier(ctx context.Context, t *testing.T, c *cluster.Cluster, p *testapp.Process, tooFar func() bool) (open bool) {
	t.Helper()
	for {
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		ids, err := c.OpenTransactions(ctx, copyApplication+"~")
		if err == nil && len(ids) > 0 {
			return true
		}
		if err := errors.Join(err, p.Thaw()); err != nil {
			t.Fatal(err)
		}
		if tooFar() {
			return false
		}
		if !pause(ctx, lookPoll) {
			t.Fatal(ctx.Err())
		}
	}
}

// copyHistory is the record of one copy.
type copyHistory struct {
	*testapp.Recorder
	path string
}

func newCopyHistory(t *testing.T) *copyHistory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &copyHistory{testapp.NewRecorder(file), path}
}

// seed produces the inputs, all before the copy begins, as TransactionsTest does.
func (h *copyHistory) seed(ctx context.Context, t *testing.T, c *cluster.Cluster, s copySize) {
	t.Helper()
	sent := &check.Sent{First: 1, Outcome: check.OK}
	records := make([]*kgo.Record, s.records)
	for i := range records {
		id := uint32(i) + 1
		value, err := json.Marshal(testapp.Input{ID: id, Message: id, Key: id % 1000})
		if err != nil {
			t.Fatal(err)
		}
		value = append(value, strings.Repeat(" ", copyValueBytes-len(value))...)
		records[i] = &kgo.Record{Topic: testapp.In, Key: fmt.Appendf(nil, "%0*d", copyKeyBytes, id%1000), Value: value}
		sent.Message, sent.Key = append(sent.Message, id), append(sent.Key, id%1000)
	}
	if err := c.Client(t).ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	h.Write(check.Event{Sent: sent})
}

// copyReader is a reader at work.
type copyReader struct{ *testapp.Reader }

// follow starts a reader that ends with the test, or with the function that it returns.
func (h *copyHistory) follow(t *testing.T, c *cluster.Cluster, name string) (f copyReader, stop func()) {
	t.Helper()
	topics := map[string]testapp.Kind{testapp.Copied: testapp.Inputs}
	if name == check.LogReader {
		topics[testapp.In], topics[check.OffsetsTopic] = testapp.Inputs, testapp.Positions
	}
	r, err := testapp.NewReader(name, h.Recorder, topics, copyApplication, kgo.SeedBrokers(c.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return copyReader{r}, stop
}

// await waits until the follower has got n copies.
func (f copyReader) await(ctx context.Context, t *testing.T, p *testapp.Process, n int64) {
	t.Helper()
	pollCopy(ctx, t, func() (bool, error) {
		return f.Count(testapp.Copied) >= n, p.Alive()
	})
}

// awaitLog waits until the reader of the log has got everything.
func (f copyReader) awaitLog(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, topic := range []string{testapp.In, testapp.Copied, check.OffsetsTopic} {
		ends, err := c.EndOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		pollCopy(ctx, t, func() (bool, error) { return f.Reached(topic, ends), nil })
	}
}

func pollCopy(ctx context.Context, t *testing.T, done func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the copy does not get on: %v", ctx.Err())
		case <-tick.C:
		}
	}
}

func (h *copyHistory) judge(t *testing.T) *check.Report {
	t.Helper()
	h.Write(check.Event{Quiesced: &struct{}{}})
	if err := h.Flush(); err != nil {
		t.Fatal(err)
	}
	spec := check.Spec{Input: testapp.In, OpenMax: 25 * time.Second, Outputs: []check.Output{
		{Topic: testapp.Copied, From: testapp.In, Which: check.Deliveries, By: check.ByPartition},
	}}
	report, err := check.Run(spec, func() iter.Seq2[check.Event, error] { return check.ReadFile(h.path) })
	if err != nil {
		t.Fatal(err)
	}
	return report
}
