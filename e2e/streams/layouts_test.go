package streams

import (
	"context"
	_ "embed" // the program that reads
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/peers/streams"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

//go:embed StreamsRead.java
var program []byte

const (
	partitions = 2
	keys       = 7
	retention  = time.Hour
	records    = 400
	window     = int64(60_000)
	// swapped is the store of the negative control.
	swapped = "swapped"
)

// stores of each kind that Kafka Streams has too.
var (
	plain    = topology.Store("plain", schemas.String(), schemas.String())
	last     = topology.TimestampedStore("last", schemas.String(), schemas.String())
	windows  = topology.WindowStore("windows", schemas.String(), schemas.String(), retention)
	sessions = topology.SessionStore("sessions", schemas.String(), schemas.String(), retention)
	versions = topology.VersionedStore("versions", schemas.String(), schemas.String(), retention)
)

// keeping puts every record into all stores: a session of it ends some seconds later, and a value that begins with
// "delete" deletes.
func keeping(t *testing.T, application, in string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder(application)
	source := topology.From(b, topology.Topic(in, schemas.String(), schemas.String()))
	topology.Stateful(source, "keep", plain, last, windows, sessions, versions).Process(
		func(t *topology.Setup) (topology.Handler[string, string], error) {
			s := handles{plain.In(t), last.In(t), windows.In(t), sessions.In(t), versions.In(t)}
			return func(_ *topology.Context, r topology.Record[string, string]) error { return s.keep(r) }, nil
		})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

type handles struct {
	plain    state.KeyValue[string, string]
	last     state.Timestamped[string, string]
	windows  state.Window[string, string]
	sessions state.Session[string, string]
	versions state.Versioned[string, string]
}

func (s handles) keep(r topology.Record[string, string]) error {
	at := r.Timestamp
	start, end := at-at%window, at+3000
	if strings.HasPrefix(r.Value, "delete") {
		_, versioned := s.versions.Delete(r.Key, at)
		before := at - records*1000/2 // what was put then, if there was something at that very time
		return errors.Join(s.plain.Delete(r.Key), s.last.Delete(r.Key), s.windows.Delete(r.Key, start-window),
			s.sessions.Delete(r.Key, before, before+3000), versioned)
	}
	_, inWindow := s.windows.Put(r.Key, start, r.Value, at)
	_, inSession := s.sessions.Put(r.Key, at, end, r.Value)
	_, versioned := s.versions.Put(r.Key, r.Value, at)
	return errors.Join(s.plain.Put(r.Key, r.Value), s.last.Put(r.Key, r.Value, at), inWindow, inSession, versioned)
}

// input is out of order by some seconds, less than any retention, and has deletes.
func input(topic string, began time.Time) (out []*kgo.Record) {
	for i := range records {
		value := fmt.Sprint("v", i)
		if i > records/2 && i%11 == 5 {
			value = fmt.Sprint("delete", i)
		}
		at := began.Add(time.Duration(i-i*7919%13) * time.Second)
		out = append(out, &kgo.Record{
			Topic: topic, Partition: int32(i % keys % partitions), Key: fmt.Append(nil, "k", i%keys), Value: []byte(value), Timestamp: at,
		})
	}
	return out
}

// TestLayoutsOfChangelogs: Kafka Streams restores the stores from our changelogs, and sees in them, entry by entry and
// with all times, what we see in ours. A changelog of which start and end of the sessions are swapped is the negative
// control: that one it cannot read.
func TestLayoutsOfChangelogs(t *testing.T) {
	c := cluster.Kafka(t)
	java, classes := cluster.Java(t, cluster.Library{Name: streams.Library, POM: streams.POM, Jar: streams.Jar})
	app, in, idle := c.Name(t, "app"), c.Name(t, "in"), c.Name(t, "idle")
	c.CreateTopics(t, partitions, in, idle)
	want := fill(t, c, app, in)
	for _, store := range []string{"plain", "last", "windows", "sessions", "versions"} {
		if n := count(want, store); n < keys-1 || store != "plain" && store != "last" && n < 30 {
			t.Fatalf("the store %s has too little to compare: %d entries", store, n)
		}
	}
	swapSessions(t, c, app)
	got := streamsReads(t, c, java, classes, app, idle)
	control := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !strings.HasPrefix(line, swapped+"\t") })
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, swapped+"\t") })
	compare(t, got, want)

	for i := range control {
		control[i] = "sessions" + strings.TrimPrefix(control[i], swapped)
	}
	slices.Sort(control)
	sessionsWanted := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return !strings.HasPrefix(line, "sessions\t") })
	if len(control) == 0 || slices.Equal(control, sessionsWanted) {
		t.Errorf("sessions whose start and end are swapped look right: %q", control)
	}
}

