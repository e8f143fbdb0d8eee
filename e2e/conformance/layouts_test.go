package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

const (
	layoutPartitions = 2
	layoutKeys       = 7
	layoutRetention  = time.Hour
	layoutRecords    = 400
	layoutWindow     = int64(60_000)
	// swappedStore is the store of the negative control.
	swappedStore = "swapped"
)

// The stores of each kind that Kafka Streams has too.
var (
	plainStore    = topology.KeyValueStore("plain", schemas.String(), schemas.String())
	timedStore    = topology.TimestampedStore("last", schemas.String(), schemas.String())
	windowedStore = topology.WindowStore("windows", schemas.String(), schemas.String(), layoutRetention)
	sessionStore  = topology.SessionStore("sessions", schemas.String(), schemas.String(), layoutRetention)
	versionsStore = topology.VersionedStore("versions", schemas.String(), schemas.String(), layoutRetention)
)

// layoutTopology puts every record into all stores: a session of it ends some seconds later, and a
// value that begins with "delete" deletes. A join of the stream with itself has every record twice
// in its series stores.
func layoutTopology(t *testing.T, application, in string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder(application)
	source := topology.From(b, topology.Topic(in, schemas.String(), schemas.String()))
	topology.Stateful(source, "keep", plainStore, timedStore, windowedStore, sessionStore, versionsStore).Process(
		func(t *topology.Setup) (topology.Handler[string, string], error) {
			s := layoutStores{plainStore.In(t), timedStore.In(t), windowedStore.In(t), sessionStore.In(t), versionsStore.In(t)}
			return func(_ *topology.Context, r topology.Record[string, string]) error { return s.keep(r) }, nil
		})
	again := topology.MapValues(source, "again", func(v string) (string, error) { return v, nil })
	twice := source.Merge("twice", again)
	topology.JoinStreams(twice, twice, "pairs", topology.Within(layoutRetention/2), schemas.String(), schemas.String(), schemas.String(),
		func(string, string, string) (string, error) { return "", nil })
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

type layoutStores struct {
	plain    state.KeyValue[string, string]
	timed    state.Timestamped[string, string]
	windows  state.Window[string, string]
	sessions state.Session[string, string]
	versions state.Versioned[string, string]
}

func (s layoutStores) keep(r topology.Record[string, string]) error {
	at := r.Timestamp
	start, end := at-at%layoutWindow, at+3000
	if strings.HasPrefix(r.Value, "delete") {
		_, versioned := s.versions.Delete(r.Key, at)
		before := at - layoutRecords*1000/2 // what was put then, if there was something at that very time
		return errors.Join(s.plain.Delete(r.Key), s.timed.Delete(r.Key), s.windows.Delete(r.Key, start-layoutWindow),
			s.sessions.Delete(r.Key, before, before+3000), versioned)
	}
	_, inWindow := s.windows.Put(r.Key, start, r.Value, at)
	_, inSession := s.sessions.Put(r.Key, at, end, r.Value)
	_, versioned := s.versions.Put(r.Key, r.Value, at)
	return errors.Join(s.plain.Put(r.Key, r.Value), s.timed.Put(r.Key, r.Value, at), inWindow, inSession, versioned)
}

// layoutInput is out of order by some seconds, less than any retention, and has deletes.
func layoutInput(topic string, began time.Time) (out []*kgo.Record) {
	for i := range layoutRecords {
		value := fmt.Sprint("v", i)
		if i > layoutRecords/2 && i%11 == 5 {
			value = fmt.Sprint("delete", i)
		}
		at := began.Add(time.Duration(i-i*7919%13) * time.Second)
		out = append(out, &kgo.Record{
			Topic: topic, Partition: int32(i % layoutKeys % layoutPartitions), Key: fmt.Append(nil, "k", i%layoutKeys), Value: []byte(value), Timestamp: at,
		})
	}
	return out
}

// TestLayoutsOfChangelogs: Kafka Streams restores the stores from our changelogs, and sees in them,
// entry by entry and with all times, what we see in ours. A changelog of which start and end of the
// sessions are swapped is the negative control: that one it cannot read.
func TestLayoutsOfChangelogs(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t)
	app, in, idle := c.Name(t, "app"), c.Name(t, "in"), c.Name(t, "idle")
	c.CreateTopics(t, layoutPartitions, in, idle)
	want := fillStores(t, c, app, in)
	for _, store := range []string{"plain", "last", "windows", "sessions", "versions", "pairs-left"} {
		if n := len(linesOf(want, store)); n < layoutKeys-1 || store != "plain" && store != "last" && n < 30 {
			t.Fatalf("the store %s has too little to compare: %d entries", store, n)
		}
	}
	swapSessions(t, c, app)
	got := streamsReads(t, c, app, idle)
	control := linesOf(got, swappedStore)
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, swappedStore+"\t") })
	compareLines(t, got, want)

	for i := range control {
		control[i] = "sessions" + strings.TrimPrefix(control[i], swappedStore)
	}
	slices.Sort(control)
	if len(control) == 0 || slices.Equal(control, linesOf(want, "sessions")) {
		t.Errorf("sessions whose start and end are swapped look right: %q", control)
	}
}

// linesOf returns the lines of a store.
func linesOf(lines []string, store string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, store+"\t") })
}

// compareLines names the first lines that differ.
func compareLines(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	if slices.Equal(got, want) {
		t.Logf("%d entries are the same", len(want))
		return
	}
	said := 0
	for side, lines := range map[string][2][]string{"Kafka Streams alone": {got, want}, "we alone": {want, got}} {
		for _, line := range lines[0] {
			if _, both := slices.BinarySearch(lines[1], line); !both && said < 20 {
				said++
				t.Errorf("%s: %q", side, line)
			}
		}
	}
	t.Errorf("Kafka Streams has %d entries, we have %d", len(got), len(want))
}

