package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// dir returns where the broker keeps its data.
func (c *Cluster) dir(t *testing.T) string {
	t.Helper()
	switch n := c.node.(type) {
	case *embeddedNode:
		return n.dir.path
	case *kafkaNode:
		return n.dir.path
	}
	t.Fatalf("a %T has no directory", c.node)
	return ""
}

func reachable(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// TestLifecycle takes a broker down and up in every way. Its settings have to reach each of its
// lives.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	EachKind(t, func(t *testing.T, k Kind) {
		settings := map[string]string{"message.max.bytes": "4321"}
		if k == KindKafka { // it is killed: see combinedProperties
			settings["broker.session.timeout.ms"] = "6000"
		}
		testLifecycle(t, OwnWith(t, k, Options{ShortLived: true, Settings: settings}))
	})
}

// expectSettings asserts that the broker has the settings of TestLifecycle.
func expectSettings(t *testing.T, c *Cluster) {
	t.Helper()
	topic := newTopic(t, c, 1)
	client := c.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for size, want := range map[int]error{1000: nil, 8000: kerr.MessageTooLarge} {
		r := &kgo.Record{Topic: topic, Value: make([]byte, size)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); !errors.Is(err, want) {
			t.Errorf("a record of %d bytes: %v, want %v", size, err, want)
		}
	}
}

func testLifecycle(t *testing.T, c *Cluster) {
	expectSettings(t, c)
	ctx, topic, group := t.Context(), newTopic(t, c, 2), c.Name(t, "group")
	p := newProducer(t, c, c.Name(t, "txn"))
	p.write(true, topic, 0, "before")
	p.end(kgo.TryCommit)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 3, LeaderEpoch: -1, Metadata: "m"})
	if err := c.Admin().CommitAllOffsets(ctx, group, offsets); err != nil {
		t.Fatal(err)
	}
	brokers, dir := slices.Clone(c.Brokers()), c.dir(t)
	p.write(true, topic, 1, "open")

	if err := c.Resume(ctx); err == nil {
		t.Error("resumed a broker that is up")
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if reachable(brokers[0]) {
		t.Error("a killed broker is reachable")
	}
	if err := c.failure(); err != nil {
		t.Errorf("a broker that was told to go counts as failed: %v", err)
	}
	if err := c.Kill(); err == nil {
		t.Error("killed a broker that is down")
	}
	if err := c.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Brokers(), brokers) {
		t.Errorf("was at %v, is at %v", brokers, c.Brokers())
	}
	p.write(false, topic, 1, "over the restart")
	p.end(kgo.TryCommit)
	expectAll(t, c, topic, "before", "open over the restart")
	expectCommits(t, c, group, topic, Commit{Offset: -1}, Commit{Offset: 3, Metadata: "m"})
	expectSettings(t, c)

	// In order, right behind a commit: what was answered has to be there afterwards.
	p.write(true, topic, 1, "before the stop")
	p.end(kgo.TryCommit)
	p.ended(c)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if reachable(brokers[0]) {
		t.Error("a stopped broker is reachable")
	}
	if err := c.Stop(); err == nil {
		t.Error("stopped a broker that is down")
	}
	if err := c.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	expectAll(t, c, topic, "before", "open over the restart before the stop")

	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if reachable(brokers[0]) {
		t.Error("a closed broker is reachable")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory after Close: %v", err)
	}
	if err := c.Restart(ctx); err == nil {
		t.Error("restarted a closed broker")
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestBrokerDiesWithItsProcess kills a process that has launched a broker, so that nothing of the
// harness can run.
func TestBrokerDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with its parent")
	}
	requireKafka(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envChild+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	_, scanErr := fmt.Fscanln(bufio.NewReader(out), &pid, &dir)
	lived := processExists(pid)
	killErr := cmd.Process.Kill()
	_ = cmd.Wait() // says only that it was killed
	if err := errors.Join(scanErr, killErr); err != nil {
		t.Fatal(err)
	}
	if !lived {
		t.Fatalf("there was no broker process %d", pid)
	}
	// The broker's directory is nobody's now: see sweep.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	deadline := time.Now().Add(time.Minute)
	for processExists(pid) {
		if time.Now().After(deadline) {
			p, _ := os.FindProcess(pid)
			t.Fatalf("broker process %d outlives the process that started it (killed now: %v)", pid, p.Kill())
		}
		time.Sleep(pollInterval)
	}
}

