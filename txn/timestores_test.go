package txn_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

var (
	minutesStore = topology.WindowStore("minutes", schemas.String(), schemas.Int64(), 30*time.Minute)
	visitsStore  = topology.SessionStore("visits", schemas.String(), schemas.Int64(), 30*time.Minute)
)

// visitGap is what two records of one session have between them at most.
const visitGap = 5 * time.Minute

// timesTopology counts records by minute and by session. It passes each record on: a round without
// any output could wait for ten seconds.
func timesTopology(t *testing.T) *topology.Topology {
	t.Helper()
	build := topology.NewBuilder("times")
	n := topology.Stateful(topology.From(build, topology.Topic("in", schemas.String(), schemas.String())), "count", minutesStore, visitsStore)
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		minutes, visits, emit := minutesStore.In(t), visitsStore.In(t), out.In(t)
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if err := countMinute(minutes, r); err != nil {
				return err
			}
			if err := countVisit(visits, r); err != nil {
				return err
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := build.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func countMinute(minutes state.Window[string, int64], r topology.Record[string, string]) error {
	start := r.Time().Truncate(time.Minute).UnixMilli()
	n, _, _, err := minutes.Get(r.Key, start)
	if err != nil {
		return err
	}
	_, err = minutes.Put(r.Key, start, n+1, r.Timestamp)
	return err
}

func countVisit(visits state.Session[string, int64], r topology.Record[string, string]) error {
	start, end, n := r.Timestamp, r.Timestamp, int64(1)
	for s, err := range visits.Find(r.Key, start-visitGap.Milliseconds(), end+visitGap.Milliseconds()) {
		if err != nil {
			return err
		}
		start, end, n = min(start, s.Start), max(end, s.End), n+s.Value
		if err := visits.Delete(r.Key, s.Start, s.End); err != nil {
			return err
		}
	}
	_, err := visits.Put(r.Key, start, end, n)
	return err
}

// timesOf spells both stores, in minutes after base.
func timesOf(t *testing.T, app *txn.App, base time.Time) string {
	t.Helper()
	after := func(ms int64) time.Duration { return time.UnixMilli(ms).Sub(base) }
	var all []string
	minutes, err := txn.Read(app, minutesStore, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer minutes.Close()
	for w, err := range minutes.Store().All(0, time.Now().UnixMilli()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s@%s=%d(%s)", w.Key, after(w.Start), w.Value, after(w.Time)))
	}
	visits, err := txn.Read(app, visitsStore, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer visits.Close()
	for s, err := range visits.Store().All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s@%s-%s=%d", s.Key, after(s.Start), after(s.End), s.Value))
	}
	if _, err := minutes.Store().Put("a", time.Now().UnixMilli(), 1, 0); err == nil {
		t.Error("a view was written")
	}
	return strings.Join(all, " ")
}

// TestTimeStores: windows and sessions go to their changelogs in the records of Kafka Streams, byte
// by byte, and come back from them as they were, with the time by which they expire.
func TestTimeStores(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		base := time.Now().Truncate(time.Hour).Add(-5 * time.Hour)
		at := func(minute int) time.Time { return base.Add(time.Duration(minute)*time.Minute + 7*time.Second) }
		fed := 0
		// feed gives one record at a time, so that each is a round.
		feed := func(app *txn.App, key string, minute int) {
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("v"), Timestamp: at(minute)})
			fed++
			waitFor(t, "the record to be committed", func() bool { return app.Status().Tasks[0].Inputs[0].Offset == int64(fed) })
		}
		app, stop := start(t, timesTopology(t), cfg)
		waitFor(t, "the task", running(app, 1))
		feed(app, "a", 0)
		feed(app, "a", 3) // joins the first
		feed(app, "b", 1)
		feed(app, "a", 20)
		feed(app, "a", 12)
		feed(app, "a", 16) // joins two
		feed(app, "b", 40) // everything up to 10 minutes expires
		feed(app, "a", 5)  // which makes this one late
		const want = "a@12m0s=1(12m7s) a@16m0s=1(16m7s) a@20m0s=1(20m7s) b@40m0s=1(40m7s) a@12m7s-20m7s=3 b@40m7s-40m7s=1"
		if got := timesOf(t, app, base); got != want {
			t.Errorf("the stores hold %q, want %q", got, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		window := func(key string, minute int, n uint64) string {
			k := binary.BigEndian.AppendUint64([]byte(key), uint64(at(minute).Truncate(time.Minute).UnixMilli()))
			return changelogLine(append(k, 0, 0, 0, 0), binary.BigEndian.AppendUint64(nil, n), at(minute))
		}
		session := func(key string, from, to int, n uint64) string {
			k := binary.BigEndian.AppendUint64([]byte(key), uint64(at(to).UnixMilli()))
			var value []byte
			if n > 0 {
				value = binary.BigEndian.AppendUint64(nil, n)
			}
			return changelogLine(binary.BigEndian.AppendUint64(k, uint64(at(from).UnixMilli())), value, at(to))
		}
		for topic, want := range map[string][]string{
			"times-minutes-changelog": {window("a", 0, 1), window("a", 3, 1), window("b", 1, 1), window("a", 20, 1), window("a", 12, 1),
				window("a", 16, 1), window("b", 40, 1)},
			"times-visits-changelog": {session("a", 0, 0, 1), session("a", 0, 0, 0), session("a", 0, 3, 2), session("b", 1, 1, 1),
				session("a", 20, 20, 1), session("a", 12, 12, 1), session("a", 12, 12, 0), session("a", 20, 20, 0), session("a", 12, 20, 3),
				session("b", 40, 40, 1)},
		} {
			var got []string
			for _, r := range b.read(t, topic, len(want)) {
				got = append(got, changelogLine(r.Key, r.Value, r.Timestamp))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s holds\n%s\nwant\n%s", topic, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}

		// Once more from the directory, and then from nothing but the changelogs.
		for _, dir := range []string{cfg.StateDir, t.TempDir()} {
			cfg.StateDir = dir
			app, stop = start(t, timesTopology(t), cfg)
			waitFor(t, "the task", running(app, 1))
			if got := timesOf(t, app, base); got != want {
				t.Errorf("after a restart the stores hold %q, want %q", got, want)
			}
			feed(app, "a", 5) // late, still
			if got := timesOf(t, app, base); got != want {
				t.Errorf("after a late record the stores hold %q, want %q", got, want)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func changelogLine(key, value []byte, at time.Time) string {
	if value == nil {
		return fmt.Sprintf("%x = null at %d", key, at.UnixMilli())
	}
	return fmt.Sprintf("%x = %x at %d", key, value, at.UnixMilli())
}
