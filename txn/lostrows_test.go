package txn_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

const minutesChangelog, visitsChangelog = "times-minutes-changelog", "times-visits-changelog"

// starts returns the log start offsets of the changelogs of timesTopology.
func (b *testBroker) timesStarts(t *testing.T) map[string]int64 {
	t.Helper()
	listed, err := b.adm.ListStartOffsets(t.Context(), minutesChangelog, visitsChangelog)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[o.Topic] = o.Offset })
	return out
}

// timesFeed gives one record at a time, so that each is a round.
type timesFeed struct {
	*testBroker
	fed int64
}

func (f *timesFeed) feed(t *testing.T, app *txn.App, key string, at time.Time) {
	t.Helper()
	f.produce(t, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("v"), Timestamp: at})
	f.fed++
	waitFor(t, "the record to be committed", func() bool { return app.Status().Tasks[0].Inputs[0].Offset == f.fed })
}

// TestExpiredRowsLeaveTheChangelog: the owner deletes the beginning of a changelog once all of it
// has expired by the stream time, and nothing before that. The rest restores the same state on an
// empty disk, and a database that is behind the deletion continues.
func TestExpiredRowsLeaveTheChangelog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &timesFeed{testBroker: newBroker(t, 1, "in", "out")}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		at := time.Now().Add(-2 * time.Hour) // the stream time is that of the records, which go on faster than the clock
		for range 3 {
			b.feed(t, app, "a", at)
			b.feed(t, app, "b", at)
			at = at.Add(10 * time.Minute)
		}
		idle := time.Hour
		if virtual.RaceDetector {
			idle = 5 * time.Minute // an idle hour is many polls
		}
		time.Sleep(idle) // without input the stream time stays, and nothing expires
		if got := b.timesStarts(t); !maps.Equal(got, map[string]int64{minutesChangelog: 0, visitsChangelog: 0}) {
			t.Errorf("the changelogs begin at %v, and nothing has expired", got)
		}
		base := at
		for range 6 {
			b.feed(t, app, "c", at)
			at = at.Add(10 * time.Minute)
		}
		waitFor(t, "what has expired to be deleted", func() bool {
			time.Sleep(time.Minute)
			got := b.timesStarts(t)
			return got[minutesChangelog] > 0 && got[visitsChangelog] > 0
		})
		time.Sleep(10 * time.Minute) // so that all is deleted that is to be
		want := timesOf(t, app, base)
		if strings.Count(want, "c@") < 4 {
			t.Errorf("the stores hold %q: the test tests nothing", want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		cfg.StateDir = t.TempDir()
		app, _ = start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		if got := timesOf(t, app, base); got != want {
			t.Errorf("on an empty disk the stores hold %q, want %q", got, want)
		}
	})
}

// TestLostRowsStopATask: brokers have deleted records of a changelog by their clock, and the stream
// time of the store is behind that clock. With its directory the task continues. On an empty disk
// it stops and names the recovery actions; with AcceptLostRows it continues with the remaining
// rows.
func TestLostRowsStopATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &timesFeed{testBroker: newBroker(t, 1, "in", "out")}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		base := time.Now().Add(-300 * 24 * time.Hour).Truncate(time.Minute)
		for range 5 {
			b.feed(t, app, "a", base)
		}
		want := timesOf(t, app, base)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		retention := fmt.Sprint((25 * time.Hour).Milliseconds())
		altered, err := b.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &retention}}, minutesChangelog)
		if err != nil || altered[0].Err != nil {
			t.Fatal(err, altered)
		}
		end, err := b.adm.ListEndOffsets(t.Context(), minutesChangelog)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.adm.DeleteRecords(t.Context(), end.Offsets()); err != nil {
			t.Fatal(err)
		}

		app, stop = start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		if got := timesOf(t, app, base); got != want {
			t.Errorf("with its directory the stores hold %q, want %q", got, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		cfg.StateDir = t.TempDir()
		app, stop = start(t, timesTopology(t), cfg)
		waitFor(t, "its only task to stop", func() bool { return app.Status().State == txn.Stopped })
		err = stop()
		if !errors.Is(err, txn.ErrIntegrity) {
			t.Fatalf("Run returned %v, want ErrIntegrity", err)
		}
		for _, part := range []string{"store minutes", minutesChangelog + "[0]", "rebuild from-input in_0", "state directory", "--accept-lost-rows"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error is %v, without %q", err, part)
			}
		}

		cfg.AcceptLostRows = true
		app, stop = start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		if got := timesOf(t, app, base); got != "a@0s-0s=5" {
			t.Errorf("with the loss accepted the stores hold %q", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
