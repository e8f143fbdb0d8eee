package txn_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestStatusTellsLagAndRetry: the status has the lag of each input and the record that a task tries
// again, and the log says once which tasks run.
func TestStatusTellsLagAndRetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{Action: topology.Retry, Attempts: 100, Backoff: time.Minute, BackoffMax: time.Minute, Then: topology.Stop})
		s.broken.Store("bad", true)
		log := &safeBuffer{}
		cfg := s.config(t.TempDir())
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		app, _ := start(t, s.topology(), cfg)
		s.send("good", 10)
		s.send("bad", 1)
		s.send("good", 10)
		first := func() txn.TaskStatus {
			if tasks := app.Status().Tasks; len(tasks) > 0 {
				return tasks[0]
			}
			return txn.TaskStatus{}
		}
		lag := func() int64 {
			if in := first().Inputs; len(in) == 1 && in[0].Lag != nil {
				return *in[0].Lag
			}
			return -1
		}
		waitFor(t, "the second try", func() bool { return first().Retry != nil && first().Retry.Attempts == 2 })
		waitFor(t, "the lag", func() bool { return lag() == 11 })
		got := *first().Retry
		if want := "node judge: transient: not now"; got.Record != "in[0] offset 10" || !strings.HasPrefix(got.Failure, want) ||
			!got.Next.After(time.Now()) || got.Since.IsZero() {
			t.Errorf("it tries again %+v, want in[0] offset 10 because of %q", got, want)
		}
		s.broken.Delete("bad")
		waitFor(t, "the retry to be over", func() bool { return first().Retry == nil && lag() == 0 })
		if n := strings.Count(log.String(), "msg=running "); n != 1 || !log.hasLine("msg=running", `tasks="in_0 in_1"`) {
			t.Errorf("%d lines say which tasks run, want one: in_0 and in_1", n)
		}
	})
}

// TestRecordsAreLoggedByReason: of dead letters and of records that are too late for a window, the
// log has a line for the first, and how many more there were.
func TestRecordsAreLoggedByReason(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 300
		b := newBroker(t, 1, "in", "out", "dead")
		builder := topology.NewBuilder("windows", topology.DeadLetters("dead"))
		in := topology.From(builder, topology.Topic("in", schemas.String(), schemas.Int64()))
		minutes := topology.Tumbling(time.Minute)
		counts := topology.WindowStore("counts", schemas.String(), schemas.Int64(), minutes.Retention())
		topology.CountWindows(in, minutes, counts).Into(topology.Topic("out", topology.WindowedCodec(schemas.String(), time.Minute), schemas.Int64()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		log := &safeBuffer{}
		app, stop := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(log, nil)),
		}))
		at := time.Now().Add(-time.Hour)
		eight := make([]byte, 8)
		records := []*kgo.Record{{Topic: "in", Key: []byte("k"), Value: eight, Timestamp: at}}
		for i := range n {
			records = append(records,
				&kgo.Record{Topic: "in", Key: []byte("k"), Value: eight, Timestamp: at.Add(-time.Hour)},
				&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("poison"), Timestamp: at.Add(time.Duration(i))})
		}
		b.produce(t, records...)
		waitFor(t, "the records", func() bool { return app.Status().Totals.Records == int64(len(records)) })
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := app.Status().Totals.DeadLetters; got != n {
			t.Errorf("%d dead letters, want %d", got, n)
		}
		for what, total := range map[string]int{"record dead-lettered": n, "records were too late": n} {
			lines, told := 0, 0
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, fmt.Sprintf("msg=%q", what)) {
					continue
				}
				lines++
				told += max(number(t, line, "more"), number(t, line, "records"), 1)
			}
			if lines > 4 || told != total {
				t.Errorf("%d lines tell of %d %s, want few and %d", lines, told, what, total)
			}
		}
	})
}

// number returns an attribute of a line of the log, 0 if it does not have it.
func number(t *testing.T, line, attribute string) int {
	t.Helper()
	found := regexp.MustCompile(" " + attribute + `=(\d+)`).FindStringSubmatch(line)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
