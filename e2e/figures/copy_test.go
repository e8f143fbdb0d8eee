package figures

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/e2e/cluster"
)

var (
	copies  = flag.Int("copies", 0, "runs of TestCopyWithKills")
	records = flag.Int64("records", 1_000_000, "records that each run of TestCopyWithKills copies")
)

const (
	// copyKills is how often broker and instance are killed, each.
	copyKills = 3
	// awayFor is how long what was killed stays away.
	awayFor = 2 * time.Second
	// stuckAfter is how long a copy may make no progress until it is given up: beyond all timeouts.
	stuckAfter = 3 * time.Minute
)

// copyRun is what has become of a copy.
type copyRun struct {
	// Wrong says what is wrong, and is empty if the copy is exact and complete.
	Wrong string `json:"wrong,omitempty"`
	// Stuck says that the copy made no progress any more.
	Stuck bool `json:"stuck,omitempty"`
	// Kills has the share of the records that had been copied at each kill.
	Kills   []float64 `json:"kills_at"`
	Seconds float64   `json:"seconds"`
	Load    string    `json:"load"`
}

// copyResult is several runs.
type copyResult struct {
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Records int64     `json:"records"`
	Runs    []copyRun `json:"runs"`
}

// TestCopyWithKills copies a topic while the broker and the only instance are killed in turn, and
// compares the copy record by record. The broker is its own controller and has the only replica of
// everything. When it is killed it can lose transaction markers (see docs/limits.md). The instance
// repairs that where evidence says how the transaction ended. `make copy` is the full one.
func TestCopyWithKills(t *testing.T) {
	if *copies == 0 {
		t.Skip("runs with -copies: a broker with the only replica can lose markers, and the copy hangs then")
	}
	r := copyResult{Host: latency.Host(), Time: time.Now().UTC(), Records: *records}
	for n := range *copies {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			run := copyWithKills(t)
			if run.Wrong != "" {
				t.Error(run.Wrong)
			}
			r.Runs = append(r.Runs, run)
		})
		if dir := os.Getenv(envFigures); dir != "" { // after each, because all of them take long
			if err := measure.Write(dir, "copy", r.markdown(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("\n%s", r.markdown())
}

// copying is a copy at work.
type copying struct {
	t       *testing.T
	cluster *cluster.Cluster
	topics  latency.Topics
	app     *latency.Instance
	run     copyRun
}

func copyWithKills(t *testing.T) copyRun {
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: brokerDefaults})
	name := c.Name(t, "app")
	k := &copying{t: t, cluster: c, topics: latency.TopicsOf(name, partitions), run: copyRun{Load: latency.LoadAverage()}}
	if err := k.topics.Create(t.Context(), c.Brokers()); err != nil {
		t.Fatal(err)
	}
	_, err := throughput.Fill(t.Context(), throughput.FillConfig{
		Brokers: c.Brokers(), Workload: "pass", Topic: k.topics.In, Partitions: partitions, Records: *records,
		Input: workload.Input{Seed: 1, Keys: 100_000, Distribution: workload.Uniform},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k.app = latency.NewInstance(latency.Settings{
		Brokers: c.Brokers(), Application: name, Topics: k.topics, Workload: "pass", Instance: "copier",
		StateDir: filepath.Join(dir, "state"), Log: filepath.Join(dir, "log"),
		RepairTransactions: true, // the broker loses markers
	})
	t.Cleanup(func() {
		if err := k.app.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("end of the instance's log:\n%s", measure.Tail(k.app.Settings.Log))
		}
	})
	k.must(k.app.Start())
	began := time.Now()
	err = k.disturb()
	if err == nil {
		err = k.await(*records)
	}
	if err == nil {
		err = k.complete()
	}
	k.run.Seconds = time.Since(began).Seconds()
	if err == nil {
		err = k.check()
	}
	if err != nil {
		k.run.Wrong = err.Error()
	}
	return k.run
}

func (k *copying) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// disturb kills the broker and the instance in turn, at even shares of the copy.
func (k *copying) disturb() error {
	for n := range int64(2 * copyKills) {
		if err := k.await(*records * (n + 1) / (2*copyKills + 1)); err != nil {
			return err
		}
		copied, err := k.copied()
		k.must(err)
		k.run.Kills = append(k.run.Kills, min(1, float64(copied)/float64(*records)))
		back := time.NewTimer(awayFor)
		if n%2 == 0 {
			k.must(k.cluster.Kill())
			<-back.C
			k.must(k.cluster.Resume(k.t.Context()))
			continue
		}
		k.must(k.app.Kill())
		<-back.C
		k.must(k.app.Start())
	}
	return nil
}

// copied returns how far readers of the copy come, transaction markers counted as well.
func (k *copying) copied() (sum int64, err error) {
	stable, err := k.cluster.StableOffsets(k.t.Context(), k.topics.Out)
	for _, offset := range stable {
		sum += offset
	}
	return sum, err
}

var errStuck = errors.New("the copy makes no progress")

// await waits until so many records are copied. It fails if the copy makes no progress.
func (k *copying) await(n int64) error {
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		k.must(k.app.Ended())
		copied, err := k.copied()
		switch {
		case err == nil && copied >= n:
			return nil
		case err == nil && copied != last: // an error is that of a broker that has just come back
			last, since = copied, time.Now()
		case time.Since(since) > stuckAfter:
			return k.stuck(err)
		}
		<-tick.C
	}
}