func count(lines []string, store string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, store+"\t") {
			n++
		}
	}
	return n
}

// compare names the first lines that differ.
func compare(t *testing.T, got, want []string) {
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

// fill runs the application until it has everything, and returns what it sees in its stores, sorted.
func fill(t *testing.T, c *cluster.Cluster, application, in string) []string {
	t.Helper()
	app, err := txn.New(keeping(t, application, in), txn.Config{
		Brokers: c.Brokers(), StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	began := time.UnixMilli(time.Now().Add(-30 * time.Minute).UnixMilli())
	for part := range slices.Chunk(input(in, began), records/8) { // rounds of some size, and several of them
		if err := cl.ProduceSync(t.Context(), part...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); app.Status().Totals.Records < records; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the application has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d records after two minutes", app.Status().Totals.Records, records)
		}
	}
	var lines []string
	for p := range int32(partitions) {
		lines = append(lines, seen(t, app, p)...)
	}
	slices.Sort(lines)
	return lines
}

// seen returns the entries of all stores of a partition, in the form of the program.
func seen(t *testing.T, app *txn.App, p int32) (lines []string) {
	t.Helper()
	add := func(store, key, times, value string) {
		lines = append(lines, strings.Join([]string{store, key, times, value}, "\t"))
	}
	two := func(a, b int64) string { return fmt.Sprint(a, " ", b) }
	each(t, app, plain, p, state.KeyValue[string, string].All, func(e state.Pair[string, string]) { add("plain", e.Key, "", e.Value) })
	each(t, app, last, p, state.Timestamped[string, string].All, func(e state.TimestampedPair[string, string]) {
		add("last", e.Key, strconv.FormatInt(e.Time, 10), e.Value)
	})
	each(t, app, windows, p, func(s state.Window[string, string]) iter.Seq2[state.WindowEntry[string, string], error] {
		return s.All(0, math.MaxInt64)
	}, func(e state.WindowEntry[string, string]) { add("windows", e.Key, two(e.Start, e.Time), e.Value) })
	each(t, app, sessions, p, state.Session[string, string].All, func(e state.SessionEntry[string, string]) {
		add("sessions", e.Key, two(e.Start, e.End), e.Value)
	})
	for i := range keys {
		key := fmt.Sprint("k", i)
		each(t, app, versions, p, func(s state.Versioned[string, string]) iter.Seq2[state.Version[string], error] {
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

// each hands the entries of a store to use.
func each[S, E any](
	t *testing.T, app *txn.App, store topology.TypedStore[S], p int32, all func(S) iter.Seq2[E, error], use func(E),
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

// swapSessions makes the changelog of the control: that of the sessions with start and end of each swapped.
func swapSessions(t *testing.T, c *cluster.Cluster, application string) {
	t.Helper()
	topic := topology.ChangelogTopic(application, swapped)
	c.CreateTopics(t, partitions, topic)
	var out []*kgo.Record
	for _, r := range c.Records(t, topology.ChangelogTopic(application, sessions.Name())) {
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
func streamsReads(t *testing.T, c *cluster.Cluster, java, classes, application, idle string) []string {
	t.Helper()
	dir := t.TempDir()
	properties, source := filepath.Join(dir, "streams.properties"), filepath.Join(dir, "StreamsRead.java")
	text := strings.Join([]string{
		"application.id=" + application, "bootstrap.servers=" + strings.Join(c.Brokers(), ","), "processing.guarantee=exactly_once_v2",
		"state.dir=" + filepath.ToSlash(filepath.Join(dir, "state")), "num.stream.threads=1", "",
	}, "\n")
	if err := errors.Join(os.WriteFile(properties, []byte(text), 0o600), os.WriteFile(source, program, 0o600)); err != nil {
		t.Fatal(err)
	}
	jars, err := filepath.Glob(classes + ".jar") // the compiler does not know what a * is
	if err != nil || len(jars) == 0 {
		t.Fatalf("no jars in %s: %v", classes, err)
	}
	separator := string(os.PathListSeparator)
	compile := exec.CommandContext(t.Context(), java, "-m", "jdk.compiler/com.sun.tools.javac.Main",
		"-cp", strings.Join(jars, separator), "-d", dir, source)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling the program (it takes a JDK): %v\n%s", err, out)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("k", i)
	}
	ms := strconv.FormatInt(retention.Milliseconds(), 10)
	args := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", dir + separator + classes, "StreamsRead", properties, idle, strings.Join(names, ","),
		"keyvalue:plain:0", "timestamped:last:0", "window:windows:" + ms, "session:sessions:" + ms, "versioned:versions:" + ms,
		"session:" + swapped + ":" + ms,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, java, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Kafka Streams: %v\n%s", err, problems.String())
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return line == "" })
}