// processExists looks into /proc, where a zombie that nobody reaps counts as gone.
func processExists(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

// requireKafka ends a test that starts a real Kafka by hand, where there is none to start or none
// is wanted.
func requireKafka(t *testing.T) {
	t.Helper()
	processBroker.expect(t, KindKafka)
	_, err := findJava(t.Context())
	if err == nil {
		_, err = findJars(t.Context())
	}
	if errors.Is(err, ErrUnavailable) {
		processBroker.unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKafkaIsFound starts nothing. It tells at once, before tests wait for brokers, that there is
// no real Kafka to be had.
func TestKafkaIsFound(t *testing.T) {
	if os.Getenv(envBrokers) == "" {
		requireKafka(t)
	}
}

// TestTakenPort lets somebody else have the broker's port between choosing and using it.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	EachKind(t, func(t *testing.T, kind Kind) {
		if kind == KindKafka {
			requireKafka(t)
		}
		n, err := newNode(t.Context(), kind, Options{Own: true})
		if err != nil {
			t.Fatal(err)
		}
		occupy(t, n.addrs()[0])
		c := &Cluster{kind: kind, node: n}
		if err := c.open(t.Context()); !errors.Is(err, errPortTaken) {
			t.Errorf("started on a taken port: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// occupy listens until the end of the test, and answers nobody.
func occupy(t *testing.T, addr string) {
	t.Helper()
	thief, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = thief.Close() })
	go func() {
		for {
			conn, err := thief.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
}

// TestForeignBrokerOnOurPort is the other half of TestTakenPort: what took the port is a working
// broker.
func TestForeignBrokerOnOurPort(t *testing.T) {
	c := Embedded(t)
	c.node.(*embeddedNode).id = newID() // now another one's broker answers
	err := c.probe(t.Context(), c.Name(t, "probe"))
	if err == nil || !strings.Contains(err.Error(), "cluster id") {
		t.Errorf("took another broker for ours: %v", err)
	}
}

func TestOldTransactionsAreRefused(t *testing.T) {
	old, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V3_9_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	t.Setenv(envBrokers, strings.Join(old.ListenAddrs(), ","))
	_, err = Start(t.Context(), KindKafka, Options{})
	if err == nil || !strings.Contains(err.Error(), "transaction.version") {
		t.Errorf("started on a cluster with old transactions: %v", err)
	}
}

func TestStartRefusesAnUnknownKind(t *testing.T) {
	if _, err := Start(t.Context(), "rabbit", Options{}); err == nil {
		t.Error("started a rabbit")
	}
}

func TestSweepRemovesOnlyAbandonedDirectories(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	live, err := NewTempDir(dataKind)
	if err != nil {
		t.Fatal(err)
	}
	abandoned, err := NewTempDir(dataKind)
	if err != nil {
		t.Fatal(err)
	}
	if err := abandoned.lock.Close(); err != nil { // as the death of its process does
		t.Fatal(err)
	}
	unlocked := filepath.Join(root, dirPrefix+dataKind+"-unlocked")
	foreign := filepath.Join(root, "other")
	for _, dir := range []string{unlocked, foreign} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep(root, dirPrefix+dataKind, time.Now())
	expectExists(t, true, live.path, abandoned.path, unlocked, foreign) // too young
	sweep(root, dirPrefix+"another", time.Now().Add(2*staleAfter))
	expectExists(t, true, abandoned.path)
	sweep(root, dirPrefix+dataKind, time.Now().Add(2*staleAfter))
	expectExists(t, true, live.path, unlocked, foreign)
	expectExists(t, false, abandoned.path)
	if err := live.Remove(); err != nil {
		t.Fatal(err)
	}
	expectExists(t, false, live.path)
}

func expectExists(t *testing.T, want bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", filepath.Base(path), err == nil, want)
		}
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := Tail(path, 100); got != "" {
		t.Errorf("of no file: %q", got)
	}
	if err := os.WriteFile(path, []byte("first line\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{100: "first line\nsecond\nthird", 15: "second\nthird"} {
		if got := Tail(path, limit); got != want {
			t.Errorf("of %d bytes: %q, want %q", limit, got, want)
		}
	}
}