// complete waits until the offsets of all records are committed.
func (k *copying) complete() error {
	began := time.Now()
	for {
		k.must(k.app.Ended())
		commits, err := k.cluster.CommittedOffsets(k.t.Context(), k.app.Settings.Application, k.topics.In)
		sum := int64(0)
		for _, commit := range commits[k.topics.In] {
			sum += commit.Offset
		}
		switch {
		case err == nil && sum == *records:
			return nil
		case time.Since(began) > stuckAfter:
			return k.stuck(err)
		}
		time.Sleep(statusPoll) // polls
	}
}

// stuck says what holds the copy up.
func (k *copying) stuck(err error) error {
	k.run.Stuck = true
	why := []string{}
	if err != nil {
		why = append(why, err.Error())
	}
	for _, topic := range []string{k.topics.Out, "__consumer_offsets"} {
		if err := k.cluster.WaitStable(k.t.Context(), topic); err != nil {
			why = append(why, err.Error())
		}
	}
	status, err := k.app.Status(k.t.Context())
	if err != nil {
		why = append(why, err.Error())
	}
	for _, task := range status.Tasks {
		why = append(why, fmt.Sprintf("task %s is %s %s", task.ID, task.State, task.Reason))
	}
	return fmt.Errorf("%w: %s", errStuck, strings.Join(why, "; "))
}

// check stops the instance and compares the copy.
func (k *copying) check() error {
	ctx, cancel := context.WithTimeout(k.t.Context(), waitMax)
	defer cancel()
	k.must(k.app.Stop(ctx))
	checked, err := throughput.Check(k.t.Context(), throughput.CheckConfig{
		Brokers: k.cluster.Brokers(), Workload: "pass", In: k.topics.In, Out: k.topics.Out,
	})
	if err != nil && !errors.Is(err, throughput.ErrWrong) {
		k.t.Fatal(err)
	}
	if err == nil && (checked.Inputs != *records || checked.Outputs != *records) {
		err = fmt.Errorf("%d of %d records were compared", checked.Inputs, *records)
	}
	return err
}

// markdown is the result for people.
func (r copyResult) markdown() string {
	exact, stuck := 0, 0
	var rows strings.Builder
	for n, run := range r.Runs {
		what := "exact and complete"
		switch {
		case run.Wrong == "":
			exact++
		default:
			if run.Stuck {
				stuck++
			}
			what = strings.ReplaceAll(run.Wrong, "|", "/")
		}
		var at []string
		for _, share := range run.Kills {
			at = append(at, fmt.Sprintf("%.2f", share))
		}
		fmt.Fprintf(&rows, "| %d | %s | %.0f | %s | %s |\n", n+1, strings.Join(at, " "), run.Seconds, run.Load, what)
	}
	return fmt.Sprintf("# A copy while broker and instance are killed\n\n%s, %s. %d records, one broker that is its own controller, one replica. "+
		"Broker and instance are killed -9 in turn, %d times each, and restarted after %s.\n\n**%d of %d runs are exact and complete; %d did not end.**\n\n"+
		"| run | kills at | seconds | load before | result |\n|---|---|---|---|---|\n%s", r.Time.Format(time.DateOnly), r.Host, r.Records, copyKills, awayFor,
		exact, len(r.Runs), stuck, rows.String())
}
