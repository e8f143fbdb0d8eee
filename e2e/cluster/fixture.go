package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/e2e/leaktest"
)

const envRequire = "ONCEWARD_REQUIRE_KAFKA"

// Embedded starts an embedded broker for the test and stops it at the test's end. Where the process
// tests on real Kafka it skips the test, which runs without.
func Embedded(t testing.TB) *Cluster {
	t.Helper()
	return Own(t, KindEmbedded)
}

// onKafka says whether this process tests on real Kafka, and whether a missing Kafka is a failure
// then. Neither is so unless the environment asks for it: a JVM is never started because there
// happens to be one.
func onKafka() (wanted, required bool, err error) {
	if v := os.Getenv(envRequire); v != "" {
		if required, err = strconv.ParseBool(v); err != nil {
			return false, false, fmt.Errorf("cluster: %s must be 0 or 1, not %q", envRequire, v)
		}
	}
	return required || os.Getenv(envBrokers) != "", required, nil
}

// Kafka returns the real Kafka that all tests of this process share, and starts it if this is the
// first to ask. The package's TestMain must call [Main]. Where the process does not test on real
// Kafka, it skips the test; where it does and there is none to be had, it fails the test or skips
// it, as the package documentation says.
func Kafka(t testing.TB) *Cluster {
	t.Helper()
	return processBroker.get(t)
}

// Own starts a [Options].ShortLived broker for this test alone, which it may take down, and stops
// it at the test's end. It starts a real Kafka even where ONCEWARD_KAFKA_BROKERS names another, and
// skips or fails like [Kafka] where it cannot. That takes seconds: prefer [Kafka]. An embedded one
// is for the processes that [Embedded] is for.
func Own(t testing.TB, kind Kind) *Cluster {
	t.Helper()
	return OwnWith(t, kind, Options{ShortLived: true})
}