// fillStores runs the application until it has everything, and returns what it sees in its stores,
// sorted.
func fillStores(t *testing.T, c *cluster.Cluster, application, in string) []string {
	t.Helper()
	app := instance.Start(t, layoutTopology(t, application, in), txn.Config{
		Brokers: c.Brokers(), StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	began := time.UnixMilli(time.Now().Add(-30 * time.Minute).UnixMilli())
	for part := range slices.Chunk(layoutInput(in, began), layoutRecords/8) { // rounds of some size, and several of them
		if err := cl.ProduceSync(t.Context(), part...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	app.Until("all records are committed", func(s txn.Status) bool { return s.Totals.Records >= layoutRecords })
	var lines []string
	for p := range int32(layoutPartitions) {
		lines = append(lines, storedLines(t, app.App, p)...)
	}
	app.End()
	for _, r := range layoutInput(in, began) {
		line := fmt.Sprintf("pairs-left\t%s\t%d\t%s", r.Key, r.Timestamp.UnixMilli(), r.Value)
		lines = append(lines, line, line)
	}
	slices.Sort(lines)
	return lines
}

// storedLines returns the entries of all stores of a partition, in the form of the program.
func storedLines(t *testing.T, app *txn.App, p int32) (lines []string) {
	t.Helper()
	add := func(store, key, times, value string) {
		lines = append(lines, strings.Join([]string{store, key, times, value}, "\t"))
	}
	two := func(a, b int64) string { return fmt.Sprint(a, " ", b) }
	eachEntry(t, app, plainStore, p, state.KeyValue[string, string].All, func(e state.Pair[string, string]) { add("plain", e.Key, "", e.Value) })
	eachEntry(t, app, timedStore, p, state.Timestamped[string, string].All, func(e state.TimestampedPair[string, string]) {
		add("last", e.Key, strconv.FormatInt(e.Time, 10), e.Value)
	})
	eachEntry(t, app, windowedStore, p, func(s state.Window[string, string]) iter.Seq2[state.WindowEntry[string, string], error] {
		return s.All(0, math.MaxInt64)
	}, func(e state.WindowEntry[string, string]) { add("windows", e.Key, two(e.Start, e.Time), e.Value) })
	eachEntry(t, app, sessionStore, p, state.Session[string, string].All, func(e state.SessionEntry[string, string]) {
		add("sessions", e.Key, two(e.Start, e.End), e.Value)
	})
	for i := range layoutKeys {
		key := fmt.Sprint("k", i)
		eachEntry(t, app, versionsStore, p, func(s state.Versioned[string, string]) iter.Seq2[state.Version[string], error] {
			return s.History(key, 0, math.MaxInt64)
		}, func(v state.Version[string]) {
			times := two(v.From, v.To)
			if v.To == math.MaxInt64 {
				times = fmt.Sprintf("%d now", v.From)
			}
			add("versions", key, times, v.Value)
		})
	}
	return lines
}

// eachEntry hands the entries of a store to use.
func eachEntry[S, E any](
	t *testing.T, app *txn.App, store topology.Store[S], p int32, all func(S) iter.Seq2[E, error], use func(E),
) {
	t.Helper()
	view, err := txn.Read(app, store, p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	}()
	for e, err := range all(view.Store()) {
		if err != nil {
			t.Fatal(err)
		}
		use(e)
	}
}

// swapSessions makes the changelog of the control: that of the sessions with start and end of each
// swapped.
func swapSessions(t *testing.T, c *cluster.Cluster, application string) {
	t.Helper()
	topic := graph.ChangelogTopic(application, swappedStore)
	c.CreateTopics(t, layoutPartitions, topic)
	var out []*kgo.Record
	for _, r := range c.Records(t, graph.ChangelogTopic(application, sessionStore.Name())) {
		n := len(r.Key) - 16
		key := append([]byte{}, r.Key[:n]...)
		key = binary.BigEndian.AppendUint64(key, binary.BigEndian.Uint64(r.Key[n+8:]))
		key = binary.BigEndian.AppendUint64(key, binary.BigEndian.Uint64(r.Key[n:]))
		out = append(out, &kgo.Record{Topic: topic, Partition: r.Partition, Key: key, Value: r.Value, Timestamp: r.Timestamp})
	}
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(t.Context(), out...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// streamsReads lets Kafka Streams restore the stores, and returns the lines that it prints.
func streamsReads(t *testing.T, c *cluster.Cluster, application, idle string) []string {
	t.Helper()
	properties := writeProperties(t,
		"application.id="+application, "bootstrap.servers="+strings.Join(c.Brokers(), ","), "processing.guarantee=exactly_once_v2",
		"state.dir="+filepath.ToSlash(t.TempDir()), "num.stream.threads=1")
	names := make([]string, layoutKeys)
	for i := range names {
		names[i] = fmt.Sprint("k", i)
	}
	ms := strconv.FormatInt(layoutRetention.Milliseconds(), 10)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := javaCommand(ctx, t, streamsLibrary, "StreamsRead", properties, idle, strings.Join(names, ","),
		"keyvalue:plain:0", "timestamped:last:0", "window:windows:"+ms, "session:sessions:"+ms, "versioned:versions:"+ms, "series:pairs-left:"+ms,
		"session:"+swappedStore+":"+ms)
	var problems strings.Builder
	cmd.Stderr = &problems
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Kafka Streams: %v\n%s", err, problems.String())
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" })
}