// OwnWith is [Own] with options.
func OwnWith(t testing.TB, kind Kind, o Options) *Cluster {
	t.Helper()
	processBroker.expect(t, kind)
	o.Own = true
	c, err := Start(t.Context(), kind, o)
	if errors.Is(err, ErrUnavailable) {
		processBroker.unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.report(t)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Java returns the Java program, version 17 or newer, and the class path to run a library and its
// programs with. It downloads the library if it is not there yet, and skips or fails like [Kafka]
// where it cannot.
func Java(t testing.TB, l Library) (java, classes string) {
	t.Helper()
	processBroker.expect(t, KindKafka)
	java, err := findJava(t.Context())
	if err == nil {
		classes, err = l.find(t.Context())
	}
	if errors.Is(err, ErrUnavailable) {
		processBroker.unavailable(t, err)
	}
	if err == nil {
		classes = classPath(classes)
		if l.Programs != nil {
			classes, err = compiled.get(t.Context(), java, classes, l)
		}
	}
	if err != nil {
		t.Fatalf("cluster: %v", err)
	}
	return java, classes
}

// Main runs a package's tests, stops the broker that they shared, looks for leaked goroutines and
// exits the process. Call it from TestMain, which has nothing to do afterwards. The leak options
// name goroutines that are not the package's to end; a broker that does not stop and a leak fail an
// otherwise successful run.
func Main(m *testing.M, leaks ...goleak.Option) { os.Exit(Run(m, leaks...)) }

// Run is [Main] for a TestMain that has something to do afterwards: it returns the code to exit
// with.
func Run(m *testing.M, leaks ...goleak.Option) (exitCode int) {
	exitCode = processBroker.run(m, os.Stderr, leaks...)
	if err := compiled.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		exitCode = max(exitCode, 1)
	}
	return exitCode
}

// SkipWithout skips the test where this process does not test on brokers of the kind, for a test
// that looks at what several scenes of that kind have found.
func SkipWithout(t testing.TB, kind Kind) {
	t.Helper()
	processBroker.expect(t, kind)
}

// Client returns a client of the cluster with the given options, closed at the end of the test. On
// a virtual network it is on the host of the observers: give it a [kgo.Dialer] of another one to
// have it bear faults.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	first := []kgo.Opt{kgo.SeedBrokers(c.Brokers()...)}
	if dial := c.Dialer(observer); dial != nil {
		first = append(first, kgo.Dialer(dial))
	}
	client, err := kgo.NewClient(append(first, opts...)...)
	if err != nil {
		t.Fatalf("cluster: new client: %v", err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// CreateTopics creates a test's topics, all in one request: see [Cluster.CreateTopic].
func (c *Cluster) CreateTopics(t testing.TB, partitions int32, topics ...string) {
	t.Helper()
	if err := c.createTopics(t.Context(), partitions, nil, topics...); err != nil {
		t.Fatal(err)
	}
}

// Records returns what [Cluster.ReadAll] does, one partition after the other.
func (c *Cluster) Records(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	records, err := c.ReadAll(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(records...)
}

// Name returns a name for a topic, a group or an application, or the start of several: readable,
// valid for all of them, made of the test's name and suffix, different at every call. On a cluster
// that was not started here, topics and groups whose names start with it are deleted at the end of
// the test. On a virtual network a test gets the same names in every run, because brokers place
// groups and transactional ids by them.
func (c *Cluster) Name(t testing.TB, suffix string) string {
	t.Helper()
	test := strings.TrimPrefix(plain(t.Name()), "test")
	// Topic names end at 249 characters, and an application adds store names and more to its own.
	test = strings.Trim(test[:min(len(test), 60)], "-")
	base := strings.Trim(test+"-"+plain(suffix), "-")
	if c.kind == KindVirtual {
		return fmt.Sprintf("%s-%08x", base, c.named.Add(1))
	}
	name := uniqueName(base)
	if c.external() {
		t.Cleanup(func() {
			if err := c.deleteNamed(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
	}
	return name
}

// plain reduces s to lower case letters, digits and single dashes.
func plain(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// uniqueName appends eight random characters. Their number is fixed, so that no unique name is the
// start of another.
func uniqueName(base string) string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return base + "-" + hex.EncodeToString(id[:])
}

// report shows the end of the broker's log with a failed test's output.
func (c *Cluster) report(t testing.TB) {
	if !t.Failed() {
		return
	}
	if log := c.logTail(); log != "" {
		t.Logf("end of the %s broker's log:\n%s", c.kind, log)
	}
}

// sharedBroker is the real Kafka of a test process.
type sharedBroker struct {
	options Options     // of the broker
	running atomic.Bool // run is on the stack, so somebody will stop the broker
	// patience is what goroutines are given to end in when the tests are over.
	patience time.Duration
	start    sync.Once
	cluster  *Cluster
	err      error
	notice   sync.Once
	stderr   io.Writer // set by run
}

// processBroker is a variable of the package because one broker for all tests of a process is the
// point of it.
var processBroker = sharedBroker{options: Options{ShortLived: true}, patience: leaktest.Patience}

// run is [Run] with what tests replace.
func (s *sharedBroker) run(m interface{ Run() int }, stderr io.Writer, leaks ...goleak.Option) int {
	s.stderr = stderr
	s.running.Store(true)
	code := m.Run()
	if err := s.stop(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		code = max(code, 1)
	}
	// A failed test may well have left something running: do not bury its message under stacks.
	if code == 0 {
		if err := leaktest.Find(s.patience, leaks...); err != nil {
			_, _ = fmt.Fprintln(stderr, "cluster: goroutines outlive the tests:", err)
			code = 1
		}
	}
	return code
}

func (s *sharedBroker) get(t testing.TB) *Cluster {
	t.Helper()
	if !s.running.Load() {
		t.Fatal("cluster: TestMain must call cluster.Main, or nothing would stop the broker that the tests share")
	}
	s.expect(t, KindKafka)
	// Not the test's context: the broker is to outlive it.
	s.start.Do(func() {
		s.cluster, s.err = Start(context.Background(), KindKafka, s.options)
		if s.err == nil {
			s.cluster.shared = true
		}
	})
	if errors.Is(s.err, ErrUnavailable) {
		s.unavailable(t, s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	if err := s.cluster.failure(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cluster.report(t) })
	return s.cluster
}

// stop closes the broker if one was started, and keeps one from being started afterwards.
func (s *sharedBroker) stop() error {
	s.start.Do(func() { s.err = errors.New("cluster: the tests are over") })
	if s.cluster == nil {
		return nil
	}
	return s.cluster.shutdown()
}

// expect skips the test unless this process tests on brokers of the kind.
func (s *sharedBroker) expect(t testing.TB, kind Kind) {
	t.Helper()
	switch wanted, _, err := onKafka(); {
	case err != nil:
		t.Fatal(err)
	case wanted && kind != KindKafka:
		t.Skip("this process tests on real Kafka only: make test runs the test")
	case !wanted && kind == KindKafka:
		s.say(notWanted)
		t.Skip(notWanted)
	}
}

// notWanted is what a package says whose tests on real Kafka are not to run.
const notWanted = "tests on real Kafka: make test-kafka runs them, and so does " + envRequire + "=1"

// say says once what is not run.
func (s *sharedBroker) say(what string) {
	s.notice.Do(func() {
		w := s.stderr
		if w == nil {
			w = os.Stderr
		}
		_, _ = fmt.Fprintln(w, "NOT RUN:", what)
	})
}

// unavailable ends a test that wants a real Kafka of its own where there is none: as failed where
// real Kafka is required. Where the environment only names a cluster it is skipped, with one line
// for the whole package.
func (s *sharedBroker) unavailable(t testing.TB, reason error) {
	t.Helper()
	if _, required, err := onKafka(); err != nil || required {
		t.Fatal(errors.Join(err, fmt.Errorf("%w; %s is set", reason, envRequire)))
	}
	s.say(fmt.Sprintf("tests that start a real Kafka: %v; install Java %d and Maven", reason, minJava))
	t.Skip(reason)
}
